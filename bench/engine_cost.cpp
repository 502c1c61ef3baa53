// What the engine itself costs: the same small model, with and without it, for callgrind to count.
//
//   engine_cost engine|plain BLOCKS STEPS
//
// The instructions of one more block and step with the engine, less those of plain torch, are the
// engine's own (bench/engine_cost.py does the arithmetic).
#include <cstdlib>
#include <string>

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/optim/adamw.h>

#include "tests/support/test_model.h"
#include "zeroshard/comm/single.h"
#include "zeroshard/engine/engine.h"

namespace zeroshard::test {
namespace {

constexpr std::int64_t kWidth = 8;  // next to nothing to compute

Model small_model(int blocks) {
  Model model(ModelShape{.vocabulary = 16, .width = kWidth, .blocks = blocks});
  set_parameters(*model, 1);
  return model;
}

torch::Tensor batch(int step) { return batch_of(1, 3, 16, static_cast<std::uint64_t>(step)); }

void run_engine(int blocks, int steps) {
  Model model = small_model(blocks);
  const auto comm = make_single_communicator();
  EngineOptions options;
  options.zero.stage = 3;
  options.threads = 1;
  Engine engine(model, options, *comm);
  for (int step = 0; step < steps; ++step) {
    engine.backward(model->loss(batch(step)));
    engine.step();
  }
}

void run_plain(int blocks, int steps) {
  Model model = small_model(blocks);
  torch::optim::AdamW optimizer(model->parameters());
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    model->loss(batch(step)).backward();
    optimizer.step();
  }
}

}  // namespace
}  // namespace zeroshard::test

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: engine_cost engine|plain BLOCKS STEPS\n");
    return 2;
  }
  at::set_num_threads(1);
  const auto run =
      std::string(argv[1]) == "engine" ? zeroshard::test::run_engine : zeroshard::test::run_plain;
  run(std::atoi(argv[2]), std::atoi(argv[3]));
}
