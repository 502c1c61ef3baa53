// A process group of torch.distributed moves bytes between its ranks.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "zeroshard/comm/options.h"
#include "zeroshard/comm/transport.h"

namespace zeroshard {

// A process group that a communicator and its siblings share. Each of them has a lane of its own,
// which is a range of message tags, so that nobody receives what was sent to another. A group is
// never used again for other communicators: the lanes would start anew, and what ranks have left
// behind in them after a failure would be taken for new messages.
class C10dGroup {
 public:
  explicit C10dGroup(c10::intrusive_ptr<c10d::Backend> backend) : backend_(std::move(backend)) {}

  int rank() const { return backend_->getRank(); }
  int world_size() const { return backend_->getSize(); }
  // Every rank adds the same lanes in the same order. Throws StateError where none is left.
  int add_lane();
  // Whatever is under way ends soon, in all lanes. A backend that cannot do so waits for its
  // timeout.
  void abort() noexcept;

  // `tag` is among the lane's own; see C10dTransport.
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int peer, int tag);
  c10::intrusive_ptr<c10d::Work> receive(std::vector<at::Tensor>& tensors, int peer, int tag);

 private:
  const c10::intrusive_ptr<c10d::Backend> backend_;
  std::mutex mutex_;  // backends count what is posted, and lanes post from threads of their own
  int lanes_ = 0;
};

class C10dTransport final : public Transport {
 public:
  C10dTransport(std::shared_ptr<C10dGroup> group, int lane, const CommOptions& options);

  int rank() const override { return group_->rank(); }
  int world_size() const override { return group_->world_size(); }
  void abort() override { group_->abort(); }
  void exchange(std::int64_t bytes, const Source& source, const Target& target,
                Round& round) override;
  void broadcast(const Piece& piece, int root, Round& round) override;

 private:
  void begin_round();
  void send(int peer, const void* data, std::int64_t bytes, Round& round);
  void receive(int peer, void* data, std::int64_t bytes, Round& round);

  const std::shared_ptr<C10dGroup> group_;
  const int first_tag_;
  const CommOptions options_;
  int rounds_ = 0;  // in step on all ranks
};

}  // namespace zeroshard
