// One linear layer learns y = 2x + 1 from 1,000 samples in 30 epochs: fp16 weights, a loss scale
// that finds itself, Adam, stage 2. Any torch::nn::Module trains, with units or without.
//
//   build/examples/basic_neuralnet examples/basic_neuralnet.json
//   zeroshard run --ranks 2 build/examples/basic_neuralnet examples/basic_neuralnet.json
//
// Expected output:
//   y = ~1.997 x + ~1.000, and should be 2 x + 1
//   4 steps were skipped to find a loss scale
#include <cstdio>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <torch/nn/modules/linear.h>

#include "zeroshard/zeroshard.h"

namespace zs = zeroshard;

constexpr std::int64_t kSamples = 1000;
constexpr std::int64_t kEpochs = 30;
constexpr std::int64_t kBatch = 8;  // where the file gives none; one update moves by lr at most

void train(const zs::Config& config, zs::Communicator& comm) {
  at::manual_seed(1);  // the same data and the same start on every rank
  const at::Tensor x = at::rand({kSamples, 1}) * 2 - 1;
  const at::Tensor y = x * 2 + 1;
  torch::nn::Linear layer(1, 1);
  const zs::BatchShape batch = zs::batch_shape(config.batch, comm, kBatch);
  zs::Engine engine(layer, zs::engine_options(config, zs::kCpu, batch.accumulation), comm);

  // Each rank takes its own part of every batch; the order is new in each epoch.
  zs::BatchPlan plan(kSamples, batch, {.drop_last = config.batch.drop_last});
  int skipped = 0;
  for (; plan.epoch() < kEpochs; plan.advance()) {
    zs::StepResult result;
    for (std::int64_t micro = 0; micro < batch.accumulation; ++micro) {
      const at::Tensor rows = at::tensor(plan.samples_of(micro));
      const at::Tensor guess = layer(x.index_select(0, rows).to(layer->weight.dtype()));
      engine.backward(at::mse_loss(guess.to(at::kFloat), y.index_select(0, rows)));
      result = engine.step();
    }
    if (!result.applied) ++skipped;  // the scaled gradient was too large for fp16
  }
  engine.finish();
  if (comm.rank() != 0) return;
  std::printf("y = %.3f x + %.3f, and should be 2 x + 1\n", layer->weight.item<double>(),
              layer->bias.item<double>());
  std::printf("%d steps were skipped to find a loss scale\n", skipped);
}

int main(int argc, char** argv) {
  return zs::rank_main([&] {
    at::set_num_threads(1);  // there is nothing to share out
    const auto comm = zs::join_ranks({});
    train(zs::config::load_config(argc > 1 ? argv[1] : "examples/basic_neuralnet.json"), *comm);
    return 0;
  });
}
