// What is written aside, and what dead writers leave of it.
//
//   TARGET.partial-<pid>     is being written, and will become TARGET
//   TARGET.replaced-<pid>    was TARGET, on file systems that cannot exchange two names in one step
//
// A writer holds a lock (flock) on the folder that it writes, so that others see whether it lives.
#pragma once

#include <filesystem>
#include <string_view>

namespace zeroshard {

std::filesystem::path partial_path(const std::filesystem::path& target);
std::filesystem::path replaced_path(const std::filesystem::path& target);

// Whether a file or folder of this name is one of those.
bool is_unfinished_name(std::string_view name);

// A descriptor that holds the lock; -1 where a living writer has it or there are no locks.
int lock_folder(const std::filesystem::path& folder);

// Removes what dead writers of this target left, and puts the old one back where a crash came
// between the two renames. Dead is who holds no lock and is no process of this host: on a shared
// disk either alone proves nothing.
void recover(const std::filesystem::path& target);

// The same for all targets in a folder that nobody else may write to now (save_lock.h): there the
// lock alone says who lives.
void recover_all_in(const std::filesystem::path& folder);

// The old folder, where a crash between two renames left no `target`; else empty.
std::filesystem::path interrupted_replacement(const std::filesystem::path& target);

// Without the slash at the end and with a folder in front, so that names beside it can be made.
// Throws ConfigError for a path such as "/".
std::filesystem::path normal_target(const std::filesystem::path& target);

}  // namespace zeroshard
