// Bytes between the ranks of a process group.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "zeroshard/comm/options.h"
#include "zeroshard/comm/transport.h"

namespace zeroshard {

class C10dTransport final : public Transport {
 public:
  C10dTransport(c10::intrusive_ptr<c10d::Backend> group, const CommOptions& options);

  int rank() const override { return group_->getRank(); }
  int world_size() const override { return group_->getSize(); }
  void abort() override { group_->abort(); }
  void exchange(std::int64_t bytes, const Source& source, const Target& target,
                Round& round) override;
  void broadcast(const Piece& piece, int root, Round& round) override;

 private:
  void send(int peer, const void* data, std::int64_t bytes, Round& round);
  void receive(int peer, void* data, std::int64_t bytes, Round& round);

  const c10::intrusive_ptr<c10d::Backend> group_;
  const CommOptions options_;
  int next_tag_ = 0;  // in step on all ranks
};

}  // namespace zeroshard
