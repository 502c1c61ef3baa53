// A network learns to add two numbers, at stage 3. Run it as README.md says: build/train, or
// zeroshard run --ranks 2 build/train
//
// Expected output:
//   after 300 steps 2 + 3 is 5.00
#include <cstdio>

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <torch/nn/modules/linear.h>

#include "zeroshard/comm/join.h"
#include "zeroshard/engine/engine.h"
#include "zeroshard/engine/unit.h"

struct AdderImpl : torch::nn::Module {
  AdderImpl()
      : widen(register_module("widen", zeroshard::Unit<torch::nn::LinearImpl>(2, 16))),
        narrow(register_module("narrow", zeroshard::Unit<torch::nn::LinearImpl>(16, 1))) {}
  at::Tensor forward(const at::Tensor& x) { return narrow->forward(widen->forward(x)); }

  zeroshard::Unit<torch::nn::LinearImpl> widen, narrow;
};
TORCH_MODULE(Adder);

int main() {
  return zeroshard::rank_main([] {
    const auto comm = zeroshard::join_ranks({});
    zeroshard::EngineOptions options;
    options.zero.stage = 3;
    options.zero.persistence_numel = 0;  // else units as small as these would not be released
    options.parameter_groups = {zeroshard::AdamOptions{.lr = 0.01}};

    at::manual_seed(1);
    Adder adder;
    zeroshard::Engine engine(adder, options, *comm);
    at::manual_seed(static_cast<std::uint64_t>(comm->rank()));  // data of this rank's own
    for (int step = 0; step < 300; ++step) {
      const at::Tensor x = at::rand({32, 2});
      engine.backward(at::mse_loss(adder->forward(x), x.sum(1, /*keepdim=*/true)));
      engine.step();
    }

    const at::NoGradGuard no_grad;
    const at::Tensor sum = adder->forward(at::tensor({2.0F, 3.0F}));  // on all ranks: they gather
    if (comm->rank() == 0) std::printf("after 300 steps 2 + 3 is %.2f\n", sum.item<double>());
    return 0;
  });
}
