#include "zeroshard/comm/control.h"

#include <algorithm>
#include <random>
#include <utility>

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "zeroshard/base/error.h"
#include "zeroshard/comm/control_end.h"

namespace zeroshard {
namespace {

using std::chrono::milliseconds;

// Rank 0 waits this much longer: who cannot reach it says so itself, and knows better why.
constexpr milliseconds kForOthersToSpeak{2500};

std::uint64_t random_token() {
  std::random_device random;
  return (std::uint64_t{random()} << 32) | random();
}

// Rank 0 has a connection from every rank: the usual soft limit is 1024 descriptors, the hard
// one far higher.
void allow_many_connections() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

// Whether the other end knows the token. Somebody else may listen at that address and port.
bool is_answered(ControlPeer& peer, milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (peer.open() && std::chrono::steady_clock::now() < deadline) {
    if (peer.receive()) return true;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return false;
}

// A rank tries all addresses in turn, again and again: rank 0's host has several, and not all
// can be reached from here.
ControlPeer reach(int rank, const ControlAddress& address, milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  do {
    for (const std::string& host : address.hosts) {
      ControlPeer peer(Socket::connect(host, address.port, std::min(patience, milliseconds(1000))),
                       address.token);
      if (!peer.open()) continue;
      peer.send(frame_of(FrameKind::hello, rank, {}));
      if (is_answered(peer, patience)) return peer;
    }
    std::this_thread::sleep_for(milliseconds(50));
  } while (std::chrono::steady_clock::now() < deadline);
  throw CommError(
      {.what = fmt::format("rank {} on host {} cannot reach rank 0 for the control channel", rank,
                           host_name()),
       .value = fmt::format("{}, port {}", fmt::join(address.hosts, ", "), address.port),
       .remedy = "open that port, or choose one with ZEROSHARD_CONTROL_PORT; see "
                 "docs/multi_node.md"});
}

}  // namespace

ControlChannel::ControlChannel(int world_size, const ControlOptions& options)
    : rank_(0), options_(options) {
  Socket listener = Socket::listen(options.port, options.this_host_only);
  address_ = {.token = random_token(), .port = listener.port(), .hosts = own_addresses()};
  if (options.this_host_only) address_.hosts = {"127.0.0.1"};
  allow_many_connections();
  auto hub = std::make_unique<ControlHub>(board_, world_size, std::move(listener), address_.token);
  hub_ = hub.get();
  end_ = std::move(hub);
  thread_ = std::thread([this] { end_->run(); });
}

ControlChannel::ControlChannel(int rank, const ControlAddress& address,
                               const ControlOptions& options)
    : rank_(rank), options_(options), address_(address) {
  end_ = std::make_unique<ControlSpoke>(board_, rank, reach(rank, address, options.patience));
  thread_ = std::thread([this] { end_->run(); });
}

ControlChannel::~ControlChannel() {
  say_goodbye();
  end_->stop();
  thread_.join();
}

void ControlChannel::wait_for_all() const {
  const std::vector<int> missing = hub_->wait_for_all(options_.patience + kForOthersToSpeak);
  if (missing.empty()) return;
  throw CommError(
      {.what = "ranks have not joined the control channel",
       .value = fmt::format("{}; rank 0 listens at {}, port {}", fmt::join(missing, ", "),
                            fmt::join(address_.hosts, ", "), address_.port),
       .remedy = "see their own messages, and docs/multi_node.md for the ports"});
}

std::vector<RankReport> ControlChannel::ask(milliseconds limit) {
  board_.forget_reports();
  end_->queue({.kind = FrameKind::ask, .rank = rank_});
  return board_.wait_for_reports(limit);
}

void ControlChannel::set_watch(std::function<void()> watch) { end_->set_watch(std::move(watch)); }

void ControlChannel::say_end(FrameKind how) {
  if (std::exchange(said_end_, true)) return;
  end_->queue({.kind = how, .rank = rank_});
}

}  // namespace zeroshard
