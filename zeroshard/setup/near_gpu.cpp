#include "zeroshard/setup/near_gpu.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "zeroshard/base/cgroup.h"
#include "zeroshard/base/leading_number.h"

namespace zeroshard {
namespace {

namespace fs = std::filesystem;

constexpr int kSameNode = 10;  // as the firmware counts
constexpr int kOtherNode = 20;

// "node7" is 7.
std::optional<int> number_behind(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  const auto number =
      name.empty() || name.front() < '0' || name.front() > '9' ? std::nullopt : take_number(name);
  if (!number || !name.empty() || *number > std::numeric_limits<int>::max()) return std::nullopt;
  return static_cast<int>(*number);
}

// The folders of such names below another one, by their numbers.
std::map<int, fs::path> numbered_folders(const fs::path& parent, std::string_view prefix) {
  std::map<int, fs::path> folders;
  std::error_code none;
  for (const auto& folder : fs::directory_iterator(parent, none)) {
    const auto number = number_behind(folder.path().filename().string(), prefix);
    if (number) folders[*number] = folder.path();
  }
  return folders;
}

MemoryNode read_node(const fs::path& folder) {
  MemoryNode node{.cpus = cpus_in_list(text_of_file(folder / "cpulist")), .distances = {}};
  const std::string text = text_of_file(folder / "distance");
  std::string_view rest = text;
  while (const auto distance = take_number(rest)) {
    node.distances.push_back(static_cast<int>(std::min<std::int64_t>(*distance, 1 << 20)));
  }
  return node;
}

// NVIDIA's, and of those the ones that compute or show pictures: their sound devices and bridges
// are other classes.
bool is_gpu(const fs::path& device) {
  return text_of_file(device / "vendor").starts_with("0x10de") &&
         text_of_file(device / "class").starts_with("0x03");
}

std::vector<CpuSet> read_cores(const fs::path& cpus) {
  std::set<CpuSet> cores;
  for (const auto& [number, folder] : numbered_folders(cpus, "cpu")) {
    CpuSet core = cpus_in_list(text_of_file(folder / "topology/thread_siblings_list"));
    if (!core.empty()) cores.insert(std::move(core));
  }
  return {cores.begin(), cores.end()};
}

int distance_between(const std::vector<MemoryNode>& nodes, std::size_t from, std::size_t to) {
  const std::vector<int>& known = nodes[from].distances;
  if (to < known.size()) return known[to];
  return from == to ? kSameNode : kOtherNode;
}

// Whether no GPU is nearer to `node` than one at `home` is.
bool is_nearest(const MachinePlaces& places, std::size_t home, std::size_t node) {
  const int own = distance_between(places.nodes, home, node);
  return std::ranges::none_of(places.gpu_nodes, [&](const auto& gpu) {
    return distance_between(places.nodes, gpu.second, node) < own;
  });
}

}  // namespace

MachinePlaces read_places(const fs::path& root) {
  MachinePlaces places;
  std::map<int, std::size_t> positions;
  for (const auto& [number, folder] : numbered_folders(root / "sys/devices/system/node", "node")) {
    positions[number] = places.nodes.size();
    places.nodes.push_back(read_node(folder));
  }
  std::error_code none;
  for (const auto& device : fs::directory_iterator(root / "sys/bus/pci/devices", none)) {
    if (!is_gpu(device.path())) continue;
    const std::string text = text_of_file(device.path() / "numa_node");  // -1: not known
    std::string_view rest = text;
    const auto node = positions.find(static_cast<int>(take_number(rest).value_or(-1)));
    if (node != positions.end()) {
      places.gpu_nodes[device.path().filename().string()] = node->second;
    }
  }
  places.cores = read_cores(root / "sys/devices/system/cpu");
  return places;
}

std::string bus_name(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  constexpr std::size_t kDomain = 4;
  const std::size_t digits = std::min(text.find(':'), text.size());
  const std::size_t zeros = std::min(text.find_first_not_of('0'), digits);
  text.erase(0, std::min(zeros, digits - std::min(digits, kDomain)));
  return text;
}

bool knows_place(const MachinePlaces& places, const std::string& bus) {
  const auto home = places.gpu_nodes.find(bus);
  return home != places.gpu_nodes.end() && home->second < places.nodes.size();
}

CpuSet near_cpus(const MachinePlaces& places, const std::string& bus, const CpuSet& mask) {
  if (!knows_place(places, bus)) return mask;
  const std::size_t home = places.gpu_nodes.at(bus);
  CpuSet near;
  for (std::size_t node = 0; node < places.nodes.size(); ++node) {
    if (!is_nearest(places, home, node)) continue;
    const CpuSet& cpus = places.nodes[node].cpus;
    near.insert(near.end(), cpus.begin(), cpus.end());
  }
  std::ranges::sort(near);
  near = common_cpus(near, mask);
  return near.empty() ? mask : near;
}

}  // namespace zeroshard
