// One operation as a backend queues it: its tag, its memory, and where to report its end.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "zeroshard/comm/communicator.h"

namespace zeroshard {

struct Call {
  OperationTag tag;
  std::vector<GatherPair> gathers = {};
  std::vector<ReducePair> reduces = {};
  ReduceOptions reduce_options = {};
  Piece piece = {};  // of all_reduce and broadcast
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  std::shared_ptr<Completion> completion = std::make_shared<Completion>();
};

// Backends that move host memory only call this. Throws CommError.
void refuse_device_memory(const Call& call, std::string_view backend);

// Checks arguments and turns each operation into a Call with the next sequence number; what is done
// with it is start().
class CallCommunicator : public Communicator {
 public:
  Handle all_gather_into(const std::vector<GatherPair>& pairs, const std::string& label) final;
  Handle reduce_scatter_into(const std::vector<ReducePair>& pairs, const ReduceOptions& options,
                             const std::string& label) final;
  Handle all_reduce(const Piece& piece, ReduceOp op, const std::string& label) final;
  Handle broadcast(const Piece& piece, int root, const std::string& label) final;
  Handle barrier(const std::string& label) final;

 protected:
  virtual Handle start(Call call) = 0;

 private:
  struct Shape {
    std::uint64_t hash = 0;
    std::int64_t bytes = 0;
  };
  Call new_call(Operation operation, const std::string& label, Shape shape);

  std::uint64_t next_sequence_ = 0;
};

// A backend that works through its calls by itself: what it adds is submit().
class QueuedCommunicator : public CallCommunicator {
 protected:
  // Takes the call; its completion is finished later, from any thread.
  virtual void submit(Call call) = 0;

 private:
  Handle start(Call call) final;
};

}  // namespace zeroshard
