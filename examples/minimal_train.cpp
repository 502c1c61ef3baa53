// A network of your own under ZeRO: blocks that are units, options from a ds_config.json, the loop.
// It is trained once per stage: the numbers are the same, the memory that a rank needs is not.
//
//   zeroshard run --ranks 2 build/examples/minimal_train examples/minimal_train.json
//
// Expected output with 2 ranks (with 1, the loss is the same and all stages need 24.11 MiB):
//   stage 0: loss ~0.4612, after 30 steps ~0.0154; 24.11 MiB per rank
//   stage 1: loss ~0.4612, after 30 steps ~0.0154; 18.08 MiB per rank
//   stage 2: loss ~0.4612, after 30 steps ~0.0154; 15.57 MiB per rank
//   stage 3: loss ~0.4612, after 30 steps ~0.0154; 14.07 MiB per rank
//   the losses are the same, bit for bit
#include <cstdio>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/sin.h>
#include <torch/nn/modules/linear.h>

#include "zeroshard/zeroshard.h"

namespace zs = zeroshard;

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(std::int64_t width)
      : in(register_module("in", torch::nn::Linear(width, width))),
        out(register_module("out", torch::nn::Linear(width, width))) {}
  at::Tensor forward(const at::Tensor& x) { return x + out(in(x).relu()); }
  torch::nn::Linear in, out;
};

struct NetworkImpl : torch::nn::Module {
  NetworkImpl(std::int64_t width, int depth)
      : first(register_module("first", torch::nn::Linear(1, width))),
        last(register_module("last", torch::nn::Linear(width, 1))) {
    for (int i = 0; i < depth; ++i) {  // at stage 3 each is gathered while it computes
      blocks.push_back(register_module("block" + std::to_string(i), zs::Unit<BlockImpl>(width)));
    }
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor hidden = first(x);
    for (auto& block : blocks) hidden = block->forward(hidden);
    return last(hidden.relu());
  }
  torch::nn::Linear first, last;  // of no unit: they stay
  std::vector<zs::Unit<BlockImpl>> blocks;
};
TORCH_MODULE(Network);

// The losses of this rank's part, step by step.
std::vector<float> train(const zs::EngineOptions& options, zs::Communicator& comm,
                         std::int64_t rows) {
  Network network = nullptr;
  {
    const zs::Init init(options, comm, /*seed=*/1);  // at stage 3 no rank ever holds all of it
    network = Network(256, 12);
  }
  zs::Engine engine(network, options, comm);
  const at::Tensor x = at::linspace(-1, 1, rows * comm.world_size()).unsqueeze(1);
  const at::Tensor own_x = x.narrow(0, rows * comm.rank(), rows);
  std::vector<float> losses;
  for (int step = 0; step < 30; ++step) {
    const at::Tensor loss = at::mse_loss(network->forward(own_x), at::sin(own_x * 6));
    engine.backward(loss);
    engine.step();
    losses.push_back(loss.item<float>());
  }

  std::vector<float> mean{losses.front(), losses.back()};
  comm.all_reduce({mean.data(), 2}, zs::ReduceOp::sum, "mean loss").wait();
  for (float& loss : mean) loss /= static_cast<float>(comm.world_size());
  const std::int64_t most = engine.core().memory().peak_total(zs::Tier::device);
  if (comm.rank() == 0) {
    std::printf("stage %d: loss %.4f, after 30 steps %.4f; %s per rank\n", options.zero.stage,
                mean[0], mean[1], zs::human_bytes(most).c_str());
  }
  return losses;
}

int main(int argc, char** argv) {
  return zs::rank_main([&] {
    at::set_num_threads(1);  // enough for a network of this size
    const auto comm = zs::join_ranks({});
    const zs::Config config =
        zs::config::load_config(argc > 1 ? argv[1] : "examples/minimal_train.json");
    const zs::BatchShape batch = zs::batch_shape(config.batch, *comm, /*otherwise=*/64);
    zs::EngineOptions options = zs::engine_options(config, zs::kCpu, batch.accumulation);

    std::vector<std::vector<float>> losses;
    for (const int stage : {0, 1, 2, 3}) {
      options.zero.stage = stage;
      losses.push_back(train(options, *comm, batch.micro_per_rank));
    }
    const bool same = losses == std::vector(losses.size(), losses.front());
    if (comm->rank() == 0) std::puts(same ? "the losses are the same, bit for bit" : "they differ");
    return same ? 0 : 1;
  });
}
