#include "zeroshard/comm/launch_order.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/fnv1a.h"
#include "zeroshard/base/rank.h"
#include "zeroshard/comm/faults.h"
#include "zeroshard/comm/greeting.h"

namespace zeroshard {
namespace {

// A wait for other ranks looks up this often whether the order was abandoned meanwhile.
constexpr std::chrono::milliseconds kLook{20};
// After a round that launched nothing, unless something is submitted before.
constexpr std::chrono::microseconds kPause{50};

// A lane with an operation that waits. Numbers of lanes count from 1, so 0 is none.
struct WaitingLane {
  std::uint64_t lane = 0;
  std::uint64_t tag = 0;
};

// What a rank tells in a round. Where more lanes wait than there is room for, a second message
// follows, of as many as wait on the rank where most do.
struct RoundMessage {
  std::uint64_t count = 0;
  std::array<WaitingLane, 7> first = {};
};

std::uint64_t hash_of(const OperationTag& tag) {
  return Fnv1a()
      .add(tag.sequence)
      .add(static_cast<std::uint64_t>(tag.operation))
      .add(tag.label)
      .add(tag.shape)
      .value();
}

template <typename T>
Handle gather_bytes(Communicator& comm, const std::vector<T>& mine, std::vector<T>& all,
                    const std::string& label) {
  const auto ranks = static_cast<std::size_t>(comm.world_size());
  all.resize(mine.size() * ranks);
  const auto bytes = static_cast<std::int64_t>(mine.size() * sizeof(T));
  return comm.all_gather_into({{ConstPiece{mine.data(), bytes, DType::uint8},
                                Piece{all.data(), bytes * comm.world_size(), DType::uint8}}},
                              label);
}

// Does it, and throws its error with the operation of this rank that it was for.
template <typename Body>
auto for_operation(const OperationTag& tag, const Body& body) {
  const auto extended = [&](Fault fault) {
    fault.what = fmt::format("{}, in {}", fault.what, describe(tag));
    return fault;
  };
  try {
    return body();
  } catch (const PeerError& error) {
    throw PeerError(extended(error.fault()));
  } catch (const CommError& error) {
    throw CommError(extended(error.fault()));
  }
}

}  // namespace

LaunchOrder::LaunchOrder(std::unique_ptr<Communicator> hosts, std::unique_ptr<Launches> launches,
                         const LaunchOrderOptions& options)
    : options_(options), hosts_(std::move(hosts)), launches_(std::move(launches)) {}

LaunchOrder::~LaunchOrder() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

int LaunchOrder::add_lane() {
  const std::lock_guard lock(mutex_);
  return ++lanes_;
}

void LaunchOrder::submit(int lane, Call call, const Event& ready) {
  call.completion->set_abandon([this] { abandon(); });
  {
    const std::lock_guard lock(mutex_);
    ZS_CHECK(lane > 0 && lane <= lanes_, "no such lane");
    if (!failure_) {
      waiting_[lane].push_back({std::move(call), ready});
      has_news_ = true;
      if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
      changed_.notify_one();
      return;
    }
  }
  call.completion->finish(failure_);  // set once, and never again
}

void LaunchOrder::abandon() {
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
  }
  changed_.notify_one();
}

// Everything from here on runs on the thread.
void LaunchOrder::run() {
  const RankScope scope(hosts_->rank());
  try {
    while (wait_for_reason()) {
      for_operation(first_tag(), [&] { launches_->check(); });
      meet();
    }
    const std::lock_guard lock(mutex_);
    if (!abandoned_) return;
    throw left_behind();
  } catch (...) {
    fail(std::current_exception());
  }
}

// Sleeps while there is nothing to do. False when it is time to go: all is launched and over, or
// nobody wants it any more.
bool LaunchOrder::wait_for_reason() {
  bool paused = false;
  while (true) {
    const bool overdue = is_overdue();
    std::unique_lock lock(mutex_);
    if (abandoned_) return false;
    if (has_news_ || overdue || (paused && !waiting_.empty())) break;
    if (closing_ && waiting_.empty() && under_way_.empty()) return false;
    paused = !waiting_.empty();
    const bool was_closing = closing_;
    changed_.wait_for(lock, time_to_sleep(),
                      [&] { return abandoned_ || has_news_ || closing_ != was_closing; });
  }
  const std::lock_guard lock(mutex_);
  has_news_ = false;
  return true;
}

// The caller holds the lock.
std::chrono::microseconds LaunchOrder::time_to_sleep() const {
  if (!waiting_.empty()) return kPause;
  if (under_way_.empty()) return closing_ ? kPause : std::chrono::microseconds(kLook * 50);
  return closing_ ? std::chrono::milliseconds(1) : kLook;
}

// What was launched long ago and is not over may wait for a rank that is gone.
bool LaunchOrder::is_overdue() {
  while (!under_way_.empty() && under_way_.front().end.done()) {
    under_way_.pop_front();
    last_sign_ = Clock::now();
  }
  return !under_way_.empty() && Clock::now() - last_sign_ > options_.patience;
}

void LaunchOrder::meet() {
  const std::vector<int> lanes = lanes_that_wait_everywhere();
  last_sign_ = Clock::now();
  for (const int lane : lanes) launch_first(lane);
}

// An exception takes the handle away, and so gives the round up.
void LaunchOrder::wait_for_hosts(const Handle& round) {
  while (!round.issued_within(kLook)) {
    if (is_given_up()) throw left_behind();
  }
  for_operation(first_tag(), [&] { round.wait(); });
}

std::vector<int> LaunchOrder::lanes_that_wait_everywhere() {
  std::vector<WaitingLane> mine;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [lane, calls] : waiting_) {
      mine.push_back({static_cast<std::uint64_t>(lane), hash_of(calls.front().call.tag)});
    }
  }
  const auto ranks = static_cast<std::size_t>(hosts_->world_size());
  std::vector<RoundMessage> message(1), messages;
  message[0].count = mine.size();
  std::copy_n(mine.begin(), std::min(mine.size(), message[0].first.size()),
              message[0].first.begin());
  wait_for_hosts(gather_bytes(*hosts_, message, messages, "the next launch"));
  std::size_t most = 0;
  for (const RoundMessage& each : messages) most = std::max<std::size_t>(most, each.count);
  std::vector<WaitingLane> all;
  if (most > message[0].first.size()) {
    mine.resize(most);
    wait_for_hosts(gather_bytes(*hosts_, mine, all, "the next launches"));
  } else {
    for (const RoundMessage& each : messages) {
      all.insert(all.end(), each.first.begin(), each.first.end());
    }
  }
  std::map<std::uint64_t, std::vector<std::uint64_t>> tags;  // by lane
  for (const WaitingLane& each : all) {
    if (each.lane != 0) tags[each.lane].push_back(each.tag);
  }
  std::vector<int> lanes;
  for (const auto& [lane, of_ranks] : tags) {
    if (of_ranks.size() < ranks) continue;
    lanes.push_back(static_cast<int>(lane));
    const bool equal = std::ranges::all_of(of_ranks, [&](auto tag) { return tag == of_ranks[0]; });
    if (!equal) check_tags(lanes.back());
  }
  return lanes;
}

// All ranks have seen that they are about to launch different operations; now they say which.
void LaunchOrder::check_tags(int lane) {
  std::vector<Greeting> mine(1), all;
  {
    const std::lock_guard lock(mutex_);
    Call shown;  // without its memory, which is the device's
    shown.tag = waiting_.at(lane).front().call.tag;
    mine[0] = greeting_of(shown);
  }
  wait_for_hosts(gather_bytes(*hosts_, mine, all, "different launches"));
  const std::exception_ptr difference = disagreement_of(all, std::vector<bool>(all.size(), true));
  ZS_CHECK(difference != nullptr, "operations differ by their hashes alone");
  std::rethrow_exception(difference);
}

void LaunchOrder::launch_first(int lane) {
  Waiting first;
  {
    const std::lock_guard lock(mutex_);
    first = waiting_.at(lane).front();  // it stays there, for fail(), until it is launched
  }
  const Event end = for_operation(
      first.call.tag, [&] { return launches_->launch(first.call, first.ready, *hosts_); });
  {
    const std::lock_guard lock(mutex_);
    std::deque<Waiting>& calls = waiting_.at(lane);
    calls.pop_front();
    if (calls.empty()) waiting_.erase(lane);
  }
  under_way_.push_back({first.call.tag, end});
  first.call.completion->finish_behind(end);
}

// Nothing may touch the calls' memory any more when their handles say that they are over.
void LaunchOrder::fail(const std::exception_ptr& error) {
  launches_->abort();
  for (const UnderWay& each : under_way_) each.end.wait_until_over();
  under_way_.clear();
  std::map<int, std::deque<Waiting>> failed;
  {
    const std::lock_guard lock(mutex_);
    failure_ = error;
    failed = std::exchange(waiting_, {});
  }
  for (const auto& [lane, calls] : failed) {
    for (const Waiting& each : calls) each.call.completion->finish(error);
  }
}

// Who only looks whether the others are still there need not wait for them once all is over here.
bool LaunchOrder::is_given_up() {
  is_overdue();
  const std::lock_guard lock(mutex_);
  return abandoned_ || (closing_ && waiting_.empty() && under_way_.empty());
}

// What an error is said to have come before: the first operation that waits, or is under way.
OperationTag LaunchOrder::first_tag() {
  if (!under_way_.empty()) return under_way_.front().tag;
  const std::lock_guard lock(mutex_);
  return waiting_.empty() ? OperationTag{} : waiting_.begin()->second.front().call.tag;
}

}  // namespace zeroshard
