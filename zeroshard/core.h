// The torch-free part of the library in one include: configuration, layouts, schedules, planning.
// Link zeroshard::core. Includes only, level by level, lowest first.
#pragma once

#include "zeroshard/base/bytes.h"
#include "zeroshard/base/dtype.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/log.h"
#include "zeroshard/config/batch_size.h"
#include "zeroshard/config/config.h"
#include "zeroshard/config/explain.h"
#include "zeroshard/config/read.h"
#include "zeroshard/layout/bucket_plan.h"
#include "zeroshard/layout/flat_layout.h"
#include "zeroshard/layout/placement.h"
#include "zeroshard/layout/span.h"
#include "zeroshard/layout/unit_layout.h"
#include "zeroshard/planner/footprint.h"
#include "zeroshard/schedule/lr_schedule.h"
#include "zeroshard/setup/settled_config.h"
