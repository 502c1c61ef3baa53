#include "zeroshard/comm/connect_devices.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/env.h"
#include "zeroshard/base/log.h"
#include "zeroshard/comm/carry_through_host.h"
#include "zeroshard/comm/nccl_library.h"
#include "zeroshard/device/backend.h"

namespace zeroshard {
namespace {

constexpr int kSharesGpus = 23000;  // the first NCCL that lets ranks share one

// RankDevice as ranks send it.
struct Message {
  std::array<char, 48> identity = {};
  std::int32_t nccl_version = 0;
  bool wants_nccl = false;
  bool may_share = false;
};

bool is_on(EnvVar variable) { return env_integer(variable).value_or(0) != 0; }

Message message_of_this_rank(Device device, const NcclOptions& options) {
  Message mine;
  const std::string identity = backend_of(device.kind).identity(device.index);
  std::copy_n(identity.begin(), std::min(identity.size(), mine.identity.size() - 1),
              mine.identity.begin());
  if (options.library != nullptr) options.library->get_version(&mine.nccl_version);
  if (options.library == nullptr) mine.nccl_version = nccl_version();
  mine.wants_nccl = is_on(EnvVar::kNccl);
  mine.may_share = is_on(EnvVar::kNcclMultiRank);
  return mine;
}

std::vector<RankDevice> devices_of_ranks(Communicator& hosts, Device device,
                                         const NcclOptions& options) {
  const Message mine = message_of_this_rank(device, options);
  std::vector<Message> all(static_cast<std::size_t>(hosts.world_size()));
  constexpr std::int64_t kBytes = sizeof(Message);
  hosts
      .all_gather_into({{ConstPiece{&mine, kBytes, DType::uint8},
                         Piece{all.data(), kBytes * hosts.world_size(), DType::uint8}}},
                       "devices of ranks")
      .wait();
  std::vector<RankDevice> ranks;
  for (const Message& each : all) {
    ranks.push_back({.identity = each.identity.data(),
                     .nccl_version = each.nccl_version,
                     .wants_nccl = each.wants_nccl,
                     .may_share = each.may_share});
  }
  return ranks;
}

std::string version_text(int code) {
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

}  // namespace

TransportChoice choose_transport(const std::vector<RankDevice>& ranks) {
  const auto all = [&](auto member) {
    return std::ranges::all_of(ranks, [&](const RankDevice& rank) { return rank.*member; });
  };
  if (!all(&RankDevice::wants_nccl)) return {};
  int oldest = ranks.front().nccl_version;
  std::set<std::string> devices;
  for (const RankDevice& rank : ranks) {
    oldest = std::min(oldest, rank.nccl_version);
    devices.insert(rank.identity);
  }
  if (oldest == 0) return {.why_not = "not every rank has loaded NCCL"};
  if (devices.size() == ranks.size()) return {.nccl = true};
  const std::string sharing = fmt::format("{} ranks share {} GPU{}", ranks.size(), devices.size(),
                                          devices.size() == 1 ? "" : "s");
  if (oldest < kSharesGpus) {
    return {.why_not = fmt::format("{}, which NCCL can from 2.30 on, and here is {}", sharing,
                                   version_text(oldest))};
  }
  if (!all(&RankDevice::may_share)) {
    return {.why_not =
                fmt::format("{}, which NCCL refuses unless NCCL_MULTI_RANK_GPU_ENABLE=1", sharing)};
  }
  return {.nccl = true};
}

std::unique_ptr<Communicator> connect_devices(std::unique_ptr<Communicator> hosts, Device device,
                                              const NcclOptions& options) {
  const TransportChoice choice = choose_transport(devices_of_ranks(*hosts, device, options));
  if (choice.nccl) return make_nccl_communicator(std::move(hosts), device, options);
  if (!choice.why_not.empty() && hosts->rank() == 0) {
    log_warning("what GPUs send goes through host memory: {}", choice.why_not);
  }
  return carry_through_host(std::move(hosts), {.device = device});
}

}  // namespace zeroshard
