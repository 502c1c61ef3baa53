// Bytes between the ranks of a process group: every one of them to every other.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "zeroshard/comm/message.h"
#include "zeroshard/comm/options.h"

namespace zeroshard {

class C10dMessages {
 public:
  C10dMessages(c10::intrusive_ptr<c10d::Backend> group, const CommOptions& options);

  int rank() const { return group_->getRank(); }
  int world_size() const { return group_->getSize(); }
  // Whatever is under way ends soon.
  void abort() { group_->abort(); }

  // What has been sent and asked for and is not waited for yet.
  struct Pending {
    int peer = 0;
    c10::intrusive_ptr<c10d::Work> work;
    at::Tensor bytes;  // lives until the work is done
  };
  using Round = std::vector<Pending>;

  using Source = std::function<const void*(int peer)>;
  using Target = std::function<void*(int peer)>;
  // `bytes` to and from each of the others.
  void exchange(std::int64_t bytes, const Source& source, const Target& target, Round& round);
  // From the root to all others.
  void broadcast(const Piece& piece, int root, Round& round);

  // Blocks. Throws CommError, with the operation's name, where a rank is gone or silent.
  void wait(Round& round, const OperationTag& tag) const;

 private:
  void send(int peer, const void* data, std::int64_t bytes, Round& round);
  void receive(int peer, void* data, std::int64_t bytes, Round& round);

  const c10::intrusive_ptr<c10d::Backend> group_;
  const CommOptions options_;
  int next_tag_ = 0;  // in step on all ranks
};

}  // namespace zeroshard
