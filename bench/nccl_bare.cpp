// Our collectives over NCCL beside NCCL called bare, on the same ranks, memory and library.
//
//   cmake --build build --target nccl_bare
//   ZEROSHARD_NCCL=1 build/zeroshard run --ranks 2 build/bench/nccl_bare [MiB of the largest]
//
// Both are called several times in a row before anybody waits, as an engine does; they take turns,
// and a time is that of the slowest rank. Ratios are bare over ours: above 1, ours is faster. Ranks
// that share a GPU need NCCL 2.30 and NCCL_MULTI_RANK_GPU_ENABLE=1.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <vector>

#include <fmt/core.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/launch.h"
#include "zeroshard/comm/join.h"
#include "zeroshard/comm/nccl_library.h"
#include "zeroshard/device/accelerators.h"
#include "zeroshard/device/buffer.h"

namespace zeroshard {
namespace {

constexpr int kRounds = 9, kWarmUps = 2;

// NCCL's own communicator, which waits in its calls, on a stream of its own.
class Bare {
 public:
  Bare(const NcclLibrary& nccl, Device device, Communicator& hosts)
      : nccl_(nccl), stream_(Stream::make(device, StreamPriority::urgent)) {
    NcclLibrary::Id id;
    if (hosts.rank() == 0) require(nccl_.get_unique_id(&id));
    const auto bytes = static_cast<std::int64_t>(id.bytes.size());
    hosts.broadcast({id.bytes.data(), bytes, DType::uint8}, 0, "the bare identifier").wait();
    NcclLibrary::Config config;
    config.blocking = 1;
    stream_.run([&] {
      require(nccl_.comm_init_rank_config(&comm_, hosts.world_size(), id, hosts.rank(), &config));
    });
  }
  ~Bare() {
    stream_.run([this] { nccl_.comm_destroy(comm_); });
  }
  Bare(const Bare&) = delete;
  Bare& operator=(const Bare&) = delete;

  const Stream& stream() const { return stream_; }

  void gather(const ConstPiece& in, const Piece& out) const {
    stream_.run([&] {
      require(nccl_.all_gather(in.data, out.data, static_cast<std::size_t>(in.count),
                               NcclLibrary::kBf16, comm_, stream_.native()));
    });
  }

  void reduce(const ConstPiece& in, const Piece& out) const {
    stream_.run([&] {
      require(nccl_.reduce_scatter(in.data, out.data, static_cast<std::size_t>(out.count),
                                   NcclLibrary::kBf16, NcclLibrary::kPlainSum, comm_,
                                   stream_.native()));
    });
  }

 private:
  void require(NcclLibrary::Result result) const {
    if (result == NcclLibrary::kSuccess) return;
    throw CommError({.what = "NCCL failed when it was called bare",
                     .value = nccl_.message_of(result, comm_),
                     .remedy = "NCCL_DEBUG=WARN says more"});
  }

  const NcclLibrary& nccl_;
  const Stream stream_;
  NcclLibrary::Comm comm_ = nullptr;
};

// The two sides of one comparison: each puts one operation on its way, and waits for all of them.
struct Side {
  std::function<void()> start;
  std::function<void()> wait;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// Of the slowest rank, in seconds of one operation.
double seconds_of(const Side& side, int calls, Communicator& comm) {
  comm.barrier("begin").wait();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) side.start();
  side.wait();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  auto seconds = static_cast<float>(taken.count() / calls);
  comm.all_reduce({&seconds, 1, DType::fp32}, ReduceOp::max, "time").wait();
  return seconds;
}

void compare(const char* what, std::int64_t bytes, const Side& ours, const Side& bare,
             Communicator& comm) {
  const int calls = std::clamp<int>(static_cast<int>(512 * kMiB / bytes), 2, 20);
  std::vector<double> our_times, bare_times, ratios;
  for (int round = -kWarmUps; round < kRounds; ++round) {
    const bool ours_first = round % 2 == 0;
    const double first = seconds_of(ours_first ? ours : bare, calls, comm);
    const double second = seconds_of(ours_first ? bare : ours, calls, comm);
    if (round < 0) continue;
    our_times.push_back(ours_first ? first : second);
    bare_times.push_back(ours_first ? second : first);
    ratios.push_back(bare_times.back() / our_times.back());
  }
  if (comm.rank() != 0) return;
  const auto [least, most] = std::ranges::minmax(ratios);
  fmt::print("| {} | {} | {:.3f} | {:.3f} | {:.3f} ({:.3f}..{:.3f}) |\n", what, human_bytes(bytes),
             1e3 * median(our_times), 1e3 * median(bare_times), median(ratios), least, most);
}

void measure(Communicator& comm, Device device, std::int64_t most_bytes) {
  const Stream current = Stream::current(device);
  const Bare bare(*nccl_library(), device, comm);
  const std::int64_t ranks = comm.world_size();
  const Buffer full(device, most_bytes), part(device, most_bytes / ranks);
  if (comm.rank() == 0) {
    fmt::print("{} ranks, NCCL {}, bf16; the whole of all ranks' parts\n", ranks, nccl_version());
    fmt::print(
        "| operation | size | ours, ms | bare, ms | bare over ours |\n|---|--:|--:|--:|--:|\n");
  }
  for (std::int64_t bytes = kMiB; bytes <= most_bytes; bytes *= 4) {
    const std::int64_t count = bytes / 2 / ranks;
    const Piece whole{full.data(), count * ranks, DType::bf16, device.kind};
    const Piece own{part.data(), count, DType::bf16, device.kind};
    Handle last;
    const auto wait_for_ours = [&] {
      last.wait(current);
      current.synchronize();
    };
    const auto wait_for_bare = [&] { bare.stream().synchronize(); };
    compare("all-gather", bytes,
            {[&] {
               last = comm.all_gather_into({{own.read(), whole}}, "ours");
             },
             wait_for_ours},
            {[&] { bare.gather(own.read(), whole); }, wait_for_bare}, comm);
    compare("reduce-scatter", bytes,
            {[&] {
               last = comm.reduce_scatter_into({{whole.read(), own}}, {}, "ours");
             },
             wait_for_ours},
            {[&] { bare.reduce(whole.read(), own); }, wait_for_bare}, comm);
  }
}

}  // namespace
}  // namespace zeroshard

int main(int argc, char** argv) {
  using namespace zeroshard;
  return rank_main([&] {
    const int devices = load_accelerators();
    if (devices == 0 || nccl_library() == nullptr) {
      fmt::print("nccl_bare: needs a GPU and NCCL: {}{}\n", missing_reason(DeviceKind::cuda),
                 devices == 0 ? "" : missing_nccl());
      return 77;
    }
    const Device device{DeviceKind::cuda, read_launch().local_rank % devices};
    const auto comm = join_ranks({}, device);
    measure(*comm, device, (argc > 1 ? std::atoll(argv[1]) : 1024) * kMiB);
    return 0;
  });
}
