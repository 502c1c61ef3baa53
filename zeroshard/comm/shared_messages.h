// Messages through memory, between ranks of one host: a copy in and a copy out, both sides at once.
#pragma once

#include <memory>

#include "zeroshard/comm/messages.h"
#include "zeroshard/comm/options.h"

namespace zeroshard {

// The ranks introduce themselves by `first`, which is not needed afterwards. Null, on all ranks,
// where they are on several hosts or may not see each other's memory. Collective.
std::unique_ptr<Messages> share_memory(Messages& first, const CommOptions& options);

}  // namespace zeroshard
