// A master in two halves: with a bf16 parameter only the 16 bits of the master that the parameter
// lacks are stored, and the parameter is its upper half.
//
// `low` is the master's lower half as it stands. Where its first bit is set, rounding to nearest
// has carried into the parameter, so as a signed number it is the difference of the two:
//
//   master = (parameter << 16) + low, low from -0x8000 to 0x7FFF
//
// That gives every pattern back, infinities and finite numbers that round to them included, but for
// one tie in two: nearest even takes 0x....8000 down where the upper half is even, and the
// difference, +0x8000, is one more than 16 bits hold. So whoever makes a master of a bf16 parameter
// settles it first: such a tie, one pattern in 131,072, gives its last bit away, towards the
// parameter, which stays the same. Whole masters are settled too, so that both have the same bits.
// All NaNs are one (with_one_nan), whose lower half is zero.
#pragma once

#include "zeroshard/base/host_device.h"

namespace zeroshard::kernels {

// On 32 bits of each lane: the same text for all lanes. A template over Lanes, not over its bits,
// for the reason that transfers.h gives.
template <typename Lanes>
struct HalvedMaster {
  using Bits = typename Lanes::Bits;

  // The bits less 1 where the last 17 are those of the tie that does not fit.
  ZS_HOST_DEVICE static Bits settled(Bits master) {
    const Bits other = (master & 0x1FFFFU) ^ 0x8000U;  // 0 for the tie
    return master - ((other - 1U) >> 31U);
  }

  // Of a settled master: nearest even, whose ties now all go up.
  ZS_HOST_DEVICE static Bits parameter(Bits settled) { return (settled + 0x8000U) >> 16U; }
  ZS_HOST_DEVICE static Bits low(Bits settled) { return settled & 0xFFFFU; }

  // Both are 16 bits with zeros before them.
  ZS_HOST_DEVICE static Bits joined(Bits parameter, Bits low) {
    return (parameter << 16U) + ((low ^ 0x8000U) - 0x8000U);
  }
};

}  // namespace zeroshard::kernels
