// A limit for what torch's allocator gives out of a GPU. Torch has a function for it, in its CUDA
// half, behind CUDA's headers; without these it is a setting in an environment variable that the
// allocator reads once, when it starts.
//
//   limit_allocator(10 << 30, device_totals()[0]);
//   load_accelerators();
//
// What it does not hold back: the driver's context, and libraries that ask the driver themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace zeroshard {

// Before load_accelerators(). Settings that the user has made stay. It is said in the log where the
// allocator that they choose knows no limit.
void limit_allocator(std::int64_t bytes, std::int64_t device_total);

// The share of the device with which the allocator, which multiplies and rounds down, comes out at
// these bytes. Nothing where the device has no more anyway.
std::optional<double> limiting_fraction(std::int64_t bytes, std::int64_t device_total);

// The settings with the fraction; a smaller one of the user's own stays as it is.
std::string with_memory_fraction(std::string_view settings, double fraction);

}  // namespace zeroshard
