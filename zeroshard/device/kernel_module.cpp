#include "zeroshard/device/kernel_module.h"

#include <array>
#include <limits>

#include <fmt/format.h>

#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"
#include "zeroshard/device/cuda_driver.h"

namespace zeroshard {
namespace {

// Of the driver's lists of attributes and of compile options.
constexpr int kCapabilityMajor = 75, kCapabilityMinor = 76;
constexpr int kErrorLog = 5, kErrorLogBytes = 6;

std::string describe(const CudaDriver& driver, Device device, int handle) {
  int major = 0, minor = 0;
  driver.device_get_attribute(&major, kCapabilityMajor, handle);
  driver.device_get_attribute(&minor, kCapabilityMinor, handle);
  return fmt::format("{}, compute capability {}.{}", name_of(device), major, minor);
}

void require_success(CudaDriver::Result result, std::string_view what) {
  if (result == 0) return;
  throw StateError({.what = std::string(what),
                    .value = cuda_driver().message_of(result),
                    .remedy = "CUDA_LAUNCH_BLOCKING=1 shows the call at fault; a device that "
                              "failed once needs a new process"});
}

// What the driver's compiler says of the text is in the message, where it says something.
void* load_text(const char* ptx, const std::string& name, const std::string& where) {
  const CudaDriver& driver = cuda_driver();
  std::array<char, 1024> log{};
  int options[] = {kErrorLog, kErrorLogBytes};
  void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
  void* module = nullptr;
  const CudaDriver::Result result = driver.module_load_data_ex(&module, ptx, 2, options, values);
  if (result == 0) return module;
  throw ConfigError(
      {.what = fmt::format("the device cannot load the kernels '{}'", name),
       .value = fmt::format("{}: {} {}", where, driver.message_of(result), log.data()),
       .remedy = "they need compute capability 8.0 or later, and driver 470 or later"});
}

}  // namespace

void KernelModule::load(Device device) { loaded_on(device); }

const KernelModule::Loaded& KernelModule::loaded_on(Device device) {
  const std::lock_guard lock(mutex_);
  const auto found = by_device_.find(device.index);
  if (found != by_device_.end()) return found->second;
  return by_device_.emplace(device.index, load_on(device)).first->second;
}

KernelModule::Loaded KernelModule::load_on(Device device) const {
  ZS_CHECK(device.kind == DeviceKind::cuda, "kernels on {}", name_of(device));
  const CudaDriver& driver = cuda_driver();
  int handle = 0;
  Loaded loaded;
  require_success(driver.device_get(&handle, device.index), "there is no such device");
  loaded.context = primary_context(device.index);
  const CudaContextScope scope(loaded.context);
  void* const module = load_text(ptx_, name_, describe(driver, device, handle));
  for (const std::string& name : functions_) {
    void* function = nullptr;
    require_success(driver.module_get_function(&function, module, name.c_str()),
                    fmt::format("the kernels '{}' lack {}", name_, name));
    // The driver is lazy: without this the first launch would load, and stop the host for it.
    if (driver.func_load != nullptr) {
      require_success(driver.func_load(function), "a kernel cannot be loaded");
    }
    loaded.functions.push_back(function);
  }
  return loaded;
}

void KernelModule::launch(const Stream& stream, std::size_t function, LaunchShape shape,
                          std::initializer_list<const void*> arguments) {
  if (shape.blocks == 0) return;
  ZS_CHECK(shape.blocks > 0 && shape.blocks <= std::numeric_limits<std::int32_t>::max(),
           "a launch of {} blocks", shape.blocks);
  const Loaded& loaded = loaded_on(stream.device());
  const CudaContextScope scope(loaded.context);
  std::vector<void*> addresses;
  for (const void* argument : arguments) addresses.push_back(const_cast<void*>(argument));
  const auto result = cuda_driver().launch_kernel(
      loaded.functions.at(function), static_cast<unsigned>(shape.blocks), 1, 1,
      static_cast<unsigned>(shape.threads), 1, 1, 0, stream.native(), addresses.data(), nullptr);
  require_success(result, fmt::format("{} cannot be launched", functions_[function]));
}

}  // namespace zeroshard
