#include "zeroshard/setup/choose_device.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "zeroshard/base/cpu_limit.h"
#include "zeroshard/base/cpu_set.h"
#include "zeroshard/base/env.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/log.h"
#include "zeroshard/device/accelerators.h"
#include "zeroshard/device/allocator_limit.h"
#include "zeroshard/device/backend.h"
#include "zeroshard/device/cuda_driver.h"
#include "zeroshard/setup/near_gpu.h"
#include "zeroshard/setup/share_cpus.h"
#include "zeroshard/setup/this_host.h"
#include "zeroshard/setup/visible_gpus.h"

namespace zeroshard {
namespace {

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

Device gpu(int index, int count) {
  if (index < count) return {DeviceKind::cuda, index};
  throw ConfigError({.what = "there is no such GPU",
                     .value = fmt::format("cuda:{}, of {}", index, count),
                     .remedy = count == 0 ? missing_reason(DeviceKind::cuda)
                                          : fmt::format("give cuda:0 to cuda:{}", count - 1)});
}

// Of the GPU that is meant among `count` of them; it may not be there.
int index_of(const std::string& wanted, int local_rank, int count) {
  if (wanted.empty() || wanted == "cuda") return gpu_of_rank(local_rank, count);
  const auto index =
      wanted.starts_with("cuda:") ? number_in(std::string_view(wanted).substr(5)) : std::nullopt;
  if (index) return *index;
  throw ConfigError(
      {.what = "unknown device", .value = wanted, .remedy = "give cpu, cuda or cuda:N"});
}

// The allocator reads its limit once, when it starts, so the driver tells how much there is.
void limit_gpu(const std::string& wanted, int local_rank, std::int64_t bytes) {
  const std::vector<std::int64_t> totals = device_totals();
  const int count = static_cast<int>(totals.size());
  const int index = index_of(wanted, local_rank, count);
  if (index < count) limit_allocator(bytes, totals[static_cast<std::size_t>(index)]);
}

// RankCpus as ranks send it. Of a machine with more CPUs the others stay unused.
struct Message {
  std::int32_t host = 0;
  std::int32_t quota = 0;    // 0: none
  std::int64_t threads = 0;  // 0: nobody says
  std::array<std::uint64_t, 128> mask = {};
};

constexpr int kBits = 64;

Message message_of_this_rank() {
  Message mine{.host = this_host(),
               .quota = cpu_quota().value_or(0),
               .threads = env_integer(EnvVar::kOmpThreads).value_or(0)};
  for (const int cpu : affinity()) {
    const auto word = static_cast<std::size_t>(cpu / kBits);
    if (word < mine.mask.size()) mine.mask[word] |= std::uint64_t{1} << (cpu % kBits);
  }
  return mine;
}

RankCpus cpus_in(const Message& message) {
  RankCpus rank{.host = message.host, .may_use = {}};
  if (message.quota > 0) rank.quota = message.quota;
  if (message.threads > 0) rank.given_threads = message.threads;
  for (int cpu = 0; cpu < kBits * static_cast<int>(message.mask.size()); ++cpu) {
    const std::uint64_t word = message.mask[static_cast<std::size_t>(cpu / kBits)];
    if ((word >> (cpu % kBits) & 1U) != 0) rank.may_use.push_back(cpu);
  }
  return rank;
}

std::vector<RankCpus> cpus_of_ranks(Communicator& comm) {
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(Message));
  const Message mine = message_of_this_rank();
  std::vector<Message> all(static_cast<std::size_t>(comm.world_size()));
  comm.all_gather_into({{ConstPiece{&mine, kBytes, DType::uint8},
                         Piece{all.data(), kBytes * comm.world_size(), DType::uint8}}},
                       "CPUs of ranks")
      .wait();
  std::vector<RankCpus> ranks;
  for (const Message& each : all) ranks.push_back(cpus_in(each));
  return ranks;
}

// The kernel may say no, as in a container that must not: then threads go where they like.
bool stay_on(const CpuSet& cpus) {
  if (set_affinity(cpus)) return true;
  log_warning("threads cannot be kept near the GPU: the kernel refuses CPUs {}",
              list_of_cpus(cpus));
  return false;
}

}  // namespace

Device choose_device(const std::string& wanted, int local_rank,
                     std::optional<std::int64_t> device_memory) {
  if (wanted == "cpu") return kCpu;
  if (device_memory) limit_gpu(wanted, local_rank, *device_memory);
  const int count = load_accelerators();
  if (wanted.empty() && count == 0) return kCpu;
  return gpu(index_of(wanted, local_rank, count), count);
}

bool stay_near(Device device, const std::filesystem::path& root) {
  if (device == kCpu || env_integer(EnvVar::kBind) == 0) return false;
  const std::string bus = bus_name(backend_of(device.kind).bus(device.index));
  const MachinePlaces places = read_places(root);
  return knows_place(places, bus) && stay_on(near_cpus(places, bus, affinity()));
}

ThreadsOfRanks choose_threads(Communicator& comm, bool stays_near) {
  const std::vector<CpuShare> shares = share_cpus(cpus_of_ranks(comm), read_places().cores);
  const CpuShare& mine = shares[static_cast<std::size_t>(comm.rank())];
  if (stays_near && stay_on(mine.cpus)) {
    log_debug("the threads of this rank stay on CPUs {}", list_of_cpus(mine.cpus));
  }
  at::set_num_threads(mine.threads);
  const auto [least, most] = std::ranges::minmax(shares, {}, &CpuShare::threads);
  return {.least = least.threads,
          .most = most.threads,
          .leave_idle_cores = std::ranges::all_of(shares, &CpuShare::leaves_idle_core)};
}

}  // namespace zeroshard
