// How fast a machine is, and how much memory its device has: measured here, or assumed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zeroshard {

// Measured on this machine (`zeroshard env --measure`), or what such a machine usually has.
struct Rate {
  double value = 0.0;
  bool measured = false;
};

// Of one rank, with all ranks of its host at work. Bytes and operations per second.
struct Rates {
  std::string device;          // "H200", "this CPU"
  Rate product_flops_16 = {};  // matrix products of 16-bit numbers
  Rate product_flops_32 = {};
  Rate device_bytes = {};       // reading and writing the device's memory
  Rate host_update_bytes = {};  // what updates on the host read and write
  Rate copy_down_bytes = {};    // from the device to the host
  Rate copy_up_bytes = {};
  Rate near_bytes = {};          // sent to ranks of the same host
  Rate far_bytes = {};           // to ranks of other hosts
  Rate operator_seconds = {};    // until an operator has begun
  Rate collective_seconds = {};  // until a collective has begun
};

struct KnownDevice {
  std::string_view name;
  std::int64_t memory_bytes;  // what the driver shows
  double product_tflops;      // dense, bf16 or else fp16
  double memory_gb_per_s;
  double copy_gb_per_s;  // to the host and from it, each way
  double link_gb_per_s;  // to other devices of the host, each way
};

const std::vector<KnownDevice>& known_devices();
// "H100", "h100-80gb", "RTX 4090", "NVIDIA H200": by the part that names it.
const KnownDevice* find_device(std::string_view name);

// What to assume of a known device, or of a CPU with so many cores for each rank.
Rates assumed_rates(const KnownDevice& device);
Rates assumed_cpu_rates(int threads);

}  // namespace zeroshard
