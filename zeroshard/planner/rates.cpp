#include "zeroshard/planner/rates.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "zeroshard/base/bytes.h"

namespace zeroshard {
namespace {

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;
constexpr std::int64_t kGiB = 1024 * kMiB;
// Of what a data sheet says: of matrix products in the sizes of models, and of memory.
constexpr double kShareOfProducts = 0.75;
constexpr double kShareOfMemory = 0.85;
constexpr double kShareOfFp32 = 0.25;
// A host of accelerators: two sockets of DDR5, shared by eight of them.
constexpr double kHostBytes = 60 * kGiga;
constexpr double kFarBytes = 40 * kGiga;  // of a card of 400 Gb/s
// What NCCL itself reckons with for a ring of large messages (its src/graph/tuning.cc).
constexpr double kRingBegins = 8.4e-6;
constexpr double kHopOfNvlink = 3.4e-6;
constexpr double kHopOfPcie = 5.7e-6;
constexpr double kHopOfNetwork = 14e-6;
constexpr double kLeastNvlink = 100;  // GB/s: what is slower is a bus

using Words = std::vector<std::string>;

// In lower case; what is no letter and no digit parts them. A maker's prefix is a word of its own.
Words words_of(std::string_view text) {
  Words words;
  bool inside = false;
  for (const char c : text) {
    const auto letter = static_cast<unsigned char>(c);
    const bool part = std::isalnum(letter) != 0;
    if (part && !inside) words.emplace_back();
    if (part) words.back() += static_cast<char>(std::tolower(letter));
    inside = part;
  }
  for (std::string& word : words) {
    if (word.starts_with("rtx") && word.size() > 3) word.erase(0, 3);
  }
  return words;
}

bool has_all(const Words& words, const Words& wanted) {
  return !wanted.empty() && std::ranges::all_of(wanted, [&](const std::string& word) {
    return std::ranges::find(words, word) != words.end();
  });
}

// "80gb" or "144g": so many GiB, as devices are sold.
std::optional<std::int64_t> size_among(const Words& words) {
  for (const std::string& word : words) {
    const auto digits = word.find_first_not_of("0123456789");
    if (digits == 0 || digits == std::string::npos || digits > 4) continue;
    const std::string unit = word.substr(digits);
    if (unit != "g" && unit != "gb" && unit != "gib") continue;
    return std::stoll(word.substr(0, digits)) * kGiB;
  }
  return std::nullopt;
}

// A GPU of another class that has the same number in its name.
bool names_another(const Words& words) {
  return has_all(words, {"laptop"}) || has_all(words, {"mobile"});
}

}  // namespace

const std::vector<KnownDevice>& known_devices() {
  static const std::vector<KnownDevice> all{
      {"T4", 15360 * kMiB, 65, 320, 12, 12},
      {"V100-16GB", 16384 * kMiB, 125, 900, 12, 120},
      {"V100", 32768 * kMiB, 125, 900, 12, 120},
      {"A10G", 23028 * kMiB, 70, 600, 24, 24},
      {"A10", 23028 * kMiB, 125, 600, 24, 24},
      {"L4", 23034 * kMiB, 121, 300, 24, 24},
      {"3090", 24576 * kMiB, 71, 936, 24, 24},
      {"4090", 24564 * kMiB, 165, 1008, 25, 25},
      {"5090", 32607 * kMiB, 209, 1792, 50, 50},
      {"A6000", 49140 * kMiB, 155, 768, 25, 25},
      {"L40", 46068 * kMiB, 181, 864, 25, 25},
      {"L40S", 46068 * kMiB, 362, 864, 25, 25},
      {"A100-40GB", 40960 * kMiB, 312, 1555, 25, 230},
      {"A100", 81920 * kMiB, 312, 2039, 25, 230},
      {"H100", 81559 * kMiB, 989, 3350, 52, 370},
      {"H100-PCIe", 81559 * kMiB, 756, 2039, 52, 52},
      {"H100-NVL", 95830 * kMiB, 835, 3938, 52, 240},
      {"GH200", 97871 * kMiB, 989, 4000, 300, 370},
      {"H200", 143771 * kMiB, 989, 4800, 52, 370},
      {"B200", 183359 * kMiB, 2250, 8000, 55, 700},
  };
  return all;
}

// Of those whose words are all there the one that has most. A size that is a little off is how it
// is sold; one that is far off is another memory's, such as that of a GH200's host.
std::optional<KnownDevice> find_device(std::string_view name) {
  const Words words = words_of(name);
  std::optional<KnownDevice> found;
  std::size_t most = 0;
  for (const KnownDevice& device : known_devices()) {
    const Words known = words_of(device.name);
    if (known.size() <= most || !has_all(words, known)) continue;
    most = known.size();
    found = device;
  }
  if (!found || names_another(words)) return std::nullopt;
  if (const auto size = size_among(words)) {
    const double ratio = static_cast<double>(*size) / static_cast<double>(found->memory_bytes);
    const bool is_same = ratio > 0.9 && ratio < 1.12;
    if (!is_same && ratio > 0.2 && ratio < 2.5) found->memory_bytes = *size;
  }
  return found;
}

const KnownDevice& nearest_device(std::int64_t memory_bytes) {
  const auto distance = [&](const KnownDevice& device) {
    return std::abs(device.memory_bytes - memory_bytes);
  };
  return *std::ranges::min_element(known_devices(), {}, distance);
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
          .collective_seconds = {kRingBegins},
          .near_hop_seconds = {device.link_gb_per_s < kLeastNvlink ? kHopOfPcie : kHopOfNvlink},
          .far_hop_seconds = {kHopOfNetwork}};
}

Rates assumed_latencies() {
  return {.collective_seconds = {kRingBegins},
          .near_hop_seconds = {kHopOfNvlink},
          .far_hop_seconds = {kHopOfNetwork}};
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
