#include "zeroshard/comm/single.h"

#include <cstring>

#include "zeroshard/comm/rank_sum.h"

namespace zeroshard {
namespace {

class SingleCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int world_size() const override { return 1; }

  Handle all_gather_into(const std::vector<GatherPair>& pairs, const std::string&) override {
    check_arguments(pairs, 1);
    for (const GatherPair& pair : pairs) {
      if (pair.in.data == pair.out.data || pair.in.count == 0) continue;
      std::memcpy(pair.out.data, pair.in.data, static_cast<std::size_t>(pair.in.bytes()));
    }
    return {};
  }

  // A sum of one addend still goes through fp32, the scale and the output's dtype.
  Handle reduce_scatter_into(const std::vector<ReducePair>& pairs, const ReduceOptions& options,
                             const std::string&) override {
    check_arguments(pairs, 1);
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
    return std::make_unique<SingleCommunicator>();
  }
};

}  // namespace

std::unique_ptr<Communicator> make_single_communicator() {
  return std::make_unique<SingleCommunicator>();
}

}  // namespace zeroshard
