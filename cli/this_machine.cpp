#include "cli/this_machine.h"

#include <filesystem>
#include <fstream>
#include <system_error>

#include <dlfcn.h>

namespace zeroshard::cli {
namespace {

// Of the driver's own library (nvml.h), which is there wherever a driver is.
struct DriverMemory {
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};

template <typename Function>
Function* function_of(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

std::optional<std::int64_t> memory_of_first(void* library) {
  const auto init = function_of<int()>(library, "nvmlInit_v2");
  const auto device = function_of<int(unsigned, void**)>(library, "nvmlDeviceGetHandleByIndex_v2");
  const auto memory = function_of<int(void*, DriverMemory*)>(library, "nvmlDeviceGetMemoryInfo");
  const auto shutdown = function_of<int()>(library, "nvmlShutdown");
  if (init == nullptr || device == nullptr || memory == nullptr || shutdown == nullptr) return {};
  if (init() != 0) return {};
  void* first = nullptr;
  DriverMemory found;
  const bool known = device(0, &first) == 0 && memory(first, &found) == 0;
  shutdown();
  return known ? std::optional(static_cast<std::int64_t>(found.total)) : std::nullopt;
}

}  // namespace

std::optional<std::int64_t> gpu_memory_here() {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  const auto bytes = memory_of_first(library);
  dlclose(library);
  return bytes;
}

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
