// How fast a machine is, and how much memory its device has: measured here, or assumed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zeroshard {

// Measured on this machine (`zeroshard env --measure`), given by the user, or what such a machine
// usually has.
struct Rate {
  double value = 0.0;
  bool measured = false;
  bool given = false;

  std::string_view source() const { return measured ? "measured" : given ? "given" : "assumed"; }
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
  Rate far_bytes = {};           // to other hosts, through one network card
  Rate operator_seconds = {};    // until an operator has begun
  Rate collective_seconds = {};  // until a collective has begun
  Rate near_hop_seconds = {};    // from a rank to the next of its host, however little
  Rate far_hop_seconds = {};     // to the next host
  int measured_hops = 0;         // so many are in a measured `collective_seconds`

  // Else only what travels between ranks can be timed.
  bool has_compute() const { return product_flops_16.value > 0 && device_bytes.value > 0; }
  bool has_network() const { return near_bytes.value > 0 && far_bytes.value > 0; }
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
// "H100", "h100-80gb", "RTX 4090", "NVIDIA A100-SXM4-40GB": by the words that name it, and with the
// size that stands among them. Nothing for a name that is only like one that is known.
std::optional<KnownDevice> find_device(std::string_view name);
// Whose memory comes nearest: its rates are taken for a device of which only the size is known.
const KnownDevice& nearest_device(std::int64_t memory_bytes);

// What to assume of a known device, or of a CPU with so many cores for each rank.
Rates assumed_rates(const KnownDevice& device);
Rates assumed_cpu_rates(int threads);
// Of GPUs of which nothing is known: what messages between them wait for.
Rates assumed_latencies();

}  // namespace zeroshard
