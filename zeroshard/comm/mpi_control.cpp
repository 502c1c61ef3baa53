#include "zeroshard/comm/mpi_control.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "zeroshard/base/duration.h"
#include "zeroshard/base/env.h"
#include "zeroshard/base/error.h"
#include "zeroshard/comm/faults.h"

namespace zeroshard {
namespace {

using std::chrono::milliseconds;

// A living rank answers twice a second.
constexpr milliseconds kSilent{1500};
constexpr milliseconds kPatienceForAnswer{1000};

// A ControlAddress as one message of fixed size; port 0 where rank 0 could not listen.
struct AddressMessage {
  std::uint64_t token = 0;
  std::int32_t port = 0;
  std::uint32_t hosts = 0;
  std::array<std::array<char, 48>, 16> host = {};
};

AddressMessage message_of(const ControlAddress& address) {
  AddressMessage message{.token = address.token, .port = address.port};
  for (const std::string& host : address.hosts) {
    if (message.hosts == message.host.size()) break;
    std::strncpy(message.host[message.hosts++].data(), host.c_str(), message.host[0].size() - 1);
  }
  return message;
}

ControlAddress address_in(const AddressMessage& message) {
  ControlAddress address{.token = message.token, .port = message.port};
  for (std::uint32_t i = 0; i < message.hosts; ++i)
    address.hosts.emplace_back(message.host[i].data());
  return address;
}

ControlOptions options_for(const MpiLink& link) {
  ControlOptions options{.this_host_only = link.on_one_host()};
  if (const auto text = env_text(EnvVar::kControlPort)) {
    const auto port = env_integer(EnvVar::kControlPort);
    if (!port || *port < 1 || *port > 65535) {
      throw ConfigError({.what = "ZEROSHARD_CONTROL_PORT is not a port",
                         .value = *text,
                         .remedy = "choose one from 1 to 65535, or unset it"});
    }
    options.port = static_cast<int>(*port);
  }
  return options;
}

std::unique_ptr<ControlChannel> open_hub(MpiLink& link, const ControlOptions& options) {
  AddressMessage message;
  std::unique_ptr<ControlChannel> hub;
  std::exception_ptr failure;
  try {
    hub = std::make_unique<ControlChannel>(link.world_size(), options);
    message = message_of(hub->address());
  } catch (...) {
    failure = std::current_exception();  // the others wait for a message, so they get one
  }
  link.broadcast(&message, sizeof(message));
  if (failure) std::rethrow_exception(failure);
  try {
    hub->wait_for_all();
  } catch (...) {
    hub->say_failed();  // those who came must not take it for a good end
    throw;
  }
  return hub;
}

std::unique_ptr<ControlChannel> open_spoke(MpiLink& link, const ControlOptions& options) {
  AddressMessage message;
  link.broadcast(&message, sizeof(message));
  if (message.port == 0) {
    throw PeerError(
        {.what = "rank 0 could not open the control channel", .remedy = "see its own message"});
  }
  return std::make_unique<ControlChannel>(link.rank(), address_in(message), options);
}

// Numbers of different lanes say nothing about each other.
bool is_late(const RankReport& report, const RankStatus& own) {
  const RankStatus& other = report.status;
  const bool behind =
      !other.any || (other.lane == own.lane && other.tag.sequence < own.tag.sequence);
  return report.silent_for >= kSilent || behind;
}

std::string whereabouts(const RankReport& report) {
  const std::string heard = report.silent_for >= kSilent
                                ? "silent for " + human_duration(report.silent_for) + ", last"
                                : std::string("alive,");
  return fmt::format("rank {} is {} {}", report.rank, heard, describe(report.status));
}

}  // namespace

std::unique_ptr<ControlChannel> open_control_channel(MpiLink& link) {
  if (link.world_size() == 1) return nullptr;
  const ControlOptions options = options_for(link);
  return link.rank() == 0 ? open_hub(link, options) : open_spoke(link, options);
}

std::exception_ptr loss_seen_in(const OperationTag& tag, const ControlBoard& board) {
  const auto loss = board.loss();
  if (!loss) return nullptr;
  if (loss->said_so) return std::make_exception_ptr(rank_failed(loss->rank, tag));
  return std::make_exception_ptr(rank_gone(loss->rank, tag));
}

std::exception_ptr late_ranks(const RankStatus& own, milliseconds waited,
                              const std::vector<int>& candidates, ControlChannel& channel) {
  const OperationTag& tag = own.tag;
  const std::vector<RankReport> reports = channel.ask(kPatienceForAnswer);
  if (reports.empty()) {
    return std::make_exception_ptr(
        waited_too_long(tag, waited, candidates, "rank 0 does not answer on the control channel"));
  }
  std::vector<int> late;
  std::string where;
  for (const RankReport& report : reports) {
    const bool candidate = std::ranges::find(candidates, report.rank) != candidates.end();
    if (!candidate || !is_late(report, own)) continue;
    late.push_back(report.rank);
    where += (where.empty() ? "" : "; ") + whereabouts(report);
  }
  return std::make_exception_ptr(
      waited_too_long(tag, waited, late.empty() ? candidates : late, where));
}

}  // namespace zeroshard
