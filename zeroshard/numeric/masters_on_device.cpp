#include "zeroshard/numeric/masters_on_device.h"

#include "zeroshard/device/kernel_module.h"
#include "zeroshard/numeric/chunks.h"
#include "zeroshard/numeric/device_table.h"
#include "zeroshard/numeric/masters.h"

namespace zeroshard {
namespace {

constexpr char kMastersPtx[] =
#include "zeroshard/numeric/cuda/masters.ptx.inc"
    ;

KernelModule& master_kernels() {
  static KernelModule& module = *new KernelModule("masters", kMastersPtx, {"zs_masters"});
  return module;
}

}  // namespace

std::int64_t work_on_masters_of_device(Device device, const MasterArrays& of) {
  const Stream stream = Stream::current(device);
  const bool counts = of.work == MasterWork::settle || of.work == MasterWork::halve;
  std::uint64_t moved = 0;
  const DeviceTable counter(stream, &moved, counts ? sizeof moved : 0);
  master_kernels().launch(stream, 0,
                          {.blocks = (of.count + kChunk - 1) / kChunk, .threads = kChunkThreads},
                          {&of, &counter.data()});
  if (!counts) return 0;
  copy_bytes(stream, &moved, kCpu, counter.data(), device, sizeof moved);
  stream.synchronize();
  return static_cast<std::int64_t>(moved);
}

void load_master_kernels(Device device) {
  if (device != kCpu) master_kernels().load(device);
}

}  // namespace zeroshard
