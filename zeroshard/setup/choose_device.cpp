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
#include "zeroshard/device/backend.h"
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

Device choose_device(const std::string& wanted, int local_rank) {
  if (wanted == "cpu") return kCpu;
  const int count = load_accelerators();
  if (wanted.empty()) return count == 0 ? kCpu : gpu(local_rank % count, count);
  if (wanted == "cuda") return gpu(count == 0 ? 0 : local_rank % count, count);
  const auto index =
      wanted.starts_with("cuda:") ? number_in(std::string_view(wanted).substr(5)) : std::nullopt;
  if (index) return gpu(*index, count);
  throw ConfigError(
      {.what = "unknown device", .value = wanted, .remedy = "give cpu, cuda or cuda:N"});
}

bool choose_threads(Communicator& comm) {
  const int ranks = ranks_on_host(comm);  // before the branch: all ranks take part
  const RankThreads chosen = rank_threads(usable_cpus(), ranks, env_integer(EnvVar::kOmpThreads));
  at::set_num_threads(chosen.threads);
  return chosen.leave_idle_cores;
}

}  // namespace zeroshard
