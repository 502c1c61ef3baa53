// As on a file system that cannot exchange two names in one step, and is slow.
#pragma once

namespace zeroshard {

// In this process and those that it forks from here on.
void replace_folders_by_two_renames(bool on);

}  // namespace zeroshard
