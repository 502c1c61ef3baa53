#include "cli/this_machine.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include <dlfcn.h>

#include "cli/build_info.h"
#include "zeroshard/base/env.h"

namespace zeroshard::cli {
namespace {

// Of the driver's own library (nvml.h), which is there wherever a driver is.
struct DriverMemory {
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};

class DriverLibrary {
 public:
  DriverLibrary() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    const auto init = function<int()>("nvmlInit_v2");
    shutdown_ = function<int()>("nvmlShutdown");
    is_ready_ = init != nullptr && shutdown_ != nullptr && init() == 0;
  }
  ~DriverLibrary() {
    if (is_ready_) shutdown_();
    if (library_ != nullptr) dlclose(library_);
  }
  DriverLibrary(const DriverLibrary&) = delete;
  DriverLibrary& operator=(const DriverLibrary&) = delete;

  std::vector<LocalGpu> gpus() const {
    const auto count = function<int(unsigned*)>("nvmlDeviceGetCount_v2");
    const auto device = function<int(unsigned, void**)>("nvmlDeviceGetHandleByIndex_v2");
    unsigned number = 0;
    std::vector<LocalGpu> found;
    if (!is_ready_ || count == nullptr || device == nullptr || count(&number) != 0) return found;
    for (unsigned index = 0; index < number; ++index) {
      void* handle = nullptr;
      if (device(index, &handle) == 0) found.push_back(gpu(handle));
    }
    return found;
  }

 private:
  template <typename Function>
  Function* function(const char* name) const {
    return library_ == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library_, name));
  }

  std::string text(const char* name, void* handle) const {
    const auto get = function<int(void*, char*, unsigned)>(name);
    std::array<char, 128> text = {};
    const bool known = get != nullptr && get(handle, text.data(), text.size() - 1) == 0;
    return known ? text.data() : "";
  }

  LocalGpu gpu(void* handle) const {
    LocalGpu found{.name = text("nvmlDeviceGetName", handle),
                   .uuid = text("nvmlDeviceGetUUID", handle)};
    if (found.name.empty()) found.name = "GPU";
    const auto memory = function<int(void*, DriverMemory*)>("nvmlDeviceGetMemoryInfo");
    DriverMemory bytes;
    if (memory != nullptr && memory(handle, &bytes) == 0) {
      found.memory_bytes = static_cast<std::int64_t>(bytes.total);
    }
    const auto mode = function<int(void*, unsigned*, unsigned*)>("nvmlDeviceGetMigMode");
    unsigned now = 0, after_reset = 0;
    found.is_split = mode != nullptr && mode(handle, &now, &after_reset) == 0 && now != 0;
    return found;
  }

  void* const library_;
  int (*shutdown_)() = nullptr;
  bool is_ready_ = false;
};

}  // namespace

std::vector<LocalGpu> gpus_here() {
  std::vector<LocalGpu> all = DriverLibrary().gpus();
  if (all.empty()) all = gpus_of_driver();
  return visible_gpus(all, env_exact(EnvVar::kVisibleGpus));
}

std::vector<LocalGpu> gpus_for(std::string_view device) {
  const bool has_cuda = std::string_view(build_info::kTorchCuda) != "none";
  if (device == "cpu" || (device.empty() && !has_cuda)) return {};
  return gpus_here();
}

int usual_ranks(std::string_view device) {
  if (ranks_for_gpus(device, 2) == 1) return 1;  // whatever there is, and no driver is woken up
  return ranks_for_gpus(device, static_cast<int>(gpus_for(device).size()));
}

}  // namespace zeroshard::cli
