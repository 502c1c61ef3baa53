// A driver of one device of 24 GiB that can do nothing else: what is asked of it before torch is
// loaded.
#include <cstddef>

extern "C" {

int cuInit(unsigned) { return 0; }
int cuDeviceGetCount(int* count) {
  *count = 1;
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = std::size_t{24} << 30U;
  return 0;
}

constexpr int kNotSupported = 801;
int cuGetErrorString() { return kNotSupported; }
int cuDeviceGetUuid_v2() { return kNotSupported; }
int cuDeviceGetPCIBusId() { return kNotSupported; }
int cuDeviceGetAttribute() { return kNotSupported; }
int cuDevicePrimaryCtxRetain() { return kNotSupported; }
int cuCtxGetCurrent() { return kNotSupported; }
int cuCtxPushCurrent_v2() { return kNotSupported; }
int cuCtxPopCurrent_v2() { return kNotSupported; }
int cuMemHostRegister_v2() { return kNotSupported; }
int cuMemHostUnregister() { return kNotSupported; }
int cuModuleLoadDataEx() { return kNotSupported; }
int cuModuleGetFunction() { return kNotSupported; }
int cuLaunchKernel() { return kNotSupported; }
}
