#include "zeroshard/numeric/arrays.h"

#include "zeroshard/base/check.h"
#include "zeroshard/numeric/array_rule.h"
#include "zeroshard/numeric/arrays_on_device.h"
#include "zeroshard/numeric/float_environment.h"
#include "zeroshard/numeric/transfers.h"

namespace zeroshard {
namespace {

void check_write(const ArrayWrite& write) {
  ZS_CHECK_GE(write.count, 0, "array to write");
  ZS_CHECK(write.to != nullptr, "an array of {} elements to write is not there", write.count);
  for (const DType dtype : {write.to_dtype, write.from_dtype, write.via1, write.via2}) {
    float_index(dtype);
  }
}

// Without roundings that change nothing: to what the elements are. (They would still quiet a NaN.)
ArrayWrite simplest(ArrayWrite write) {
  if (write.via1 == write.from_dtype) write.via1 = DType::fp32;
  const bool as_loaded = write.via1 == DType::fp32 && write.factor1 == 1.0F;
  if (as_loaded && write.via2 == write.from_dtype) write.via2 = DType::fp32;
  return write;
}

bool is_plain(const ArrayWrite& write) {
  return write.from != nullptr && write.factor1 == 1.0F && write.factor2 == 1.0F &&
         write.via1 == DType::fp32 && write.via2 == DType::fp32;
}

void write_on_host(const ArrayWrite& write) {
  if (!is_plain(write)) {
    for (std::int64_t i = 0; i < write.count; ++i) write_element(write, i);
    return;
  }
  const Transfers& transfers = transfers_of(best_isa());
  const auto& table = write.adds ? transfers.accumulate : transfers.convert;
  table[float_index(write.to_dtype)][float_index(write.from_dtype)](write.to, write.from,
                                                                    write.count);
}

}  // namespace

void write_arrays(Device device, const std::vector<ArrayWrite>& all) {
  std::vector<ArrayWrite> there;
  for (const ArrayWrite& write : all) {
    if (write.count == 0) continue;
    check_write(write);
    there.push_back(simplest(write));
  }
  if (there.empty()) return;
  if (device != kCpu) return write_arrays_on_device(device, there);
  const FloatEnvironment environment(FloatEnvironment::Subnormals::kept);
  for (const ArrayWrite& write : there) write_on_host(write);
}

}  // namespace zeroshard
