#include "zeroshard/comm/nccl_launches.h"

#include <algorithm>
#include <exception>
#include <future>
#include <memory>
#include <thread>

#include <fmt/format.h>

#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/half.h"
#include "zeroshard/comm/carry_slot.h"
#include "zeroshard/comm/common_progress.h"
#include "zeroshard/comm/launch_words.h"

namespace zeroshard {
namespace {

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

std::vector<SummedPart> parts_of(const std::vector<ReducePair>& pairs) {
  std::vector<SummedPart> parts;
  for (const ReducePair& pair : pairs) {
    parts.push_back({pair.out.count, pair.in.dtype, pair.out.dtype});
  }
  return parts;
}

}  // namespace

// A communicator that ends well waits until the others need nothing of it any more, but not for a
// rank that never ends; one that failed was aborted before.
NcclLaunches::~NcclLaunches() {
  if (comm_ == nullptr) return;
  bool has_ended_well = false;
  try {
    stream_->run([&] { settle(nccl_.comm_finalize(comm_), "ending", kFarewell); });
    has_ended_well = true;
  } catch (...) {  // the process goes on without it
  }
  end(has_ended_well ? nccl_.comm_destroy : nccl_.comm_abort);
}

// What comes from the host is copied into its place, and gathered from there.
bool NcclLaunches::can_move(const GatherPair& pair) { return uses_device(pair.out.read()); }

bool NcclLaunches::can_move(const ReducePair& pair) {
  return uses_device(pair.in) && uses_device(pair.out.read());
}

void NcclLaunches::end_trial() {
  patience_ = options_.comm.timeout;
  own_scratch_ = {};
}

// torch's events would otherwise make the first device current, and with it a context there.
void NcclLaunches::enclose(const std::function<void()>& body) {
  Stream::current(device_).run(body);
}

Event NcclLaunches::launch(const Call& call, const Event& ready, LaunchHosts& hosts) {
  hosts_ = &hosts;
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
  hosts_ = nullptr;
  return end;
}

void NcclLaunches::check() {
  if (comm_ != nullptr) require(state(), "an operation");
}

// What was launched ends when the library has been told; what else is on the stream is short.
void NcclLaunches::abort() noexcept {
  hosts_ = nullptr;
  if (comm_ == nullptr) return;
  end(nccl_.comm_abort);
  try {
    stream_->synchronize();
  } catch (...) {  // the error that all this is about, or a broken device: the process ends soon
  }
}

// The library's way to end a communicator may wait for the other ranks of this host, which may be
// gone, stuck, or waiting for us: it goes on by itself where it takes long.
void NcclLaunches::end(Result (*how)(NcclLibrary::Comm)) noexcept {
  try {
    const auto over = std::make_shared<std::promise<void>>();
    const std::future<void> ended = over->get_future();
    std::thread([how, over, comm = comm_, device = device_] {
      try {
        Stream::current(device).run([&] { how(comm); });
      } catch (...) {  // a broken device: the process ends soon
      }
      over->set_value();
    }).detach();
    ended.wait_for(kFarewell);
  } catch (...) {  // no thread is to be had: the communicator stays
  }
  comm_ = nullptr;
}

// The library's own meeting does not notice a rank that dies in it; the hosts' does. Whatever goes
// wrong on this rank alone, the others are told: they go through the same rounds.
void NcclLaunches::meet(LaunchHosts& hosts) {
  rank_ = hosts.comm().rank();
  ranks_ = hosts.comm().world_size();
  std::exception_ptr broken;
  try {
    stream_ = Stream::make(device_, StreamPriority::urgent);
  } catch (...) {
    broken = std::current_exception();
  }
  NcclLibrary::Id id;
  Result result = share_id(id, hosts);
  if (!broken && result == NcclLibrary::kSuccess) result = meet_others(id);
  wait_until_all_have_met(result, broken, hosts);
}

// Rank 0 makes it. Where it cannot, the others get none, and hear of that in what follows.
NcclLibrary::Result NcclLaunches::share_id(NcclLibrary::Id& id, LaunchHosts& hosts) const {
  const Result made = rank_ == 0 ? nccl_.get_unique_id(&id) : NcclLibrary::kSuccess;
  if (made != NcclLibrary::kSuccess) id = {};
  const auto bytes = static_cast<std::int64_t>(id.bytes.size());
  hosts.wait(hosts.comm().broadcast({id.bytes.data(), bytes, DType::uint8}, 0,
                                    launch_labels::kIdentifier));
  const bool is_there = id.bytes != NcclLibrary::Id().bytes;
  return is_there || made != NcclLibrary::kSuccess ? made : NcclLibrary::kRemoteError;
}

NcclLibrary::Result NcclLaunches::meet_others(const NcclLibrary::Id& id) {
  Result result = NcclLibrary::kSuccess;
  stream_->run([&] {
    NcclLibrary::Config config;
    result = nccl_.comm_init_rank_config(&comm_, ranks_, id, rank_, &config);
  });
  return result;
}

void NcclLaunches::wait_until_all_have_met(Result begun, const std::exception_ptr& broken,
                                           LaunchHosts& hosts) {
  const bool failed = begun != NcclLibrary::kSuccess && begun != NcclLibrary::kInProgress;
  Result now = begun;
  const auto look = [&] {
    if (broken) return Progress::failed;
    if (!failed) now = state();
    return now == NcclLibrary::kSuccess      ? Progress::done
           : now == NcclLibrary::kInProgress ? Progress::under_way
                                             : Progress::failed;
  };
  const Progress worst =
      wait_together(hosts, {.time = patience_, .label = launch_labels::kMeeting}, look);
  if (worst == Progress::done) return;
  if (broken) std::rethrow_exception(broken);
  if (worst == Progress::failed) {
    require(now, "meeting");
    throw PeerError({.what = "NCCL failed in meeting on another rank",
                     .remedy = "see that rank's own message"});
  }
  throw CommError({.what = fmt::format("NCCL did not meet within {} ms", patience_.count()),
                   .remedy = "NCCL_DEBUG=INFO shows what it waits for"});
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
  const SplitFactor factor = split_factor(options.scale);
  const SumOptions sums = sum_options(options);
  const auto is_direct = [&](const ReducePair& pair) {
    return sums_in_place({pair.out.count, pair.in.dtype, pair.out.dtype}, sums);
  };
  for (const ReducePair& pair : pairs) {
    scaled_sum(pair.in.dtype, factor.power);  // made before the group, which holds launches alone
  }
  begin_scratch(sum_scratch_bytes(parts_of(pairs), sums), options);
  std::vector<ArrayWrite> writes;
  grouped([&] {
    for (const ReducePair& pair : pairs) {
      if (pair.out.count == 0) continue;
      void* to = pair.out.data;
      if (!is_direct(pair)) {
        to = take_scratch(pair.out.count * bytes_of(pair.in.dtype));
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
  ZS_CHECK_EQ(scratch_taken_, scratch_end_, "scratch of a sum");
  if (!writes.empty()) options_.write(device_, writes);
}

// Every rank gets all addends of its part, as they are, and adds them up as sum_in_rank_order()
// does: one launch for each rank, of all pairs together.
void NcclLaunches::reduce_in_rank_order(const std::vector<ReducePair>& pairs,
                                        const ReduceOptions& options) {
  constexpr std::int64_t kFloat = 4;
  const std::int64_t needed = sum_scratch_bytes(parts_of(pairs), sum_options(options));
  if (needed == 0) return;
  begin_scratch(needed, options);
  std::vector<std::vector<ArrayWrite>> steps(static_cast<std::size_t>(ranks_) + 1);
  grouped([&] {
    for (const ReducePair& pair : pairs) {
      const std::int64_t bytes = pair.out.count * bytes_of(pair.in.dtype);
      if (bytes == 0) continue;
      std::byte* const sum = take_scratch(pair.out.count * kFloat);
      for (int rank = 0; rank < ranks_; ++rank) {
        const void* from = part_of(pair.in.data, rank, bytes);
        if (rank != rank_) {
          std::byte* const addend = take_scratch(bytes);
          require(nccl_.send(from, static_cast<std::size_t>(bytes), NcclLibrary::kBytes, rank,
                             comm_, stream_->native()),
                  "a send");
          require(nccl_.recv(addend, static_cast<std::size_t>(bytes), NcclLibrary::kBytes, rank,
                             comm_, stream_->native()),
                  "a receive");
          from = addend;
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
    }
  });
  ZS_CHECK_EQ(scratch_taken_, scratch_end_, "scratch of a sum");
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
  settle(nccl_.group_end(), "a launch", patience_);
}

SumOptions NcclLaunches::sum_options(const ReduceOptions& options) const {
  return {.sums = options_.comm.deterministic ? DeviceSums::rank_order : DeviceSums::library,
          .ranks = ranks_,
          .scale = options.scale,
          .accumulates = options.accumulate};
}

// The caller's, or one buffer that grows. Whoever used either before is earlier on the same stream.
void NcclLaunches::begin_scratch(std::int64_t bytes, const ReduceOptions& options) {
  scratch_end_ = bytes;
  scratch_taken_ = 0;
  scratch_ = static_cast<std::byte*>(options.scratch);
  if (bytes == 0 || (scratch_ != nullptr && bytes <= options.scratch_bytes)) return;
  if (bytes > own_scratch_.bytes()) {
    own_scratch_ = {};
    own_scratch_ = Buffer(device_, bytes);
  }
  own_scratch_.wrote(*stream_);
  scratch_ = static_cast<std::byte*>(own_scratch_.data());
}

std::byte* NcclLaunches::take_scratch(std::int64_t bytes) {
  auto* const place = scratch_ + scratch_taken_;
  scratch_taken_ += scratch_place_bytes(bytes);
  return place;
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
    if (hosts_ != nullptr) hosts_->throw_if_abandoned();
    std::this_thread::yield();
    result = state();
  }
  require(result, what);
}

}  // namespace zeroshard
