#include "zeroshard/numeric/arrays_on_device.h"

#include <algorithm>

#include "zeroshard/device/kernel_module.h"
#include "zeroshard/numeric/array_rule.h"
#include "zeroshard/numeric/device_table.h"

namespace zeroshard {
namespace {

constexpr char kArraysPtx[] =
#include "zeroshard/numeric/cuda/arrays.ptx.inc"
    ;

enum ArrayKernel : std::size_t { kWriteFew, kWriteMany };

KernelModule& array_kernels() {
  static KernelModule& module =
      *new KernelModule("arrays", kArraysPtx, {"zs_write_few", "zs_write_many"});
  return module;
}

std::vector<PlacedWrite> placed(const std::vector<ArrayWrite>& all) {
  std::vector<PlacedWrite> entries;
  std::int64_t chunk = 0;
  for (const ArrayWrite& write : all) {
    const ArrayCut cut = cut_arrays(write.count, chunk,
                                    {{write.to, write.to_dtype}, {write.from, write.from_dtype}});
    entries.push_back({write, cut});
    chunk = end_chunk(cut);
  }
  return entries;
}

}  // namespace

void write_arrays_on_device(Device device, const std::vector<ArrayWrite>& all) {
  const Stream stream = Stream::current(device);
  const std::vector<PlacedWrite> entries = placed(all);
  const auto count = static_cast<int>(entries.size());
  const LaunchShape shape{.blocks = end_chunk(entries.back().cut), .threads = kChunkThreads};
  if (count <= FewWrites::kMost) {
    FewWrites few{};
    std::copy(entries.begin(), entries.end(), few.entries);
    return array_kernels().launch(stream, kWriteFew, shape, {&few, &count});
  }
  const auto bytes = static_cast<std::int64_t>(entries.size() * sizeof(PlacedWrite));
  const DeviceTable table(stream, entries.data(), bytes);
  array_kernels().launch(stream, kWriteMany, shape, {&table.data(), &count});
}

void load_array_kernels(Device device) {
  if (device != kCpu) array_kernels().load(device);
}

}  // namespace zeroshard
