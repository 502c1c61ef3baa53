// A report as people read it: notes left out, and many warnings of one kind as one line.
#pragma once

#include <vector>

#include "zeroshard/config/problem.h"

namespace zeroshard::config {

// With `verbose` every problem stands by itself, notes included. Errors always do.
std::vector<Problem> summary(const Report& report, bool verbose = false);

}  // namespace zeroshard::config
