// One lock of a folder for all of a process that save there: two engines of one job are not two
// jobs.
#pragma once

#include <filesystem>
#include <memory>

#include "zeroshard/checkpoint/save_lock.h"

namespace zeroshard {

// Held until the last who asked for it lets go. A folder that another process holds is a
// StorageError. Any thread.
std::shared_ptr<SaveLock> process_lock(const std::filesystem::path& folder);

}  // namespace zeroshard
