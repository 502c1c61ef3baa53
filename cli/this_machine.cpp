#include "cli/this_machine.h"

#include <filesystem>
#include <fstream>
#include <system_error>

namespace zeroshard::cli {

std::vector<std::string> gpus_here() {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& folder : fs::directory_iterator("/proc/driver/nvidia/gpus", none)) {
    std::ifstream file(folder.path() / "information");
    std::string name = "GPU";
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with("Model:")) continue;
      const auto begin = line.find_first_not_of(" \t", 6);
      if (begin != std::string::npos) name = line.substr(begin);
    }
    names.push_back(name);
  }
  return names;
}

}  // namespace zeroshard::cli
