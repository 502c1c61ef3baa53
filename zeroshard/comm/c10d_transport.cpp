#include "zeroshard/comm/c10d_transport.h"

#include <chrono>
#include <utility>

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include "zeroshard/base/error.h"
#include "zeroshard/comm/faults.h"

namespace zeroshard {
namespace {

// Few rounds of a lane are under way at once, so that no two of them share a tag.
constexpr int kTagsPerLane = 1 << 20;
constexpr int kLanes = 1 << 10;

// Sending asks for memory that could be written to, and does not write.
at::Tensor bytes_over(const void* data, std::int64_t bytes) {
  return at::from_blob(const_cast<void*>(data), {bytes}, at::kByte);
}

class Sent final : public Transport::Pending {
 public:
  Sent(int peer, c10::intrusive_ptr<c10d::Work> work, at::Tensor bytes,
       std::chrono::milliseconds timeout)
      : peer_(peer), work_(std::move(work)), bytes_(std::move(bytes)), timeout_(timeout) {}

  void wait(const OperationTag& tag) override {
    const auto begin = std::chrono::steady_clock::now();
    if (has_ended_well()) return;
    const bool silent = std::chrono::steady_clock::now() - begin >= timeout_;
    if (silent) throw waited_too_long(tag, timeout_, {peer_});
    throw rank_gone(peer_, tag);
  }

 private:
  // What it throws is in the backend's words, and names no rank.
  bool has_ended_well() {
    try {
      return work_->wait(timeout_);
    } catch (const std::exception&) {
      return false;
    }
  }

  const int peer_;
  const c10::intrusive_ptr<c10d::Work> work_;
  const at::Tensor bytes_;  // lives until the work is done
  const std::chrono::milliseconds timeout_;
};

}  // namespace

int C10dGroup::add_lane() {
  const std::lock_guard lock(mutex_);
  if (lanes_ < kLanes) return lanes_++;
  throw StateError({.what = "a process group has no lane left for one more communicator",
                    .value = fmt::format("{} have been made", lanes_),
                    .remedy = "make a new process group, or fewer siblings"});
}

void C10dGroup::abort() noexcept {
  try {
    backend_->abort();
  } catch (...) {  // it has no way to do so: the timeout ends what is under way
  }
}

c10::intrusive_ptr<c10d::Work> C10dGroup::send(std::vector<at::Tensor>& tensors, int peer,
                                               int tag) {
  const std::lock_guard lock(mutex_);
  return backend_->send(tensors, peer, tag);
}

c10::intrusive_ptr<c10d::Work> C10dGroup::receive(std::vector<at::Tensor>& tensors, int peer,
                                                  int tag) {
  const std::lock_guard lock(mutex_);
  return backend_->recv(tensors, peer, tag);
}

C10dTransport::C10dTransport(std::shared_ptr<C10dGroup> group, int lane, const CommOptions& options)
    : group_(std::move(group)), first_tag_(lane * kTagsPerLane), options_(options) {}

void C10dTransport::begin_round() { rounds_ = (rounds_ + 1) % kTagsPerLane; }

void C10dTransport::send(int peer, const void* data, std::int64_t bytes, Round& round) {
  std::vector<at::Tensor> tensors{bytes_over(data, bytes)};
  round.push_back(std::make_unique<Sent>(peer, group_->send(tensors, peer, first_tag_ + rounds_),
                                         tensors.front(), options_.timeout));
}

void C10dTransport::receive(int peer, void* data, std::int64_t bytes, Round& round) {
  std::vector<at::Tensor> tensors{bytes_over(data, bytes)};
  round.push_back(std::make_unique<Sent>(peer, group_->receive(tensors, peer, first_tag_ + rounds_),
                                         tensors.front(), options_.timeout));
}

void C10dTransport::exchange(std::int64_t bytes, const Source& source, const Target& target,
                             Round& round) {
  begin_round();
  if (bytes == 0) return;
  for (int peer = 0; peer < world_size(); ++peer) {
    if (peer == rank()) continue;
    receive(peer, target(peer), bytes, round);
    send(peer, source(peer), bytes, round);
  }
}

void C10dTransport::broadcast(const Piece& piece, int root, Round& round) {
  begin_round();
  if (piece.bytes() == 0) return;
  if (rank() != root) return receive(root, piece.data, piece.bytes(), round);
  for (int peer = 0; peer < world_size(); ++peer) {
    if (peer != root) send(peer, piece.data, piece.bytes(), round);
  }
}

}  // namespace zeroshard
