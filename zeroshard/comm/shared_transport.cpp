#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "zeroshard/comm/faults.h"
#include "zeroshard/comm/shared_segment.h"
#include "zeroshard/comm/transport.h"

namespace zeroshard {
namespace {

using Clock = std::chrono::steady_clock;

// Others work on cores of their own for most of the time: a look again costs less than a sleep.
constexpr int kLooks = 64;
constexpr std::chrono::milliseconds kNap(20);

// What has still to go out to a peer, or to come in from it, in order.
class ByteStream {
 public:
  struct Part {
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
  };
  // Returns what done() must reach.
  std::int64_t add(void* data, std::int64_t bytes) {
    parts_.push_back({static_cast<std::byte*>(data), bytes});
    return queued_ += bytes;
  }
  std::int64_t done() const { return done_; }

  // `move`: (memory, bytes) to how many of them were moved.
  template <typename Move>
  bool run(const Move& move) {
    bool moved = false;
    while (!parts_.empty()) {
      Part& part = parts_.front();
      const std::int64_t count = move(part.data, part.bytes);
      if (count == 0) break;
      moved = true;
      part.data += count;
      part.bytes -= count;
      done_ += count;
      if (part.bytes == 0) parts_.pop_front();
    }
    return moved;
  }

 private:
  std::deque<Part> parts_;
  std::int64_t queued_ = 0;
  std::int64_t done_ = 0;
};

class SharedTransport final : public Transport {
 public:
  SharedTransport(int rank, std::vector<std::unique_ptr<SharedSegment>> segments,
                  const CommOptions& options)
      : rank_(rank),
        segments_(std::move(segments)),
        options_(options),
        out_(segments_.size()),
        in_(segments_.size()) {}

  ~SharedTransport() override { leave(); }

  int rank() const override { return rank_; }
  int world_size() const override { return static_cast<int>(segments_.size()); }
  void abort() override {
    aborted_ = true;
    leave();
    own().ring_bell();
  }

  void exchange(std::int64_t bytes, const Source& source, const Target& target,
                Round& round) override {
    for (int peer = 0; peer < world_size() && bytes > 0; ++peer) {
      if (peer == rank_) continue;
      const std::int64_t sent = send(peer, source(peer), bytes);
      round.push_back(
          std::make_unique<Moving>(*this, peer, sent, stream(in_, peer).add(target(peer), bytes)));
    }
  }

  void broadcast(const Piece& piece, int root, Round& round) override {
    if (piece.bytes() == 0) return;
    if (rank_ != root) {
      const std::int64_t taken = stream(in_, root).add(piece.data, piece.bytes());
      round.push_back(std::make_unique<Moving>(*this, root, 0, taken));
      return;
    }
    for (int peer = 0; peer < world_size(); ++peer) {
      if (peer == root) continue;
      const std::int64_t sent = send(peer, piece.data, piece.bytes());
      round.push_back(std::make_unique<Moving>(*this, peer, sent, 0));
    }
  }

 private:
  class Moving final : public Pending {
   public:
    Moving(SharedTransport& transport, int peer, std::int64_t sent, std::int64_t taken)
        : transport_(transport), peer_(peer), sent_(sent), taken_(taken) {}
    void wait(const OperationTag& tag) override { transport_.finish(peer_, sent_, taken_, tag); }

   private:
    SharedTransport& transport_;
    const int peer_;
    const std::int64_t sent_;  // of all bytes ever sent to the peer
    const std::int64_t taken_;
  };

  static ByteStream& stream(std::vector<ByteStream>& streams, int peer) {
    return streams[static_cast<std::size_t>(peer)];
  }
  const SharedSegment& segment(int rank) const {
    return *segments_[static_cast<std::size_t>(rank)];
  }
  const SharedSegment& own() const { return segment(rank_); }

  // It is only read; the streams of both directions are of one type.
  std::int64_t send(int peer, const void* data, std::int64_t bytes) {
    return stream(out_, peer).add(const_cast<void*>(data), bytes);
  }

  void leave() {
    own().mark_closed();
    for (int peer = 0; peer < world_size(); ++peer) {
      if (peer != rank_) segment(peer).ring_bell();
    }
  }

  // Moves whatever can move now, in both directions and with all peers.
  bool move() {
    bool any = false;
    for (int peer = 0; peer < world_size(); ++peer) {
      if (peer == rank_) continue;
      SharedRing& to = own().ring_to(peer);
      SharedRing& from = segment(peer).ring_to(rank_);
      const bool put = stream(out_, peer).run([&](std::byte* data, std::int64_t bytes) {
        return to.put(data, bytes);
      });
      const bool took = stream(in_, peer).run(
          [&](std::byte* data, std::int64_t bytes) { return from.take(data, bytes); });
      if (put || took) segment(peer).ring_bell();
      any = any || put || took;
    }
    return any;
  }

  void finish(int peer, std::int64_t sent, std::int64_t taken, const OperationTag& tag) {
    const auto deadline = Clock::now() + options_.timeout;
    const auto is_done = [&] {
      return stream(out_, peer).done() >= sent && stream(in_, peer).done() >= taken;
    };
    for (int looks = 0; !is_done();) {
      if (move()) {
        looks = 0;
      } else if (++looks < kLooks) {
        std::this_thread::yield();
      } else {
        nap();
        if (!is_done()) refuse_to_wait(peer, deadline, tag);
      }
    }
  }

  void nap() {
    own().announce_sleep(true);
    const std::uint32_t heard = own().bell();
    if (!move() && !aborted_) own().sleep(heard, kNap);
    own().announce_sleep(false);
  }

  // What a rank has written before it left is still read.
  void refuse_to_wait(int peer, Clock::time_point deadline, const OperationTag& tag) {
    if (aborted_) throw rank_gone(peer, tag);
    // The order matters: once the peer is gone nothing comes any more, and the second look
    // finds the rest.
    if (segment(peer).is_gone() && !move()) throw rank_gone(peer, tag);
    if (Clock::now() >= deadline) throw waited_too_long(tag, options_.timeout, {peer});
  }

  const int rank_;
  const std::vector<std::unique_ptr<SharedSegment>> segments_;  // by rank
  const CommOptions options_;
  std::vector<ByteStream> out_;
  std::vector<ByteStream> in_;
  std::atomic<bool> aborted_ = false;
};

// Collects everybody's value, by rank.
template <typename Value>
std::vector<Value> all_of(Transport& first, const Value& mine, const OperationTag& tag) {
  std::vector<Value> all(static_cast<std::size_t>(first.world_size()), mine);
  Transport::Round round;
  first.exchange(
      sizeof(Value), [&](int) { return &mine; },
      [&](int peer) { return &all[static_cast<std::size_t>(peer)]; }, round);
  Transport::wait(round, tag);
  return all;
}

}  // namespace

std::unique_ptr<Transport> share_memory(Transport& first, const CommOptions& options,
                                        const OperationTag& tag) {
  std::vector<std::unique_ptr<SharedSegment>> segments(
      static_cast<std::size_t>(first.world_size()));
  const auto rank = static_cast<std::size_t>(first.rank());
  segments[rank] = SharedSegment::make(first.world_size());
  const auto addresses =
      all_of(first, segments[rank] ? segments[rank]->address() : SegmentAddress{}, tag);
  for (std::size_t peer = 0; peer < segments.size(); ++peer) {
    if (peer != rank) segments[peer] = SharedSegment::attach(addresses[peer], first.world_size());
  }
  const bool here = std::ranges::none_of(segments, [](const auto& each) { return !each; });
  const auto everywhere = all_of(first, static_cast<std::uint8_t>(here), tag);
  if (std::ranges::count(everywhere, 0) > 0) return nullptr;
  segments[rank]->close_file();
  return std::make_unique<SharedTransport>(first.rank(), std::move(segments), options);
}

}  // namespace zeroshard
