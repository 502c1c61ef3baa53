#include "zeroshard/comm/connect_devices.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/env.h"
#include "zeroshard/base/error.h"
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
  NcclWish wish = NcclWish::automatic;
  bool may_share = false;
};

Message message_of_this_rank(Device device, const NcclOptions& options) {
  Message mine;
  const std::string identity = backend_of(device.kind).identity(device.index);
  std::copy_n(identity.begin(), std::min(identity.size(), mine.identity.size() - 1),
              mine.identity.begin());
  if (options.library != nullptr) options.library->get_version(&mine.nccl_version);
  if (options.library == nullptr) mine.nccl_version = nccl_version();
  mine.wish = nccl_wish();
  mine.may_share = env_integer(EnvVar::kNcclMultiRank).value_or(0) != 0;
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
                     .wish = each.wish,
                     .may_share = each.may_share});
  }
  return ranks;
}

std::string version_text(int code) {
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

// "" where all ranks have one and the same.
std::string what_is_wrong_with_versions(const std::vector<RankDevice>& ranks) {
  const auto oldest = std::ranges::min_element(ranks, {}, &RankDevice::nccl_version);
  const auto newest = std::ranges::max_element(ranks, {}, &RankDevice::nccl_version);
  if (oldest->nccl_version == 0) return "not every rank has loaded NCCL";
  if (oldest->nccl_version == newest->nccl_version) return {};
  return fmt::format(
      "ranks have loaded different versions of NCCL, {} on rank {} and {} on rank {}",
      version_text(oldest->nccl_version), oldest - ranks.begin(),
      version_text(newest->nccl_version), newest - ranks.begin());
}

// "" where none do, or may. All have the same version.
std::string what_is_wrong_with_sharing(const std::vector<RankDevice>& ranks) {
  std::set<std::string> devices;
  for (const RankDevice& rank : ranks) devices.insert(rank.identity);
  if (devices.size() == ranks.size()) return {};
  const std::string sharing = fmt::format("{} ranks share {} GPU{}", ranks.size(), devices.size(),
                                          devices.size() == 1 ? "" : "s");
  const int version = ranks.front().nccl_version;
  if (version < kSharesGpus) {
    return fmt::format("{}, which NCCL can from 2.30 on, and here is {}", sharing,
                       version_text(version));
  }
  if (std::ranges::all_of(ranks, &RankDevice::may_share)) return {};
  return fmt::format("{}, which NCCL refuses unless NCCL_MULTI_RANK_GPU_ENABLE=1", sharing);
}

TransportChoice no_nccl(TransportChoice choice, std::string why) {
  choice.why_not = std::move(why);
  return choice;
}

[[noreturn]] void refuse(const std::string& why, bool speaks) {
  const Fault fault{.what = "ZEROSHARD_NCCL=1 insists on NCCL, which cannot be",
                    .value = why,
                    .remedy = "without that variable what GPUs send goes through host memory"};
  if (speaks) throw ConfigError(fault);
  throw PeerError(fault);
}

}  // namespace

TransportChoice choose_transport(const std::vector<RankDevice>& ranks, bool may_choose_nccl) {
  const auto never = std::ranges::find(ranks, NcclWish::never, &RankDevice::wish);
  TransportChoice choice;
  choice.insists = std::ranges::count(ranks, NcclWish::insist, &RankDevice::wish) > 0;
  if (never != ranks.end()) {
    if (!choice.insists) return choice;
    return no_nccl(choice, fmt::format("it is 0 on rank {}", never - ranks.begin()));
  }
  if (!choice.insists && !may_choose_nccl) {
    return no_nccl(choice,
                   "NCCL is not taken by itself yet, since it has not been run on GPUs; "
                   "ZEROSHARD_NCCL=1 takes it");
  }
  std::string why = what_is_wrong_with_versions(ranks);
  if (why.empty()) why = what_is_wrong_with_sharing(ranks);
  if (!why.empty()) return no_nccl(choice, std::move(why));
  choice.nccl = true;
  return choice;
}

std::unique_ptr<Communicator> connect_devices(std::unique_ptr<Communicator> hosts, Device device,
                                              const NcclOptions& options, bool may_choose_nccl) {
  const TransportChoice choice =
      choose_transport(devices_of_ranks(*hosts, device, options), may_choose_nccl);
  const bool speaks = hosts->rank() == 0;
  TriedNccl tried{.failed = choice.why_not};
  if (choice.nccl) tried = try_nccl_communicator(hosts, device, options);
  if (tried.comm != nullptr) return std::move(tried.comm);
  if (choice.insists) refuse(tried.failed, speaks);
  if (speaks && !tried.failed.empty()) {
    const LogLevel level = choice.nccl ? LogLevel::warning : LogLevel::info;
    log_at(level, "what GPUs send goes through host memory: {}", tried.failed);
  }
  return carry_through_host(std::move(hosts), {.device = device});
}

}  // namespace zeroshard
