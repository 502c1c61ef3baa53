#include "zeroshard/setup/choose_device.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "zeroshard/base/cpu_limit.h"
#include "zeroshard/base/env.h"
#include "zeroshard/base/error.h"
#include "zeroshard/device/accelerators.h"
#include "zeroshard/device/allocator_limit.h"
#include "zeroshard/device/backend.h"
#include "zeroshard/device/cuda_driver.h"
#include "zeroshard/setup/choices.h"
#include "zeroshard/setup/this_host.h"

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
  if (wanted.empty() || wanted == "cuda") return count == 0 ? 0 : local_rank % count;
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

int ranks_on_host(Communicator& comm) {
  const std::int32_t mine = this_host();
  std::vector<std::int32_t> all(static_cast<std::size_t>(comm.world_size()));
  comm.all_gather_into({{ConstPiece{&mine, 1, DType::int32},
                         Piece{all.data(), comm.world_size(), DType::int32}}},
                       "hosts")
      .wait();
  return static_cast<int>(std::ranges::count(all, mine));
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

bool choose_threads(Communicator& comm) {
  const int ranks = ranks_on_host(comm);  // before the branch: all ranks take part
  const RankThreads chosen = rank_threads(usable_cpus(), ranks, env_integer(EnvVar::kOmpThreads));
  at::set_num_threads(chosen.threads);
  return chosen.leave_idle_cores;
}

}  // namespace zeroshard
