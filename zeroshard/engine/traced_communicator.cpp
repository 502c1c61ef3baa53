#include "zeroshard/engine/traced_communicator.h"

#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace zeroshard {
namespace {

// Where operations report their end. After a failure some end when their communicator is gone, and
// maybe the trace with it.
class TraceLink {
 public:
  explicit TraceLink(Trace& trace) : trace_(&trace) {}

  void add(Operation operation, const std::string& label, Trace::Clock::time_point begin) {
    const auto end = Trace::Clock::now();
    const std::lock_guard lock(mutex_);
    if (trace_ != nullptr) {
      trace_->add(Lane::communication, name_of(operation), label, begin, end);
    }
  }

  void cut() {
    const std::lock_guard lock(mutex_);
    trace_ = nullptr;
  }

 private:
  std::mutex mutex_;
  Trace* trace_;
};

class TracedCommunicator final : public Communicator {
 public:
  TracedCommunicator(std::unique_ptr<Communicator> comm, Trace& trace)
      : comm_(std::move(comm)), trace_(trace), link_(std::make_shared<TraceLink>(trace)) {}

  ~TracedCommunicator() override {
    comm_.reset();  // may wait for operations, which are still of interest
    link_->cut();
  }

  int rank() const override { return comm_->rank(); }
  int world_size() const override { return comm_->world_size(); }
  DeviceSums device_sums() const override { return comm_->device_sums(); }

  Handle all_gather_into(const std::vector<GatherPair>& pairs, const std::string& label) override {
    return traced(Operation::all_gather, label,
                  [&] { return comm_->all_gather_into(pairs, label); });
  }

  Handle reduce_scatter_into(const std::vector<ReducePair>& pairs, const ReduceOptions& options,
                             const std::string& label) override {
    return traced(Operation::reduce_scatter, label,
                  [&] { return comm_->reduce_scatter_into(pairs, options, label); });
  }

  Handle all_reduce(const Piece& piece, ReduceOp op, const std::string& label) override {
    return traced(Operation::all_reduce, label,
                  [&] { return comm_->all_reduce(piece, op, label); });
  }

  Handle broadcast(const Piece& piece, int root, const std::string& label) override {
    return traced(Operation::broadcast, label,
                  [&] { return comm_->broadcast(piece, root, label); });
  }

  Handle barrier(const std::string& label) override {
    return traced(Operation::barrier, label, [&] { return comm_->barrier(label); });
  }

  std::unique_ptr<Communicator> make_sibling() override {
    return trace_operations(comm_->make_sibling(), &trace_);
  }

 private:
  template <typename Start>
  Handle traced(Operation operation, const std::string& label, const Start& start) {
    const auto begin = Trace::Clock::now();
    Handle handle = start();
    handle.when_done(
        [link = link_, operation, label, begin] { link->add(operation, label, begin); });
    return handle;
  }

  std::unique_ptr<Communicator> comm_;
  Trace& trace_;
  const std::shared_ptr<TraceLink> link_;
};

}  // namespace

std::unique_ptr<Communicator> trace_operations(std::unique_ptr<Communicator> comm, Trace* trace) {
  if (trace == nullptr) return comm;
  return std::make_unique<TracedCommunicator>(std::move(comm), *trace);
}

}  // namespace zeroshard
