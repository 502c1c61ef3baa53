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
#include "zeroshard/comm/launch_words.h"

namespace zeroshard {

// What a rank tells in a round. Where more lanes wait than there is room for, a second message
// follows, of as many entries as the rank tells that tells most.
struct LaunchOrder::Message {
  static constexpr std::size_t kRoom = 14;

  Word word = Word::here;
  std::uint64_t count = 0;
  std::array<WaitingCall, kRoom> first = {};
};

namespace {

// A wait for other ranks looks up this often whether the order was abandoned meanwhile.
constexpr std::chrono::milliseconds kLook{20};
// After a round that launched nothing, unless something is submitted before.
constexpr std::chrono::microseconds kPause{50};
// An order that ends waits no longer than this for other ranks to hear of it.
constexpr std::chrono::seconds kFarewell{5};

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

}  // namespace

LaunchOrder::LaunchOrder(std::unique_ptr<Communicator> hosts, std::unique_ptr<Launches> launches,
                         const LaunchOrderOptions& options)
    : options_(options), launches_(std::move(launches)), hosts_(std::move(hosts)) {}

LaunchOrder::~LaunchOrder() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    closing_since_ = Clock::now();
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
  std::exception_ptr failed;
  {
    const std::lock_guard lock(mutex_);
    ZS_CHECK(lane > 0 && lane <= lanes_, "no such lane");
    failed = failure_;
    if (!failed) {
      waiting_[lane].push_back({std::move(call), ready});
      has_news_ = true;
      if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    }
  }
  failed ? call.completion->finish(failed) : changed_.notify_one();
}

void LaunchOrder::abandon() {
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
  }
  changed_.notify_one();
}

std::exception_ptr LaunchOrder::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

// Everything from here on runs on the thread.
void LaunchOrder::run() {
  const RankScope scope(hosts_->rank());
  try {
    launches_->enclose([&] {
      try {
        while (meet(wait_for_reason())) {
        }
      } catch (...) {
        fail(std::current_exception());
      }
    });
  } catch (...) {  // the device does not even become the current one
    fail(std::current_exception());
  }
  end_last_round();
}

// Sleeps while there is nothing to tell. Then it is this rank's word for the next round.
LaunchOrder::Word LaunchOrder::wait_for_reason() {
  bool paused = launched_last_;  // there may be more to launch at once
  while (true) {
    forget_what_is_over();
    std::unique_lock lock(mutex_);
    if (abandoned_) throw left_behind();
    if (!waiting_.empty() && (has_news_ || paused)) return Word::here;
    if (closing_ && waiting_.empty() && under_way_.empty()) return Word::ending;
    if (ended_rank_ < 0 && Clock::now() - last_round_ > options_.heartbeat) return Word::here;
    paused = !waiting_.empty();
    const bool was_closing = closing_;
    changed_.wait_for(lock, time_to_sleep(), [&] {
      return abandoned_ || (has_news_ && !waiting_.empty()) || closing_ != was_closing;
    });
  }
}

// The caller holds the lock.
LaunchOrder::Clock::duration LaunchOrder::time_to_sleep() const {
  if (!waiting_.empty()) return kPause;
  if (closing_) return std::chrono::milliseconds(1);
  return under_way_.empty() ? options_.heartbeat / 4 : Clock::duration(kLook);
}

void LaunchOrder::forget_what_is_over() {
  while (!under_way_.empty() && under_way_.front().end.done()) under_way_.pop_front();
}

// One round. False: this rank has said its last word.
bool LaunchOrder::meet(Word word) {
  for_operation(first_tag(), [&] { launches_->check(); });
  if (ended_rank_ >= 0 && word == Word::ending) return false;
  std::vector<Message> mine(1), all;
  mine[0].word = word;
  told_ = what_waits();
  if (ended_rank_ >= 0) throw rank_ended(ended_rank_, first_tag());
  mine[0].count = told_.size();
  std::copy_n(told_.begin(), std::min(told_.size(), mine[0].first.size()), mine[0].first.begin());
  wait(gather_bytes(*hosts_, mine, all, launch_labels::kNext));
  last_round_ = Clock::now();
  judge_words(all);
  launch(common_beginning(told_by_all(all), all.size()));
  return word != Word::ending;
}

std::vector<WaitingCall> LaunchOrder::what_waits() {
  WaitingTags tags;
  const std::lock_guard lock(mutex_);
  has_news_ = false;
  for (const auto& [lane, calls] : waiting_) {
    std::vector<std::uint64_t>& of_lane = tags[static_cast<std::uint64_t>(lane)];
    for (const Waiting& each : calls) {
      if (of_lane.size() == Message::kRoom) break;
      of_lane.push_back(hash_of(each.call.tag));
    }
  }
  return told_by_turns(tags, Message::kRoom);
}

void LaunchOrder::judge_words(const std::vector<Message>& messages) {
  for (std::size_t rank = 0; rank < messages.size(); ++rank) {
    const int number = static_cast<int>(rank);
    if (messages[rank].word == Word::failed) {
      hosts_failed_ = true;  // it comes to no more rounds
      throw rank_failed(number, first_tag());
    }
    if (messages[rank].word != Word::ending) continue;
    ended_rank_ = number;
    if (!told_.empty()) throw rank_ended(number, first_tag());
  }
}

// An exception takes the handle away, and so gives the operation up.
void LaunchOrder::wait(const Handle& handle) {
  while (!handle.issued_within(kLook)) throw_if_abandoned();
  try {
    for_operation(first_tag(), [&] { handle.wait(); });
  } catch (...) {
    hosts_failed_ = true;
    throw;
  }
}

// An order that ends does not wait for ever for ranks that do not come to its last round.
void LaunchOrder::throw_if_abandoned() {
  const std::lock_guard lock(mutex_);
  const bool farewell_is_over =
      closing_ && waiting_.empty() && Clock::now() - closing_since_ > kFarewell;
  if (!abandoned_ && !farewell_is_over) return;
  hosts_failed_ = true;
  throw left_behind();
}

// Equally many entries of each.
std::vector<WaitingCall> LaunchOrder::told_by_all(const std::vector<Message>& messages) {
  std::uint64_t most = 0;
  for (const Message& each : messages) most = std::max(most, each.count);
  std::vector<WaitingCall> all;
  if (most > Message::kRoom) {
    told_.resize(most);
    wait(gather_bytes(*hosts_, told_, all, launch_labels::kMore));
  } else {
    for (const Message& each : messages) {
      all.insert(all.end(), each.first.begin(), each.first.end());
    }
  }
  judge_time(all, all.size() / messages.size());
  return all;
}

// An operation that has waited for too long names the ranks that have not brought it.
void LaunchOrder::judge_time(const std::vector<WaitingCall>& all, std::size_t told_by_each) {
  OperationTag late;
  std::uint64_t lane = 0;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, calls] : waiting_) {
      if (Clock::now() - calls.front().since < options_.timeout) continue;
      late = calls.front().call.tag;
      lane = static_cast<std::uint64_t>(number);
    }
  }
  if (lane == 0) return;
  std::vector<int> missing;
  for (std::size_t rank = 0; rank * told_by_each < all.size(); ++rank) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(rank * told_by_each);
    const bool waits = std::any_of(begin, begin + static_cast<std::ptrdiff_t>(told_by_each),
                                   [&](const WaitingCall& each) { return each.lane == lane; });
    if (!waits) missing.push_back(static_cast<int>(rank));
  }
  if (!missing.empty()) throw waited_too_long(late, options_.timeout, missing);
}

// What all agree on ends well though ranks differ behind it, as it would where nothing is launched
// ahead. The hosts talk first: a launch may fail on one rank alone, which then talks no more.
void LaunchOrder::launch(const RoundResult& agreed) {
  const std::exception_ptr difference = agreed.different == 0 ? nullptr : difference_in(agreed);
  for (const std::uint64_t lane : agreed.lanes) launch_first(static_cast<int>(lane));
  launched_last_ = !agreed.lanes.empty();
  if (difference == nullptr) return;
  let_end();
  std::rethrow_exception(difference);
}

// All ranks have seen that they are about to launch different operations; now they say which.
std::exception_ptr LaunchOrder::difference_in(const RoundResult& agreed) {
  std::vector<Greeting> mine(1), all;
  {
    const std::lock_guard lock(mutex_);
    Call shown;  // without its memory, which is the device's
    shown.tag = waiting_.at(static_cast<int>(agreed.different)).at(agreed.place).call.tag;
    mine[0] = greeting_of(shown);
  }
  wait(gather_bytes(*hosts_, mine, all, launch_labels::kDifferent));
  const std::exception_ptr difference = disagreement_of(all, std::vector<bool>(all.size(), true));
  ZS_CHECK(difference != nullptr, "operations differ by their hashes alone");
  hosts_failed_ = true;  // every rank knows already
  return difference;
}

void LaunchOrder::launch_first(int lane) {
  Waiting first;
  {
    const std::lock_guard lock(mutex_);
    first = waiting_.at(lane).front();  // it stays there, for fail(), until it is launched
  }
  const Event end = for_operation(
      first.call.tag, [&] { return launches_->launch(first.call, first.ready, *this); });
  {
    const std::lock_guard lock(mutex_);
    std::deque<Waiting>& calls = waiting_.at(lane);
    calls.pop_front();
    if (calls.empty()) waiting_.erase(lane);
  }
  const auto point = std::make_shared<LaunchedPoint>(end.point());
  under_way_.push_back({first.call.tag, end, point});
  first.call.completion->finish_behind(Event(point));
}

// All ranks have launched what is under way, so it ends by itself, unless a rank has failed in
// that.
void LaunchOrder::let_end() {
  const auto end = Clock::now() + kFarewell;
  while (Clock::now() < end) {
    throw_if_abandoned();
    forget_what_is_over();
    if (under_way_.empty()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Nothing may touch the calls' memory any more when their handles say that they are over.
void LaunchOrder::fail(const std::exception_ptr& error) {
  for (const UnderWay& each : under_way_) {
    if (!each.end.done()) each.point->fail(error);
  }
  std::map<int, std::deque<Waiting>> failed;
  {
    const std::lock_guard lock(mutex_);
    failure_ = error;
    failed = std::exchange(waiting_, {});
  }
  say_failed();
  launches_->abort();
  for (const UnderWay& each : under_way_) each.end.wait_until_over();
  under_way_.clear();
  for (const auto& [lane, calls] : failed) {
    for (const Waiting& each : calls) each.call.completion->finish(error);
  }
}

// The others come to a round within a heartbeat, and read it. Nobody waits for that here.
void LaunchOrder::say_failed() noexcept {
  if (hosts_failed_ || ended_rank_ >= 0) return;
  try {
    last_words_.resize(1 + static_cast<std::size_t>(hosts_->world_size()));
    last_words_[0].word = Word::failed;
    const std::int64_t bytes = sizeof(Message);
    last_round_of_all_ = hosts_->all_gather_into(
        {{ConstPiece{last_words_.data(), bytes, DType::uint8},
          Piece{last_words_.data() + 1, bytes * hosts_->world_size(), DType::uint8}}},
        launch_labels::kNext);
  } catch (...) {  // then they learn of it from the launcher
  }
}

// A round that nobody else comes to is given up, as an exception does it (handle.h).
void LaunchOrder::end_last_round() noexcept {
  const auto end = Clock::now() + kFarewell;
  bool is_over = false;
  while (!is_over && Clock::now() < end) is_over = last_round_of_all_.issued_within(kLook);
  if (is_over) return;
  try {
    const Handle given_up = std::exchange(last_round_of_all_, {});
    throw left_behind();
  } catch (const CommError&) {
  }
}

// What an error is said to be about: the first operation that waits, or is under way.
OperationTag LaunchOrder::first_tag() {
  const std::lock_guard lock(mutex_);
  if (!waiting_.empty()) return waiting_.begin()->second.front().call.tag;
  return under_way_.empty() ? OperationTag{} : under_way_.front().tag;
}

}  // namespace zeroshard
