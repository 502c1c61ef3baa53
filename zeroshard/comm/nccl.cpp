#include "zeroshard/comm/nccl.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/error.h"
#include "zeroshard/base/unwinding.h"
#include "zeroshard/comm/carry_slot.h"
#include "zeroshard/comm/carry_through_host.h"
#include "zeroshard/comm/launch_order.h"
#include "zeroshard/comm/nccl_launches.h"
#include "zeroshard/comm/nccl_library.h"

namespace zeroshard {
namespace {

class NcclCommunicator final : public Communicator {
 public:
  // `through_host` is this lane's alone.
  NcclCommunicator(std::shared_ptr<LaunchOrder> order, std::unique_ptr<Communicator> through_host,
                   Device device)
      : order_(std::move(order)),
        lane_(order_->add_lane()),
        through_host_(std::move(through_host)),
        device_(device) {}

  // Waits until what it was given is over, unless an exception takes it away.
  ~NcclCommunicator() override {
    if (unwinding_) order_->abandon();
    try {
      last_.wait();
    } catch (const Error&) {  // whoever has the handle hears of it, too
    }
  }

  int rank() const override { return through_host_->rank(); }
  int world_size() const override { return through_host_->world_size(); }

  Handle all_gather_into(const std::vector<GatherPair>& pairs, const std::string& label) override {
    check_arguments(pairs, world_size());
    if (!can_move(pairs)) {
      return through_host([&](Communicator& host) { return host.all_gather_into(pairs, label); });
    }
    Call call = new_call(Operation::all_gather, label, shape_of(pairs), pairs);
    call.gathers = pairs;
    return start(std::move(call));
  }

  Handle reduce_scatter_into(const std::vector<ReducePair>& pairs, const ReduceOptions& options,
                             const std::string& label) override {
    check_arguments(pairs, world_size());
    if (!can_move(pairs)) {
      return through_host(
          [&](Communicator& host) { return host.reduce_scatter_into(pairs, options, label); });
    }
    Call call = new_call(Operation::reduce_scatter, label, shape_of(pairs, options), pairs);
    call.reduces = pairs;
    call.reduce_options = options;
    return start(std::move(call));
  }

  Handle all_reduce(const Piece& piece, ReduceOp op, const std::string& label) override {
    return through_host([&](Communicator& host) { return host.all_reduce(piece, op, label); });
  }

  Handle broadcast(const Piece& piece, int root, const std::string& label) override {
    check_arguments(piece, ReduceOp::max);
    check_root(root, world_size());
    if (!uses_device(piece.read())) {
      return through_host([&](Communicator& host) { return host.broadcast(piece, root, label); });
    }
    Call call =
        new_call(Operation::broadcast, label, shape_of(piece, root), std::vector<Piece>{piece});
    call.piece = piece;
    call.root = root;
    return start(std::move(call));
  }

  Handle barrier(const std::string& label) override {
    return through_host([&](Communicator& host) { return host.barrier(label); });
  }

  std::unique_ptr<Communicator> make_sibling() override {
    return std::make_unique<NcclCommunicator>(order_, through_host_->make_sibling(), device_);
  }

 private:
  // A list goes one way as a whole. All ranks pass the same kinds of memory, so they choose alike.
  template <typename Pair>
  static bool can_move(const std::vector<Pair>& pairs) {
    return !pairs.empty() && std::ranges::all_of(pairs, [](const Pair& pair) {
      return NcclLaunches::can_move(pair);
    });
  }

  // What comes by this way is wrong once what came by the other has failed.
  template <typename Body>
  Handle through_host(const Body& body) {
    const std::exception_ptr failed = order_->failure();
    if (!failed) return body(*through_host_);
    const auto completion = std::make_shared<Completion>();
    completion->finish(failed);
    return Handle(completion);
  }

  static std::int64_t memory_of(const GatherPair& pair) { return pair.out.bytes(); }
  static std::int64_t memory_of(const ReducePair& pair) { return pair.in.bytes(); }
  static std::int64_t memory_of(const Piece& piece) { return piece.bytes(); }

  template <typename Memory>
  Call new_call(Operation operation, const std::string& label, std::uint64_t shape,
                const std::vector<Memory>& all) {
    std::int64_t bytes = 0;
    for (const Memory& each : all) bytes += memory_of(each);
    return {.tag = {next_sequence_++, operation, label, shape, bytes}};
  }

  Handle start(Call call) {
    Event ready;
    ready.record(Stream::current(device_));
    last_ = Handle(call.completion);
    order_->submit(lane_, std::move(call), ready);
    return last_;
  }

  const Unwinding unwinding_;
  const std::shared_ptr<LaunchOrder> order_;
  const int lane_;
  const std::unique_ptr<Communicator> through_host_;
  const Device device_;
  std::uint64_t next_sequence_ = 0;
  Handle last_;
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<Communicator> hosts,
                                                     Device device, const NcclOptions& options) {
  const NcclLibrary* const library = options.library != nullptr ? options.library : nccl_library();
  if (library == nullptr) {
    throw ConfigError({.what = "there is no NCCL for several ranks with a GPU each",
                       .value = missing_nccl(),
                       .remedy = "install the torch for CUDA, which brings it along"});
  }
  auto order = std::make_shared<LaunchOrder>(
      hosts->make_sibling(), std::make_unique<NcclLaunches>(*library, device, options),
      LaunchOrderOptions{.timeout = options.comm.timeout, .heartbeat = options.heartbeat});
  return std::make_unique<NcclCommunicator>(
      std::move(order), carry_through_host(std::move(hosts), {.device = device}), device);
}

}  // namespace zeroshard
