#include "zeroshard/comm/nccl_trial.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "zeroshard/base/error.h"
#include "zeroshard/base/half.h"
#include "zeroshard/comm/common_progress.h"
#include "zeroshard/comm/rank_sum.h"
#include "zeroshard/device/buffer.h"

namespace zeroshard {
namespace {

constexpr std::int64_t kCount = 512;  // elements of a rank's part
constexpr std::array<DType, 3> kSummed{DType::fp32, DType::bf16, DType::fp16};

using Bytes = std::vector<std::byte>;
using Clock = std::chrono::steady_clock;

class TrialHosts final : public LaunchHosts {
 public:
  explicit TrialHosts(Communicator& hosts) : hosts_(hosts) {}
  Communicator& comm() override { return hosts_; }
  void wait(const Handle& handle) override { handle.wait(); }
  void throw_if_abandoned() override {}

 private:
  Communicator& hosts_;
};

// Up to 64 ranks add something to an element, at most 3 each: exact in bf16 in any order, and
// every rank adds to some elements of every part.
float exact_in_any_order(int rank, int ranks, std::int64_t index) {
  const int stride = (ranks + 63) / 64;
  return (rank + index) % stride == 0 ? static_cast<float>(1 + (rank + index) % 3) : 0.0F;
}

// Of very different sizes, so that another order gives other bits.
float rounded_in_any_sum(int rank, std::int64_t index) {
  const auto fraction = static_cast<float>((rank * 31 + index * 17) % 97) / 97.0F;
  return std::ldexp(1.0F + fraction, static_cast<int>((rank * 13 + index * 7) % 20) - 14);
}

void put(float value, DType dtype, std::byte* to) {
  if (dtype == DType::fp32) {
    std::memcpy(to, &value, sizeof(value));
  } else {
    const std::uint16_t bits = dtype == DType::bf16 ? fp32_to_bf16(value) : fp32_to_fp16(value);
    std::memcpy(to, &bits, sizeof(bits));
  }
}

template <typename Value>
Bytes filled(DType dtype, std::int64_t count, const Value& value) {
  Bytes bytes(static_cast<std::size_t>(count * bytes_of(dtype)));
  for (std::int64_t i = 0; i < count; ++i) put(value(i), dtype, bytes.data() + i * bytes_of(dtype));
  return bytes;
}

// What a fault says without its remedy, which would speak of a run that has begun.
std::string words_of(const Fault& fault) {
  return fault.value.empty() ? fault.what : fmt::format("{} ({})", fault.what, fault.value);
}

class Trial {
 public:
  Trial(NcclLaunches& launches, LaunchHosts& hosts, const TrialOptions& options)
      : launches_(launches),
        hosts_(hosts),
        options_(options),
        rank_(hosts.comm().rank()),
        ranks_(hosts.comm().world_size()) {}
  // Nothing of the library's may be at the trial's memory when that goes.
  ~Trial() {
    if (!passed_) launches_.abort();
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  // This rank's own words, "" where it has none.
  std::string run() {
    failed_ = words_of_error([&] {
      launches_.meet(hosts_);
      met_ = true;
    });
    if (!met_) return failed_;
    deadline_ = Clock::now() + options_.time;
    failed_ = words_of_error([&] { begin(); });
    const Progress worst = wait_together(hosts_, {.time = time_left(), .label = "NCCL's trial"},
                                         [&] { return look(); });
    if (worst == Progress::too_late && failed_.empty() && !over_) {
      failed_ = fmt::format("what was launched has not ended within {} ms", options_.time.count());
    }
    passed_ = worst == Progress::done;
    return failed_;
  }

 private:
  struct Result {
    std::string what;
    Bytes expected;
    Buffer memory;
    Bytes got = {};
  };

  template <typename Act>
  std::string words_of_error(const Act& act) {
    try {
      act();
      return {};
    } catch (const PeerError&) {  // whoever has failed says so
      return {};
    } catch (const Error& error) {
      return words_of(error.fault());
    } catch (...) {
      return message_of(std::current_exception());
    }
  }

  void begin() {
    copies_ = Stream::make(options_.device);
    gather();
    reduce();
    broadcast();
    ready_.record(*copies_);
    for (const Call& call : calls_) {
      launches_.begin_trial(time_left());
      end_ = launches_.launch(call, ready_, hosts_);
    }
  }

  std::chrono::milliseconds time_left() const {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now());
    return std::max(left, std::chrono::milliseconds(1));
  }

  void gather() {
    const auto shown = [](int rank, std::int64_t i) {
      return static_cast<float>((rank * 7 + i * 3 + i / 11) % 251);
    };
    Call call;
    call.tag.operation = Operation::all_gather;
    const Buffer& in =
        sent(filled(DType::fp32, kCount, [&](std::int64_t i) { return shown(rank_, i); }));
    const Buffer& out =
        expected("gather", filled(DType::fp32, kCount * ranks_, [&](std::int64_t i) {
                   return shown(static_cast<int>(i / kCount), i % kCount);
                 }));
    call.gathers.push_back({{in.data(), kCount, DType::fp32, options_.device.kind},
                            {out.data(), kCount * ranks_, DType::fp32, options_.device.kind}});
    calls_.push_back(std::move(call));
  }

  // The mean, into the same dtype and into fp32.
  void reduce() {
    Call call;
    call.tag.operation = Operation::reduce_scatter;
    call.reduce_options.scale = 1.0F / static_cast<float>(ranks_);
    for (const DType dtype : kSummed) {
      const Buffer& in = sent(addends(dtype, rank_, 0, kCount * ranks_));
      for (const DType into : {dtype, DType::fp32}) {
        const Buffer& out = expected(fmt::format("sum of {}", name_of(dtype)),
                                     sum_on_host(dtype, into, call.reduce_options));
        call.reduces.push_back({{in.data(), kCount * ranks_, dtype, options_.device.kind},
                                {out.data(), kCount, into, options_.device.kind}});
      }
    }
    calls_.push_back(std::move(call));
  }

  void broadcast() {
    Call call;
    call.tag.operation = Operation::broadcast;
    call.root = ranks_ - 1;
    const auto of = [&](int rank) {
      return filled(DType::fp32, kCount,
                    [&](std::int64_t i) { return static_cast<float>(rank * 1000 + i); });
    };
    const Buffer& memory = expected("broadcast", of(call.root), of(rank_));
    call.piece = {memory.data(), kCount, DType::fp32, options_.device.kind};
    calls_.push_back(std::move(call));
  }

  Bytes addends(DType dtype, int rank, std::int64_t begin, std::int64_t count) const {
    return filled(dtype, count, [&](std::int64_t i) {
      return options_.deterministic ? rounded_in_any_sum(rank, begin + i)
                                    : exact_in_any_order(rank, ranks_, begin + i);
    });
  }

  Bytes sum_on_host(DType from, DType into, const ReduceOptions& how) const {
    std::vector<Bytes> of_ranks;
    std::vector<const void*> parts;
    for (int rank = 0; rank < ranks_; ++rank) {
      of_ranks.push_back(addends(from, rank, rank_ * kCount, kCount));
      parts.push_back(of_ranks.back().data());
    }
    Bytes sum(static_cast<std::size_t>(kCount * bytes_of(into)));
    sum_in_rank_order(parts, from, {sum.data(), kCount, into}, how);
    return sum;
  }

  Buffer on_device(const Bytes& bytes) {
    Buffer memory(options_.device, static_cast<std::int64_t>(bytes.size()));
    memory.before_write(*copies_);  // it may have been somebody's whose work is not over
    copy_bytes(*copies_, memory.data(), options_.device, bytes.data(), kCpu, memory.bytes());
    memory.wrote(*copies_);
    return memory;
  }

  const Buffer& sent(Bytes bytes) {
    host_.push_back(std::move(bytes));  // until the copy is over
    inputs_.push_back(on_device(host_.back()));
    return inputs_.back();
  }

  // What lies there before is not what is expected.
  const Buffer& expected(std::string what, Bytes bytes, Bytes before = {}) {
    before.resize(bytes.size());
    host_.push_back(std::move(before));
    results_.push_back({std::move(what), std::move(bytes), on_device(host_.back())});
    return results_.back().memory;
  }

  Progress look() {
    if (!failed_.empty()) return Progress::failed;
    if (over_) return Progress::done;
    if (!end_.done()) {
      failed_ = words_of_error([&] { launches_.check(); });
      return failed_.empty() ? Progress::under_way : Progress::failed;
    }
    over_ = true;
    failed_ = words_of_error([&] { bring_down(); });
    if (failed_.empty()) failed_ = difference();
    return failed_.empty() ? Progress::done : Progress::failed;
  }

  void bring_down() {
    end_.synchronize();
    for (Result& each : results_) {
      each.got.resize(each.expected.size());
      copy_bytes(*copies_, each.got.data(), kCpu, each.memory.data(), options_.device,
                 each.memory.bytes());
    }
    copies_->synchronize();
  }

  std::string difference() const {
    for (const Result& each : results_) {
      if (each.got == each.expected) continue;
      return fmt::format("a {} has other values than the hosts compute", each.what);
    }
    return {};
  }

  NcclLaunches& launches_;
  LaunchHosts& hosts_;
  const TrialOptions options_;
  const int rank_, ranks_;
  Clock::time_point deadline_;
  bool met_ = false, over_ = false, passed_ = false;
  std::string failed_;
  std::deque<Bytes> host_;
  std::deque<Buffer> inputs_;
  std::deque<Result> results_;
  std::vector<Call> calls_;
  std::optional<Stream> copies_;  // made when all have met
  Event ready_, end_;
};

// The words of the first rank that has some.
std::string first_words(const std::string& mine, Communicator& hosts) {
  using Message = std::array<char, 512>;
  Message message = {};
  std::copy_n(mine.begin(), std::min(mine.size(), message.size() - 1), message.begin());
  std::vector<Message> all(static_cast<std::size_t>(hosts.world_size()));
  constexpr std::int64_t kBytes = sizeof(Message);
  hosts
      .all_gather_into({{ConstPiece{message.data(), kBytes, DType::uint8},
                         Piece{all.data(), kBytes * hosts.world_size(), DType::uint8}}},
                       "how NCCL's trial went")
      .wait();
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank][0] == '\0') continue;
    return fmt::format(
        "NCCL was tried, and on rank {} {}; NCCL_DEBUG=WARN says more, and "
        "NCCL_P2P_DISABLE=1, NCCL_SHM_DISABLE=1, NCCL_IB_DISABLE=1 or "
        "NCCL_SOCKET_IFNAME tells which way is broken",
        rank, all[rank].data());
  }
  return {};
}

}  // namespace

std::string try_nccl(NcclLaunches& launches, Communicator& hosts, const TrialOptions& options) {
  TrialHosts trial_hosts(hosts);
  std::string failed;
  launches.begin_trial(options.time);
  launches.enclose([&] {
    Trial trial(launches, trial_hosts, options);
    failed = first_words(trial.run(), hosts);
  });
  launches.end_trial();
  return failed;
}

}  // namespace zeroshard
