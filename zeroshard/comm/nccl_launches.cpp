#include "zeroshard/comm/nccl_launches.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include <fmt/format.h>

#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/half.h"
#include "zeroshard/comm/carry_slot.h"

namespace zeroshard {
namespace {

constexpr std::chrono::milliseconds kTellAgain{100};  // while meeting, how far each one is
constexpr std::chrono::milliseconds kFarewell{5000};  // to ranks that may never say theirs

int type_of(DType dtype) {
  switch (dtype) {
    case DType::fp32: return NcclLibrary::kFp32;
    case DType::bf16: return NcclLibrary::kBf16;
    case DType::fp16: return NcclLibrary::kFp16;
    default: break;
  }
  ZS_CHECK(false, "a sum of no floats");
  return 0;
}

std::size_t bytes_in(const ConstPiece& piece) { return static_cast<std::size_t>(piece.bytes()); }

const std::byte* part_of(const void* data, std::int64_t index, std::int64_t bytes) {
  return static_cast<const std::byte*>(data) + index * bytes;
}
std::byte* part_of(void* data, std::int64_t index, std::int64_t bytes) {
  return static_cast<std::byte*>(data) + index * bytes;
}

// A factor in two: a power of two, by which nothing is rounded unless it is subnormal, and the
// rest.
struct SplitFactor {
  float power = 1.0F;
  float rest = 1.0F;
};

SplitFactor split(float factor) {
  if (!std::isfinite(factor) || factor <= 0.0F) return {.power = 1.0F, .rest = factor};
  int exponent = 0;
  const float fraction = std::frexp(factor, &exponent);  // from 0.5 on, below 1
  return {.power = std::ldexp(1.0F, exponent - 1), .rest = fraction * 2.0F};
}

}  // namespace

// A communicator that ends well waits until the others need nothing of it any more, but not for a
// rank that never ends; one that failed was aborted before.
NcclLaunches::~NcclLaunches() {
  if (comm_ == nullptr) return;
  stream_->run([&] {
    try {
      settle(nccl_.comm_finalize(comm_), "ending", std::min(options_.comm.timeout, kFarewell));
      nccl_.comm_destroy(comm_);
    } catch (const Error&) {
      nccl_.comm_abort(comm_);
    }
  });
}

// What comes from the host is copied into its place, and gathered from there.
bool NcclLaunches::can_move(const GatherPair& pair) { return uses_device(pair.out.read()); }

bool NcclLaunches::can_move(const ReducePair& pair) {
  return uses_device(pair.in) && uses_device(pair.out.read());
}

Event NcclLaunches::launch(const Call& call, const Event& ready, Communicator& hosts) {
  if (comm_ == nullptr) meet(hosts);
  stream_->wait(ready);
  stream_->run([&] {
    switch (call.tag.operation) {
      case Operation::all_gather: return gather(call.gathers);
      case Operation::reduce_scatter:
        return options_.comm.deterministic ? reduce_in_rank_order(call.reduces, call.reduce_options)
                                           : reduce_scatter(call.reduces, call.reduce_options);
      case Operation::broadcast: return broadcast(call.piece, call.root);
      default: ZS_CHECK(false, "{} is not for NCCL", describe(call.tag));
    }
  });
  Event end;
  end.record(*stream_);
  return end;
}

void NcclLaunches::check() {
  if (comm_ != nullptr) require(state(), "an operation");
}

void NcclLaunches::abort() noexcept {
  if (comm_ == nullptr) return;
  try {
    stream_->run([&] { nccl_.comm_abort(comm_); });
  } catch (...) {  // the device is broken: the process ends soon
  }
  comm_ = nullptr;
}

// The library's own meeting does not notice a rank that dies in it; the hosts' does.
void NcclLaunches::meet(Communicator& hosts) {
  rank_ = hosts.rank();
  ranks_ = hosts.world_size();
  stream_ = Stream::make(device_, StreamPriority::urgent);
  const NcclLibrary::Id id = agree_on_id(hosts);
  stream_->run([&] {
    NcclLibrary::Config config;
    const Result result = nccl_.comm_init_rank_config(&comm_, ranks_, id, rank_, &config);
    if (result != NcclLibrary::kInProgress) require(result, "meeting");
  });
  wait_until_all_have_met(hosts);
}

NcclLibrary::Id NcclLaunches::agree_on_id(Communicator& hosts) const {
  NcclLibrary::Id id;
  if (rank_ == 0) require(nccl_.get_unique_id(&id), "meeting");
  const auto bytes = static_cast<std::int64_t>(id.bytes.size());
  hosts.broadcast({id.bytes.data(), bytes, DType::uint8}, 0, "NCCL's identifier").wait();
  return id;
}

void NcclLaunches::wait_until_all_have_met(Communicator& hosts) {
  const auto deadline = std::chrono::steady_clock::now() + options_.comm.timeout;
  std::int32_t slowest = 1;
  while (slowest > 0) {
    const auto look_again = std::chrono::steady_clock::now() + kTellAgain;
    while (state() == NcclLibrary::kInProgress && std::chrono::steady_clock::now() < look_again) {
      std::this_thread::yield();
    }
    const Result now = state();
    slowest = now == NcclLibrary::kSuccess ? 0 : now == NcclLibrary::kInProgress ? 1 : 2;
    hosts.all_reduce({&slowest, 1, DType::int32}, ReduceOp::max, "NCCL's meeting").wait();
    if (slowest == 2) require(now, "meeting");
    if (slowest == 2) {
      throw PeerError({.what = "NCCL failed in meeting on another rank",
                       .remedy = "see that rank's own message"});
    }
    if (slowest == 1 && std::chrono::steady_clock::now() > deadline) {
      throw CommError(
          {.what = fmt::format("NCCL did not meet within {} ms", options_.comm.timeout.count()),
           .remedy = "NCCL_DEBUG=INFO shows what it waits for"});
    }
  }
}

// Everything from here on is called with the stream as the current one.
void NcclLaunches::gather(const std::vector<GatherPair>& pairs) {
  for (const GatherPair& pair : pairs) {
    if (uses_device(pair.in) || pair.in.count == 0) continue;
    copy_bytes(*stream_, part_of(pair.out.data, rank_, pair.in.bytes()), device_, pair.in.data,
               kCpu, pair.in.bytes());
  }
  grouped([&] {
    for (const GatherPair& pair : pairs) {
      if (pair.in.count == 0) continue;
      const void* const in =
          uses_device(pair.in) ? pair.in.data : part_of(pair.out.data, rank_, pair.in.bytes());
      require(nccl_.all_gather(in, pair.out.data, bytes_in(pair.in), NcclLibrary::kBytes, comm_,
                               stream_->native()),
              "an all-gather");
    }
  });
}

// A sum goes to its place by itself, unless something is to be done to it first.
void NcclLaunches::reduce_scatter(const std::vector<ReducePair>& pairs,
                                  const ReduceOptions& options) {
  const SplitFactor factor = split(options.scale);
  const auto is_direct = [&](const ReducePair& pair) {
    return factor.rest == 1.0F && !options.accumulate && pair.in.dtype == pair.out.dtype;
  };
  std::int64_t bytes = 0;
  for (const ReducePair& pair : pairs) {
    scaled_sum(pair.in.dtype, factor.power);  // made before the group, which holds launches alone
    if (!is_direct(pair)) bytes += pair.out.count * bytes_of(pair.in.dtype);
  }
  std::byte* place = scratch(bytes);
  std::vector<ArrayWrite> writes;
  grouped([&] {
    for (const ReducePair& pair : pairs) {
      if (pair.out.count == 0) continue;
      void* to = pair.out.data;
      if (!is_direct(pair)) {
        to = place;
        place += pair.out.count * bytes_of(pair.in.dtype);
        writes.push_back({.to = pair.out.data,
                          .to_dtype = pair.out.dtype,
                          .from = to,
                          .from_dtype = pair.in.dtype,
                          .count = pair.out.count,
                          .factor1 = factor.rest,
                          .adds = options.accumulate});
      }
      require(nccl_.reduce_scatter(pair.in.data, to, static_cast<std::size_t>(pair.out.count),
                                   type_of(pair.in.dtype), scaled_sum(pair.in.dtype, factor.power),
                                   comm_, stream_->native()),
              "a reduce-scatter");
    }
  });
  if (!writes.empty()) options_.write(device_, writes);
}

// Every rank gets all addends of its part, as they are, and adds them up as sum_in_rank_order()
// does: one launch for each rank, of all pairs together.
void NcclLaunches::reduce_in_rank_order(const std::vector<ReducePair>& pairs,
                                        const ReduceOptions& options) {
  std::int64_t addend_bytes = 0, elements = 0;
  for (const ReducePair& pair : pairs) {
    addend_bytes += pair.out.count * bytes_of(pair.in.dtype) * ranks_;
    elements += pair.out.count;
  }
  if (elements == 0) return;
  constexpr std::int64_t kFloat = 4;
  std::byte* sum = scratch(elements * kFloat + addend_bytes);  // fp32 first, so that it is aligned
  std::byte* addend = sum + elements * kFloat;
  std::vector<std::vector<ArrayWrite>> steps(static_cast<std::size_t>(ranks_) + 1);
  grouped([&] {
    for (const ReducePair& pair : pairs) {
      const std::int64_t bytes = pair.out.count * bytes_of(pair.in.dtype);
      if (bytes == 0) continue;
      for (int rank = 0; rank < ranks_; ++rank) {
        const void* from = part_of(pair.in.data, rank, bytes);
        if (rank != rank_) {
          require(nccl_.send(from, static_cast<std::size_t>(bytes), NcclLibrary::kBytes, rank,
                             comm_, stream_->native()),
                  "a send");
          require(nccl_.recv(addend, static_cast<std::size_t>(bytes), NcclLibrary::kBytes, rank,
                             comm_, stream_->native()),
                  "a receive");
          from = addend;
          addend += bytes;
        }
        steps[static_cast<std::size_t>(rank)].push_back({.to = sum,
                                                         .from = from,
                                                         .from_dtype = pair.in.dtype,
                                                         .count = pair.out.count,
                                                         .adds = rank > 0});
      }
      steps.back().push_back({.to = pair.out.data,
                              .to_dtype = pair.out.dtype,
                              .from = sum,
                              .count = pair.out.count,
                              .factor1 = options.scale,
                              .adds = options.accumulate});
      sum += pair.out.count * kFloat;
    }
  });
  for (const std::vector<ArrayWrite>& step : steps) options_.write(device_, step);
}

void NcclLaunches::broadcast(const Piece& piece, int root) {
  if (piece.count == 0) return;
  grouped([&] {
    require(nccl_.broadcast(piece.data, piece.data, bytes_in(piece.read()), NcclLibrary::kBytes,
                            root, comm_, stream_->native()),
            "a broadcast");
  });
}

// The library's sum of addends that are multiplied first; each is made once.
NcclLibrary::Sum NcclLaunches::scaled_sum(DType dtype, float factor) {
  if (factor == 1.0F) return NcclLibrary::kPlainSum;
  const auto [found, is_new] = sums_.try_emplace({dtype, factor});
  if (!is_new) return found->second;
  const std::uint16_t half = dtype == DType::bf16 ? fp32_to_bf16(factor) : fp32_to_fp16(factor);
  void* const scalar =
      dtype == DType::fp32 ? static_cast<void*>(&factor) : const_cast<std::uint16_t*>(&half);
  require(nccl_.red_op_create_pre_mul_sum(&found->second, scalar, type_of(dtype),
                                          NcclLibrary::kScalarOnHost, comm_),
          "a scaled sum");
  return found->second;
}

// All calls as one launch. An empty group is none.
void NcclLaunches::grouped(const std::function<void()>& calls) {
  require(nccl_.group_start(), "a group");
  try {
    calls();
  } catch (...) {
    nccl_.group_end();  // the group is of this thread, and must not stay open
    throw;
  }
  settle(nccl_.group_end(), "a launch", options_.comm.timeout);
}

// One buffer that grows. Whoever used it before is earlier on the same stream.
std::byte* NcclLaunches::scratch(std::int64_t bytes) {
  if (bytes > scratch_.bytes()) {
    scratch_ = {};
    scratch_ = Buffer(device_, bytes);
  }
  if (bytes > 0) scratch_.wrote(*stream_);
  return static_cast<std::byte*>(scratch_.data());
}

NcclLibrary::Result NcclLaunches::state() const {
  Result result = NcclLibrary::kSuccess;
  const Result asked = nccl_.comm_get_async_error(comm_, &result);
  return asked == NcclLibrary::kSuccess ? result : asked;
}

void NcclLaunches::require(Result result, const char* what) const {
  if (result == NcclLibrary::kSuccess || result == NcclLibrary::kInProgress) return;
  throw CommError({.what = fmt::format("NCCL failed in {}", what),
                   .value = nccl_.message_of(result, comm_),
                   .remedy = "NCCL_DEBUG=WARN says more; a rank that is gone shows in the others "
                             "as a remote or system error"});
}

// The library answers at once, and goes on by itself where it waits for other ranks' hosts.
void NcclLaunches::settle(Result result, const char* what, std::chrono::milliseconds time) const {
  const auto deadline = std::chrono::steady_clock::now() + time;
  while (result == NcclLibrary::kInProgress) {
    if (std::chrono::steady_clock::now() > deadline) {
      throw CommError(
          {.what = fmt::format("NCCL has not ended {} within {} ms", what, time.count()),
           .remedy = "NCCL_DEBUG=INFO shows what it waits for"});
    }
    std::this_thread::yield();
    result = state();
  }
  require(result, what);
}

}  // namespace zeroshard
