#include "zeroshard/comm/single.h"

#include <algorithm>
#include <optional>

#include "zeroshard/comm/carry_slot.h"
#include "zeroshard/comm/carry_through_host.h"
#include "zeroshard/comm/rank_sum.h"

namespace zeroshard {
namespace {

std::vector<GatherPair> those_that_move(const std::vector<GatherPair>& pairs) {
  std::vector<GatherPair> moving;
  std::ranges::copy_if(pairs, std::back_inserter(moving), [](const GatherPair& pair) {
    return pair.in.data != pair.out.data && pair.in.count > 0;
  });
  return moving;
}

class SingleCommunicator final : public Communicator {
 public:
  explicit SingleCommunicator(Device device) : device_(device) {}

  int rank() const override { return 0; }
  int world_size() const override { return 1; }

  Handle all_gather_into(const std::vector<GatherPair>& pairs, const std::string& label) override {
    check_arguments(pairs, 1);
    Call call = named(Operation::all_gather, label);
    call.gathers = those_that_move(pairs);
    if (call.gathers.empty()) return {};
    refuse_unknown_device(call);
    if (std::ranges::any_of(call.gathers, [&](const GatherPair& pair) { return carries(pair); })) {
      return pass_on(carrying(), call);
    }
    return copy(call.gathers);
  }

  // A sum of one addend still goes through fp32, the scale and the output's dtype.
  Handle reduce_scatter_into(const std::vector<ReducePair>& pairs, const ReduceOptions& options,
                             const std::string& label) override {
    check_arguments(pairs, 1);
    Call call = named(Operation::reduce_scatter, label);
    call.reduces = pairs;
    call.reduce_options = options;
    refuse_unknown_device(call);
    if (uses_device(call)) return pass_on(carrying(), call);
    for (const ReducePair& pair : pairs) {
      sum_in_rank_order({pair.in.data}, pair.in.dtype, pair.out, options);
    }
    return {};
  }

  Handle all_reduce(const Piece& piece, ReduceOp op, const std::string&) override {
    check_arguments(piece, op);
    return {};
  }

  Handle broadcast(const Piece& piece, int root, const std::string&) override {
    check_arguments(piece, ReduceOp::max);
    check_root(root, 1);
    return {};
  }

  Handle barrier(const std::string&) override { return {}; }

  std::unique_ptr<Communicator> make_sibling() override {
    return make_single_communicator(device_);
  }

 private:
  static Call named(Operation operation, const std::string& label) {
    Call call;
    call.tag.operation = operation;
    call.tag.label = label;
    return call;
  }

  void refuse_unknown_device(const Call& call) const {
    if (device_ == kCpu) refuse_device_memory(call, "single");
  }

  // The device cannot copy by itself from or to host memory that is not pinned, and host memory at
  // both ends is none of its business.
  bool carries(const GatherPair& pair) const {
    if (device_ == kCpu) return false;
    const auto is_within_reach = [&](const ConstPiece& piece) {
      return uses_device(piece) || backend_of(device_.kind).is_pinned(device_.index, piece.data);
    };
    return !uses_device(pair) || !is_within_reach(pair.in) || !is_within_reach(pair.out.read());
  }

  Handle copy(const std::vector<GatherPair>& pairs) {
    if (!side_) side_ = Stream::make(device_);
    Event ready, last;
    ready.record(Stream::current(device_));
    side_->wait(ready);
    for (const auto& [in, out] : pairs) {
      copy_bytes(*side_, out.data, device_of(out.read()), in.data, device_of(in), in.bytes());
    }
    last.record(*side_);
    const auto completion = std::make_shared<Completion>();
    completion->finish_behind(last);
    return Handle(completion);
  }

  Device device_of(const ConstPiece& piece) const { return uses_device(piece) ? device_ : kCpu; }

  Communicator& carrying() {
    if (carrying_ == nullptr) {
      carrying_ = carry_through_host(make_single_communicator(), {.device = device_});
    }
    return *carrying_;
  }

  const Device device_;
  std::optional<Stream> side_;  // made by the first gather that moves something
  std::unique_ptr<Communicator> carrying_;
};

}  // namespace

std::unique_ptr<Communicator> make_single_communicator(Device device) {
  return std::make_unique<SingleCommunicator>(device);
}

}  // namespace zeroshard
