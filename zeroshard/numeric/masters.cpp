#include "zeroshard/numeric/masters.h"

#include <algorithm>

#include "zeroshard/base/check.h"
#include "zeroshard/numeric/masters_on_device.h"

namespace zeroshard {
namespace {

// By 32 bits, as wide as the elements.
constexpr std::int64_t kCountedAtOnce = std::int64_t{1} << 30;

// A copy for each work, so that the compiler vectorises each.
template <MasterWork kWork>
std::int64_t settle_on_host(MasterArrays of) {
  of.work = kWork;
  std::int64_t moved = 0;
  for (std::int64_t begin = 0; begin < of.count; begin += kCountedAtOnce) {
    const std::int64_t end = std::min(of.count, begin + kCountedAtOnce);
    std::uint32_t now = 0;
    for (std::int64_t i = begin; i < end; ++i) now += settle_element(of, i);
    moved += now;
  }
  return moved;
}

std::int64_t work_on_host(const MasterArrays& of) {
  switch (of.work) {
    case MasterWork::settle: return settle_on_host<MasterWork::settle>(of);
    case MasterWork::halve: return settle_on_host<MasterWork::halve>(of);
    case MasterWork::join:
      for (std::int64_t i = 0; i < of.count; ++i) join_element(of, i);
      return 0;
    case MasterWork::forget:
      for (std::int64_t i = 0; i < of.count; ++i) forget_element(of, i);
      return 0;
  }
  return 0;
}

std::int64_t work_on(Device device, const MasterArrays& of) {
  ZS_CHECK_GE(of.count, 0, "masters");
  if (of.count == 0) return 0;
  return device == kCpu ? work_on_host(of) : work_on_masters_of_device(device, of);
}

}  // namespace

std::int64_t settle_masters(Device device, float* masters, std::int64_t count) {
  return work_on(device,
                 {.work = MasterWork::settle, .from = masters, .whole = masters, .count = count});
}

std::int64_t halve_masters(Device device, const MasterHalves& to, const float* from,
                           std::int64_t count) {
  return work_on(device, {.work = MasterWork::halve,
                          .from = from,
                          .parameter = to.parameter,
                          .low = to.low,
                          .count = count});
}

void join_masters(Device device, float* to, const MasterHalves& from, std::int64_t count) {
  work_on(device, {.work = MasterWork::join,
                   .whole = to,
                   .parameter = from.parameter,
                   .low = from.low,
                   .count = count});
}

void forget_low_halves(Device device, const MasterHalves& of, const std::uint16_t* before,
                       std::int64_t count) {
  work_on(device, {.work = MasterWork::forget,
                   .parameter = of.parameter,
                   .low = of.low,
                   .before = before,
                   .count = count});
}

}  // namespace zeroshard
