// The few functions of NVIDIA's driver that we call, found at run time: there is no CUDA header,
// and programs start where there is no driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace zeroshard {

// Members are named as the driver's functions are, without their `cu`. Handles are opaque.
struct CudaDriver {
  using Result = int;

  Result (*get_error_string)(Result, const char**) = nullptr;
  Result (*init)(unsigned flags) = nullptr;
  Result (*device_get_count)(int* count) = nullptr;
  Result (*device_get)(int* device, int ordinal) = nullptr;
  Result (*device_total_mem)(std::size_t* bytes, int device) = nullptr;
  Result (*device_get_uuid)(char* sixteen_bytes, int device) = nullptr;
  Result (*device_get_pci_bus_id)(char* text, int bytes, int device) = nullptr;
  Result (*device_get_attribute)(int* value, int attribute, int device) = nullptr;
  Result (*device_primary_ctx_retain)(void** context, int device) = nullptr;
  Result (*ctx_get_current)(void** context) = nullptr;
  Result (*ctx_push_current)(void* context) = nullptr;
  Result (*ctx_pop_current)(void** context) = nullptr;
  Result (*mem_host_register)(void* data, std::size_t bytes, unsigned flags) = nullptr;
  Result (*mem_host_unregister)(void* data) = nullptr;
  Result (*module_load_data_ex)(void** module, const void* image, unsigned options, int* names,
                                void** values) = nullptr;
  Result (*module_get_function)(void** function, void* module, const char* name) = nullptr;
  Result (*func_load)(void* function) = nullptr;  // null in drivers before CUDA 12.4
  Result (*launch_kernel)(void* function, unsigned, unsigned, unsigned, unsigned, unsigned,
                          unsigned, unsigned shared_bytes, void* stream, void** arguments,
                          void** extra) = nullptr;

  // "an illegal memory access was encountered (error 700)"
  std::string message_of(Result result) const;
};

// Throws ConfigError where there is no driver, or one that lacks a function.
const CudaDriver& cuda_driver();

// The context of device `index` that torch uses, which is the primary one. It is retained for good.
// Throws StateError.
void* primary_context(int index);

// The driver's identifier of device `index`, in hexadecimal; of a part of a GPU that is split, its
// own. Throws StateError.
std::string device_uuid(int index);

// The memory of each device, which is known before torch's CUDA half is loaded. Empty where there
// is no driver or no device.
std::vector<std::int64_t> device_totals();

// Where device `index` is on the bus, as the driver writes it; of a part of a GPU, where that is.
// Empty where the driver does not say.
std::string device_bus(int index);

// While it lives, the context is this thread's current one.
class CudaContextScope {
 public:
  explicit CudaContextScope(void* context);
  ~CudaContextScope();
  CudaContextScope(const CudaContextScope&) = delete;
  CudaContextScope& operator=(const CudaContextScope&) = delete;

 private:
  bool pushed_ = false;
};

}  // namespace zeroshard
