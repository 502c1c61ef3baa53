#include "zeroshard/planner/rates.h"

#include <cctype>

#include "zeroshard/base/bytes.h"

namespace zeroshard {
namespace {

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;
// Of what a data sheet says: of matrix products in the sizes of models, and of memory.
constexpr double kShareOfProducts = 0.75;
constexpr double kShareOfMemory = 0.85;
constexpr double kShareOfFp32 = 0.25;
// A host of accelerators: two sockets of DDR5, shared by eight of them.
constexpr double kHostBytes = 60 * kGiga;
constexpr double kFarBytes = 40 * kGiga;  // 400 Gb/s for each rank

// Lower case, without what is no letter and no digit.
std::string bare(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0) out += static_cast<char>(std::tolower(letter));
  }
  return out;
}

}  // namespace

// More special names come before those that they contain.
const std::vector<KnownDevice>& known_devices() {
  static const std::vector<KnownDevice> all{
      {"T4", 15360 * kMiB, 65, 320, 12, 12},
      {"V100-16GB", 16384 * kMiB, 125, 900, 12, 120},
      {"V100", 32768 * kMiB, 125, 900, 12, 120},
      {"A10", 23028 * kMiB, 125, 600, 24, 24},
      {"L4", 23034 * kMiB, 121, 300, 24, 24},
      {"3090", 24576 * kMiB, 71, 936, 24, 24},
      {"4090", 24564 * kMiB, 165, 1008, 25, 25},
      {"5090", 32607 * kMiB, 209, 1792, 50, 50},
      {"A6000", 49140 * kMiB, 155, 768, 25, 25},
      {"L40S", 46068 * kMiB, 362, 864, 25, 25},
      {"A100-40GB", 40960 * kMiB, 312, 1555, 25, 230},
      {"A100", 81920 * kMiB, 312, 2039, 25, 230},
      {"H100", 81559 * kMiB, 989, 3350, 52, 370},
      {"GH200", 97871 * kMiB, 989, 4000, 300, 370},
      {"H200", 143771 * kMiB, 989, 4800, 52, 370},
      {"B200", 183359 * kMiB, 2250, 8000, 55, 700},
  };
  return all;
}

const KnownDevice* find_device(std::string_view name) {
  const std::string wanted = bare(name);
  const KnownDevice* found = nullptr;
  std::size_t longest = 0;
  for (const KnownDevice& device : known_devices()) {
    const std::string known = bare(device.name);
    if (wanted.find(known) == std::string::npos || known.size() <= longest) continue;
    longest = known.size();
    found = &device;
  }
  return found;
}

Rates assumed_rates(const KnownDevice& device) {
  const double products = device.product_tflops * kTera * kShareOfProducts;
  return {.device = std::string(device.name),
          .product_flops_16 = {products},
          .product_flops_32 = {products * kShareOfFp32},
          .device_bytes = {device.memory_gb_per_s * kGiga * kShareOfMemory},
          .host_update_bytes = {kHostBytes},
          .copy_down_bytes = {device.copy_gb_per_s * kGiga},
          .copy_up_bytes = {device.copy_gb_per_s * kGiga},
          .near_bytes = {device.link_gb_per_s * kGiga},
          .far_bytes = {kFarBytes},
          .operator_seconds = {4e-6},
          .collective_seconds = {20e-6}};
}

Rates assumed_cpu_rates(int threads) {
  const double cores = threads;
  return {.device = "CPU",
          .product_flops_16 = {80 * kGiga * cores},
          .product_flops_32 = {80 * kGiga * cores},
          .device_bytes = {8 * kGiga * cores},
          .host_update_bytes = {8 * kGiga * cores},
          .copy_down_bytes = {5 * kGiga},
          .copy_up_bytes = {5 * kGiga},
          .near_bytes = {1.5 * kGiga},
          .far_bytes = {1 * kGiga},
          .operator_seconds = {5e-6},
          .collective_seconds = {50e-6}};
}

}  // namespace zeroshard
