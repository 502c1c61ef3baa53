// The dtype that a model's config.json names.
#pragma once

#include <optional>
#include <string>

#include "zeroshard/base/dtype.h"

namespace zeroshard {

// The same JSON with `dtype` (or `torch_dtype`, as older ones say) set, where it names one. A text
// that is no JSON object, and no dtype, leave it as it is.
std::string with_dtype(const std::string& config, std::optional<DType> dtype);

}  // namespace zeroshard
