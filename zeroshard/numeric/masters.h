// Arrays of masters of bf16 parameters, whole or in two halves (halved_master.h): one form into the
// other, for checkpoints, for readers, and for scopes in which somebody writes parameters.
//
//   const MasterHalves halves{.parameter = bf16, .low = low};
//   const std::int64_t moved = halve_masters(device, halves, loaded, numel);  // says how many ties
//   join_masters(device, to_save, halves, numel);
//
// Bit for bit, on every device. All pointers are of `device`, and calls are in the order of its
// current stream. What returns a number waits for it; the others return at once on an accelerator.
// The arrays do not overlap. An array may be given in parts, from several threads.
#pragma once

#include <cstdint>

#include "zeroshard/device/device.h"

namespace zeroshard {

struct MasterHalves {
  std::uint16_t* parameter = nullptr;  // bf16: the upper half
  std::uint16_t* low = nullptr;
};

// Settles whole masters where they are, as every update does; returns how many were ties that moved
// by their last bit. For masters that come from elsewhere and stay whole. NaNs become the one NaN.
std::int64_t settle_masters(Device device, float* masters, std::int64_t count);

// to = from, settled; returns the number of ties that moved. The parameter is the master rounded to
// nearest even.
std::int64_t halve_masters(Device device, const MasterHalves& to, const float* from,
                           std::int64_t count);

// to = from, whole.
void join_masters(Device device, float* to, const MasterHalves& from, std::int64_t count);

// After somebody has written parameters, of which `before` is a copy: where the bits are others the
// parameter is the whole master now, so its lower half becomes zero. The others keep theirs.
void forget_low_halves(Device device, const MasterHalves& of, const std::uint16_t* before,
                       std::int64_t count);

// Brings the kernels to an accelerator (KernelModule::load says who must); nothing on the CPU.
void load_master_kernels(Device device);

}  // namespace zeroshard
