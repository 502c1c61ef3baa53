#include "zeroshard/setup/rank_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "zeroshard/base/fnv1a.h"
#include "zeroshard/base/memory_room.h"
#include "zeroshard/device/backend.h"
#include "zeroshard/planner/overheads.h"
#include "zeroshard/setup/this_host.h"

namespace zeroshard {
namespace {

constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();

// What a rank tells the others.
struct MemoryReport {
  std::int64_t host = 0;
  std::uint64_t device = 0;  // a hash of its identity
  std::int64_t device_free = kUnknown;
  std::int64_t host_room = kUnknown;
  std::int64_t resident = 0;
};

std::vector<MemoryReport> gather(const MemoryReport& mine, Communicator& comm) {
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(MemoryReport));
  std::vector<MemoryReport> all(static_cast<std::size_t>(comm.world_size()));
  comm.all_gather_into({{ConstPiece{&mine, kBytes, DType::uint8},
                         Piece{all.data(), kBytes * comm.world_size(), DType::uint8}}},
                       "memory")
      .wait();
  return all;
}

template <typename Of>
std::int64_t count_where(const std::vector<MemoryReport>& all, const Of& of) {
  return std::ranges::count_if(all, of);
}

std::int64_t share_of(std::int64_t bytes, std::int64_t sharers) {
  return bytes == kUnknown ? kUnknown : bytes / sharers;
}

std::optional<std::int64_t> known(std::int64_t bytes) {
  if (bytes == kUnknown) return std::nullopt;
  return bytes;
}

std::int64_t status_bytes(std::string_view name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(name)) continue;
    std::istringstream words(line.substr(name.size()));
    std::int64_t kib = 0;
    words >> kib;
    return kib * 1024;
  }
  return 0;
}

// What a rank may take of the device, libraries included: a plan counts them, while the driver has
// given them theirs as soon as it is asked. Ranks that share a device must all have been there.
std::int64_t free_on(Device device, Communicator& comm) {
  DeviceBackend& backend = backend_of(device.kind);
  const bool is_known = backend.device_memory(device.index).has_value();
  comm.barrier("each rank has its device").wait();
  if (!is_known) return kUnknown;
  const DeviceMemory memory = *backend.device_memory(device.index);
  return memory.free + memory.kept;
}

// Its index does not do: ranks that see one GPU each all call theirs the first.
std::uint64_t identity_of(Device device) {
  return Fnv1a().add(std::string_view(backend_of(device.kind).identity(device.index))).value();
}

}  // namespace

RankMemory agree_on_memory(Device device, const GivenMemory& given, Communicator& comm) {
  MemoryReport mine{.host = this_host(), .device = identity_of(device)};
  mine.device_free = free_on(device, comm);
  const std::optional<MemoryRoom> here = memory_room();
  if (here) mine.host_room = here->bytes;
  mine.resident = resident_bytes();
  const std::vector<MemoryReport> all = gather(mine, comm);
  RankMemory agreed;
  const std::int64_t libraries_there =
      process_overheads({.accelerator = device != kCpu}).at_start.device_bytes;
  std::int64_t device_bytes = kUnknown, host_bytes = kUnknown;
  for (const MemoryReport& rank : all) {
    const std::int64_t neighbours =
        count_where(all, [&](const MemoryReport& other) { return other.host == rank.host; });
    const std::int64_t sharers = count_where(all, [&](const MemoryReport& other) {
      return other.host == rank.host && other.device == rank.device;
    });
    agreed.ranks_on_host = std::max(agreed.ranks_on_host, static_cast<int>(neighbours));
    // Each has libraries of its own there, which are not among what is free.
    const std::int64_t share = share_of(rank.device_free, sharers);
    device_bytes = std::min(device_bytes, share == kUnknown ? share : share + libraries_there);
    // A plan counts the whole process, of which a part is there already.
    const std::int64_t room = share_of(given.host.value_or(rank.host_room), neighbours);
    const bool adds = !given.host && room != kUnknown;
    const std::int64_t may_take = adds ? room + rank.resident : room;
    if (may_take >= host_bytes) continue;
    host_bytes = may_take;
    agreed.host_said_by = adds && here && rank.host == mine.host ? here->set_by : "";
  }
  if (given.device) device_bytes = *given.device;
  const bool in_one = device == kCpu && !given.device;
  agreed.limits.device = known(device_bytes);
  (in_one ? agreed.limits.both : agreed.limits.host) = known(host_bytes);
  return agreed;
}

std::int64_t resident_bytes() { return status_bytes("VmRSS:"); }
std::int64_t peak_resident_bytes() { return status_bytes("VmHWM:"); }

}  // namespace zeroshard
