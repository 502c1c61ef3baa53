// Where the kernel keeps the limits of a group of processes, such as a container's.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace zeroshard {

enum class CgroupVersion { v1, v2 };

using SeeCgroupFolder = std::function<void(const std::filesystem::path& folder, CgroupVersion)>;

// Shows every folder in which `controller` ("cpu", "memory") may limit the process: the mount point
// and all on the way down to the process's own. Folders may be missing. `root` is where
// /sys/fs/cgroup is looked for and `cgroup_text` is what /proc/self/cgroup says, so that tests can
// bring their own.
void for_each_cgroup_folder(const std::filesystem::path& root, std::string_view cgroup_text,
                            std::string_view controller, const SeeCgroupFolder& see);

// All of a file; "" where it cannot be read.
std::string text_of_file(const std::filesystem::path& path);

}  // namespace zeroshard
