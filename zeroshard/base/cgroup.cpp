#include "zeroshard/base/cgroup.h"

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace zeroshard {
namespace {

namespace fs = std::filesystem;

// One line of /proc/self/cgroup: `hierarchy:controllers:path`. Version 2 has no controllers.
struct CgroupLine {
  std::string controllers;
  std::string path;
};

std::vector<CgroupLine> read_cgroup_lines(std::string_view text) {
  std::vector<CgroupLine> lines;
  std::istringstream stream{std::string(text)};
  for (std::string line; std::getline(stream, line);) {
    const auto first = line.find(':');
    const auto second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    lines.push_back({line.substr(first + 1, second - first - 1), line.substr(second + 1)});
  }
  return lines;
}

bool names_controller(std::string_view list, std::string_view controller) {
  const auto between_commas = [](std::string_view text) { return "," + std::string(text) + ","; };
  return between_commas(list).find(between_commas(controller)) != std::string::npos;
}

// Inside a container the path may be the host's; its folders are then missing, and the mount point
// is the container's own.
void for_each_on_path(const fs::path& mount, const std::string& path, CgroupVersion version,
                      const SeeCgroupFolder& see) {
  fs::path folder = mount;
  see(folder, version);
  for (const fs::path& part : fs::path(path).relative_path()) {
    if (part == "..") break;  // the process sits outside of what this namespace shows
    folder /= part;
    see(folder, version);
  }
}

}  // namespace

void for_each_cgroup_folder(const fs::path& root, std::string_view cgroup_text,
                            std::string_view controller, const SeeCgroupFolder& see) {
  const fs::path mount = root / "sys/fs/cgroup";
  for (const auto& [controllers, path] : read_cgroup_lines(cgroup_text)) {
    if (controllers.empty()) {
      for_each_on_path(mount, path, CgroupVersion::v2, see);
    } else if (names_controller(controllers, controller)) {
      // Mounted under the full list of controllers, or under a link named after one of them.
      for_each_on_path(mount / controllers, path, CgroupVersion::v1, see);
      if (controllers != controller) {
        for_each_on_path(mount / controller, path, CgroupVersion::v1, see);
      }
    }
  }
}

std::string text_of_file(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace zeroshard
