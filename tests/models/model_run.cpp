#include "tests/models/model_run.h"

#include <stdexcept>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include "zeroshard/base/counter_random.h"
#include "zeroshard/comm/thread.h"
#include "zeroshard/models/generate.h"
#include "zeroshard/models/initializer.h"

namespace zeroshard::test {
namespace {

std::vector<float> all_weights(Engine& engine) {
  std::vector<float> weights;
  engine.visit_parameters([&](const std::string&, const at::Tensor& full) {
    const at::Tensor flat = full.detach().to(at::kFloat).reshape({-1}).contiguous();
    weights.insert(weights.end(), flat.const_data_ptr<float>(),
                   flat.const_data_ptr<float>() + flat.numel());
  });
  return weights;
}

GptTrace train_rank(const GptRun& run, Communicator& comm) {
  at::set_num_threads(1);
  const EngineOptions options = small_engine(run);
  Gpt model{nullptr};
  if (run.init) {
    const Init scope(options, comm);
    model = Gpt(run.model);
  } else {
    model = filled_gpt(run.model);
  }
  Engine engine(model, options, comm);
  if (run.init) engine.fill_parameters(gpt_initializer(run.model, 1));
  GptTrace trace;
  for (int step = 0; step < run.steps; ++step) {
    const auto seed = static_cast<std::uint64_t>(step * run.ranks + comm.rank());
    const std::int64_t length = run.model.sequence - step % 2;
    const at::Tensor batch = tokens_of(3, length + 1, run.model.vocabulary, seed);
    const at::Tensor loss = model->loss(batch.narrow(1, 0, length), batch.narrow(1, 1, length));
    engine.backward(loss);
    trace.norms.push_back(engine.step().gradient_norm);
    trace.losses.push_back(loss.item<double>());
  }
  trace.sampled = generate(*model, {1, 2, 3}, {.count = run.model.sequence, .seed = 5});
  trace.weights = all_weights(engine);
  return trace;
}

}  // namespace

GptOptions gpt2_options() {
  return {.layers = 2, .hidden = 24, .heads = 4, .sequence = 11, .vocabulary = 37};
}

GptOptions llama_options() {
  GptOptions options = gpt2_options();
  options.kv_heads = 2;
  options.positions = Positions::rotary;
  options.norm = NormKind::rms;
  options.activation = Activation::swiglu;
  options.rope_theta = 500;
  return options;
}

Gpt filled_gpt(const GptOptions& options, std::uint64_t seed) {
  Gpt model(options);
  fill_parameters(*model, gpt_initializer(options, seed));
  return model;
}

at::Tensor tokens_of(std::int64_t rows, std::int64_t length, std::int64_t vocabulary,
                     std::uint64_t seed) {
  const CounterRandom random("tokens", seed);
  const at::Tensor tokens = at::empty({rows, length}, at::kLong);
  auto* data = tokens.mutable_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < tokens.numel(); ++i) {
    data[i] = static_cast<std::int64_t>(random.uniform(static_cast<std::uint64_t>(i)) *
                                        static_cast<double>(vocabulary));
  }
  return tokens;
}

EngineOptions small_engine(const GptRun& run) {
  EngineOptions options;
  options.zero.stage = run.stage;
  options.zero.persistence_numel = 0;
  options.zero.reduce_bucket_numel = 5000;
  options.zero.prefetch_numel = 8000;
  options.precision.bf16.enabled = run.dtype == DType::bf16;
  options.parameter_groups = {AdamOptions{.lr = 1e-2, .weight_decay = 0.1}};
  options.threads = 1;
  return options;
}

GptTrace train_gpt(const GptRun& run) {
  std::vector<GptTrace> traces(static_cast<std::size_t>(run.ranks));
  run_ranks(run.ranks, {.timeout = std::chrono::seconds(30)}, [&](Communicator& comm) {
    traces[static_cast<std::size_t>(comm.rank())] = train_rank(run, comm);
  });
  for (const GptTrace& trace : traces) {
    if (trace.weights != traces[0].weights) throw std::logic_error("ranks have other weights");
    if (trace.sampled != traces[0].sampled) throw std::logic_error("ranks have other samples");
  }
  return traces[0];
}

}  // namespace zeroshard::test
