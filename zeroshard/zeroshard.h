// Everything a user of the library needs, in one include. Link zeroshard::zeroshard, which brings
// torch; without torch there are zeroshard/core.h and zeroshard::core. Includes only.
#pragma once

#include "zeroshard/checkpoint/model_folder.h"
#include "zeroshard/checkpoint/safetensors.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/comm/join.h"
#include "zeroshard/core.h"
#include "zeroshard/device/accelerators.h"
#include "zeroshard/device/device.h"
#include "zeroshard/engine/engine.h"
#include "zeroshard/engine/init.h"
#include "zeroshard/engine/unit.h"
#include "zeroshard/models/dense.h"
#include "zeroshard/models/generate.h"
#include "zeroshard/models/gpt.h"
#include "zeroshard/models/spec.h"
#include "zeroshard/monitor/monitor.h"
#include "zeroshard/trainer/batch_shape.h"
#include "zeroshard/trainer/batches.h"
#include "zeroshard/trainer/engine_options.h"
#include "zeroshard/trainer/synthetic.h"
#include "zeroshard/trainer/token_file.h"
