// Takes the place of the driver's library (NVML) on a machine without GPUs: four of them, with
// 80, 40, 40 and 40 GiB.
#include <cstdio>

extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 4;
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  static char devices[4];
  *handle = &devices[index];
  return 0;
}

// Its place among the four.
static int index_of(void* handle) {
  void* first = nullptr;
  nvmlDeviceGetHandleByIndex_v2(0, &first);
  return static_cast<int>(static_cast<char*>(handle) - static_cast<char*>(first));
}

int nvmlDeviceGetName(void* handle, char* name, unsigned bytes) {
  std::snprintf(name, bytes, "%s", index_of(handle) == 0 ? "NVIDIA A100-SXM4-80GB" : "A100 40GB");
  return 0;
}

int nvmlDeviceGetUUID(void* handle, char* uuid, unsigned bytes) {
  std::snprintf(uuid, bytes, "GPU-%dabc0000-1111-2222-3333-444455556666", index_of(handle));
  return 0;
}

int nvmlDeviceGetMemoryInfo(void* handle, unsigned long long* total_free_used) {
  *total_free_used = (index_of(handle) == 0 ? 80ULL : 40ULL) << 30U;
  return 0;
}

int nvmlDeviceGetMigMode(void*, unsigned* now, unsigned* after_reset) {
  *now = *after_reset = 0;
  return 0;
}
}
