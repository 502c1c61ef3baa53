#include "zeroshard/device/cuda_driver.h"

#include <array>

#include <dlfcn.h>
#include <fmt/format.h>

#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

void* open_driver() {
  void* const library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library != nullptr) return library;
  throw ConfigError({.what = "there is no NVIDIA driver",
                     .value = dlerror(),
                     .remedy = "run on a machine that has one, or keep everything on the CPU"});
}

template <typename Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

template <typename Function>
void require(void* library, const char* name, Function*& function) {
  if (find(library, name, function)) return;
  throw ConfigError({.what = "the NVIDIA driver lacks a function",
                     .value = name,
                     .remedy = "install driver 470 or later"});
}

CudaDriver find_all() {
  void* const library = open_driver();
  CudaDriver driver;
  require(library, "cuGetErrorString", driver.get_error_string);
  require(library, "cuInit", driver.init);
  require(library, "cuDeviceGetCount", driver.device_get_count);
  require(library, "cuDeviceGet", driver.device_get);
  require(library, "cuDeviceTotalMem_v2", driver.device_total_mem);
  // The first is the only one before driver 470, and does not know of parts of a GPU.
  if (!find(library, "cuDeviceGetUuid_v2", driver.device_get_uuid)) {
    require(library, "cuDeviceGetUuid", driver.device_get_uuid);
  }
  require(library, "cuDeviceGetPCIBusId", driver.device_get_pci_bus_id);
  require(library, "cuDeviceGetAttribute", driver.device_get_attribute);
  require(library, "cuDevicePrimaryCtxRetain", driver.device_primary_ctx_retain);
  require(library, "cuCtxGetCurrent", driver.ctx_get_current);
  require(library, "cuCtxPushCurrent_v2", driver.ctx_push_current);
  require(library, "cuCtxPopCurrent_v2", driver.ctx_pop_current);
  require(library, "cuMemHostRegister_v2", driver.mem_host_register);
  require(library, "cuMemHostUnregister", driver.mem_host_unregister);
  require(library, "cuModuleLoadDataEx", driver.module_load_data_ex);
  require(library, "cuModuleGetFunction", driver.module_get_function);
  require(library, "cuLaunchKernel", driver.launch_kernel);
  find(library, "cuFuncLoad", driver.func_load);
  return driver;
}

}  // namespace

std::string CudaDriver::message_of(Result result) const {
  const char* text = nullptr;
  get_error_string(result, &text);
  return fmt::format("{} (error {})", text == nullptr ? "unknown error" : text, result);
}

const CudaDriver& cuda_driver() {
  static const CudaDriver driver = find_all();
  return driver;
}

void* primary_context(int index) {
  const CudaDriver& driver = cuda_driver();
  int handle = 0;
  void* context = nullptr;
  CudaDriver::Result result = driver.device_get(&handle, index);
  if (result == 0) result = driver.device_primary_ctx_retain(&context, handle);
  if (result == 0) return context;
  throw StateError({.what = fmt::format("the context of cuda:{} cannot be had", index),
                    .value = driver.message_of(result),
                    .remedy = "a device that failed once needs a new process"});
}

std::string device_uuid(int index) {
  const CudaDriver& driver = cuda_driver();
  int handle = 0;
  std::array<char, 16> bytes = {};
  CudaDriver::Result result = driver.device_get(&handle, index);
  if (result == 0) result = driver.device_get_uuid(bytes.data(), handle);
  if (result != 0) {
    throw StateError({.what = fmt::format("cuda:{} does not say which GPU it is", index),
                      .value = driver.message_of(result)});
  }
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::vector<std::int64_t> device_totals() {
  if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) == nullptr) return {};
  const CudaDriver& driver = cuda_driver();
  int count = 0;
  if (driver.init(0) != 0 || driver.device_get_count(&count) != 0) return {};
  std::vector<std::int64_t> totals;
  for (int index = 0; index < count; ++index) {
    int handle = 0;
    std::size_t bytes = 0;
    if (driver.device_get(&handle, index) != 0) return {};
    if (driver.device_total_mem(&bytes, handle) != 0) return {};
    totals.push_back(static_cast<std::int64_t>(bytes));
  }
  return totals;
}

std::string device_bus(int index) {
  const CudaDriver& driver = cuda_driver();
  int handle = 0;
  std::array<char, 32> text = {};
  if (driver.device_get(&handle, index) != 0) return {};
  constexpr int kBytes = static_cast<int>(text.size());
  if (driver.device_get_pci_bus_id(text.data(), kBytes, handle) != 0) return {};
  return text.data();
}

CudaContextScope::CudaContextScope(void* context) {
  const CudaDriver& driver = cuda_driver();
  void* current = nullptr;
  if (driver.ctx_get_current(&current) == 0 && current == context) return;
  const CudaDriver::Result result = driver.ctx_push_current(context);
  if (result == 0) {
    pushed_ = true;
    return;
  }
  throw StateError({.what = "the device's context cannot be used",
                    .value = driver.message_of(result),
                    .remedy = "a device that failed once needs a new process"});
}

CudaContextScope::~CudaContextScope() {
  void* popped = nullptr;
  if (pushed_) cuda_driver().ctx_pop_current(&popped);
}

}  // namespace zeroshard
