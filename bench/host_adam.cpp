// Our AdamW on the host against PyTorch's fused one, with all cores and with one; bench/README.md.
//
//   host_adam [--parameters 33554432] [--rounds 15] [--threads 1,16] [--all-isas] > table.md
#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "zeroshard/base/thread_pool.h"
#include "zeroshard/numeric/convert.h"
#include "zeroshard/numeric/float_environment.h"
#include "zeroshard/numeric/masters.h"
#include "zeroshard/optim/kernels.h"
#include "zeroshard/optim/undo.h"
#include "zeroshard/optim/update.h"
#include "zeroshard/tier/host_mapping.h"

namespace {

using zeroshard::AdamOptions;
using zeroshard::DType;
using zeroshard::HostMapping;
using zeroshard::Isa;
using zeroshard::ThreadPool;

const AdamOptions kOptions{.lr = 1e-3, .weight_decay = 0.01};
constexpr std::int64_t kGrain = 1 << 14;

struct Settings {
  std::int64_t parameters = std::int64_t{1} << 25;
  int rounds = 15;
  std::vector<int> threads{};
  bool all_isas = false;
};

// An array on huge pages, as the host tier has it.
struct Array {
  std::shared_ptr<HostMapping> memory;
  at::Tensor tensor;

  Array(std::int64_t numel, at::ScalarType dtype)
      : memory(
            std::make_shared<HostMapping>(numel * at::elementSize(dtype), at::get_num_threads())),
        tensor(at::from_blob(memory->data(), {numel}, dtype)) {}
  // A copy of its own.
  Array clone() const {
    Array made(tensor.numel(), tensor.scalar_type());
    made.tensor.copy_(tensor);
    return made;
  }

  float* floats() const { return tensor.data_ptr<float>(); }
  std::uint16_t* halves() const { return static_cast<std::uint16_t*>(tensor.data_ptr()); }
};

// Gradients, which all contenders share. The fp32 ones hold bf16 values, so that all see the same.
struct Gradients {
  Array bf16, fp32;

  explicit Gradients(std::int64_t numel) : bf16(numel, at::kBFloat16), fp32(numel, at::kFloat) {
    fp32.tensor.normal_();
    bf16.tensor.copy_(fp32.tensor);
    fp32.tensor.copy_(bf16.tensor);
  }
};

// A contender's own states, equal for all at the start. `low` is there for halved masters alone.
struct States {
  Array master, first, second, parameter, low;
  std::int64_t step = 0;

  explicit States(std::int64_t numel)
      : master(numel, at::kFloat),
        first(numel, at::kFloat),
        second(numel, at::kFloat),
        parameter(numel, at::kBFloat16),
        low(1, at::kShort) {
    master.tensor.normal_();
    parameter.tensor.copy_(master.tensor);
    master.tensor.copy_(parameter.tensor);
  }
  explicit States(const States& other, bool halved)
      : master(other.master.clone()),
        first(other.first.clone()),
        second(other.second.clone()),
        parameter(other.parameter.clone()),
        low(halved ? other.master.tensor.numel() : 1, at::kShort) {
    low.tensor.zero_();
  }
};

void torch_step(const Gradients& gradients, States& s) {
  const at::Tensor step = at::full({}, static_cast<double>(++s.step), at::kFloat);
  at::_fused_adamw_({s.master.tensor}, {gradients.fp32.tensor}, {s.first.tensor}, {s.second.tensor},
                    {}, {step}, kOptions.lr, kOptions.betas[0], kOptions.betas[1],
                    kOptions.weight_decay, kOptions.eps, /*amsgrad=*/false, /*maximize=*/false);
}

// What PyTorch needs around its kernel for bf16 gradients and parameters with an fp32 master.
void torch_mixed_step(const Gradients& gradients, States& s) {
  gradients.fp32.tensor.copy_(gradients.bf16.tensor);
  torch_step(gradients, s);
  s.parameter.tensor.copy_(s.master.tensor);
}

struct Form {
  bool bf16_gradient = true, bf16_parameter = true, halved = false;
};

zeroshard::UpdateSpan span_of(const Gradients& gradients, const States& s, const Form& form) {
  return {.gradient = form.bf16_gradient ? gradients.bf16.tensor.data_ptr()
                                         : gradients.fp32.tensor.data_ptr(),
          .gradient_dtype = form.bf16_gradient ? DType::bf16 : DType::fp32,
          .master = form.halved ? nullptr : s.master.floats(),
          .master_low = form.halved ? s.low.halves() : nullptr,
          .moments = {s.first.floats(), s.second.floats()},
          .parameter = form.bf16_parameter ? s.parameter.tensor.data_ptr() : nullptr,
          .parameter_dtype = DType::bf16,
          .count = s.master.tensor.numel()};
}

// The kernel of update_span() with the parameter written through the caches.
void cached_step(const Gradients& gradients, States& s, ThreadPool& pool) {
  const auto c = zeroshard::adam_coefficients(kOptions, {.step = ++s.step});
  const auto& table = zeroshard::kernels_of(zeroshard::best_isa()).adam;
  pool.parallel_for(s.master.tensor.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    using zeroshard::FloatEnvironment;
    const FloatEnvironment environment(FloatEnvironment::Subnormals::zero);
    table.run[1][1](c,
                    {.gradient = gradients.bf16.halves() + begin,
                     .master = s.master.floats() + begin,
                     .moments = {s.first.floats() + begin, s.second.floats() + begin},
                     .parameter = s.parameter.halves() + begin},
                    end - begin);
  });
}

// The bytes of cached_step(), read and written, and nothing computed: what the memory can do.
void moved_bytes(const Gradients& gradients, States& s, ThreadPool& pool) {
  pool.parallel_for(s.master.tensor.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    const std::uint16_t* const gradient = gradients.bf16.halves();
    std::uint16_t* const parameter = s.parameter.halves();
    float *const p = s.master.floats(), *const m = s.first.floats(), *const v = s.second.floats();
    for (std::int64_t i = begin; i < end; ++i) {
      p[i] += 1.0F;
      m[i] += 1.0F;
      v[i] += 1.0F;
      parameter[i] = gradient[i];
    }
  });
}

// What a step before the norm is known does: an update that could be taken back, and later the
// parameters.
class RevocableStep {
 public:
  RevocableStep(std::int64_t numel, ThreadPool& pool)
      : memory_(zeroshard::undo_layout(numel, 3).bytes, at::kByte),
        undo_(zeroshard::UndoRecord::over(memory_.tensor.data_ptr(), numel, 3)),
        pool_(pool) {}

  void operator()(const Gradients& gradients, States& s) const {
    const zeroshard::UpdateSpan span = span_of(gradients, s, {});
    const zeroshard::StepScalars scalars{.step = ++s.step};
    undo_.begin();
    zeroshard::update_revocably(kOptions, span, scalars, undo_.at(0), pool_);
    zeroshard::update_left_out(kOptions, span, scalars, undo_.at(0), pool_);
    zeroshard::convert({span.parameter, DType::bf16}, {span.master, DType::fp32}, span.count,
                       pool_);
  }

 private:
  Array memory_;
  zeroshard::UndoRecord undo_;
  ThreadPool& pool_;
};

struct Contender {
  std::string name;
  double bytes;  // moved per parameter, as the program asks for them
  States states;
  std::function<void(States&)> step;
  Form form = {};
  bool verified = true;
  std::vector<double> seconds{};
};

double timed(Contender& contender) {
  // Threads of the one before spin for a while after their loop; let them go to sleep.
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const auto begin = std::chrono::steady_clock::now();
  contender.step(contender.states);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Three steps each from the same states must agree, or there is nothing to time.
bool verify(std::vector<Contender>& contenders) {
  const States& expected = contenders.front().states;
  for (Contender& one : contenders) {
    States& s = one.states;
    for (int i = 0; i < 3; ++i) one.step(s);
    if (!one.verified) continue;
    if (one.form.halved) {
      zeroshard::join_masters(zeroshard::kCpu, s.master.floats(),
                              {s.parameter.halves(), s.low.halves()}, s.master.tensor.numel());
    }
    const bool same =
        s.master.tensor.allclose(expected.master.tensor, 1e-6, 1e-7) &&
        s.second.tensor.allclose(expected.second.tensor, 1e-6, 1e-12) &&
        (!one.form.bf16_parameter || s.parameter.tensor.equal(s.master.tensor.to(at::kBFloat16)));
    if (same) continue;
    fmt::print(stderr, "{} disagrees with {}\n", one.name, contenders[0].name);
    return false;
  }
  return true;
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}

double median_ratio(const std::vector<double>& theirs, const std::vector<double>& ours) {
  std::vector<double> ratios(ours.size());
  for (std::size_t i = 0; i < ours.size(); ++i) ratios[i] = theirs[i] / ours[i];
  return quantile(ratios, 0.5);
}

void print_rows(const std::vector<Contender>& contenders, int threads, const Settings& settings) {
  const auto& first = contenders.front().seconds;
  for (const Contender& one : contenders) {
    const double median = quantile(one.seconds, 0.5);
    const double numel = static_cast<double>(settings.parameters);
    fmt::print(
        "| {} | {} | {:.0f} | {:.1f} | {:.1f} to {:.1f} | {:.2f} | {:.1f} | {:.2f} | {:.2f} |\n",
        threads, one.name, one.bytes, median * 1e3, quantile(one.seconds, 0.1) * 1e3,
        quantile(one.seconds, 0.9) * 1e3, numel / median / 1e9, one.bytes * numel / median / 1e9,
        quantile(first, 0.5) / median, median_ratio(first, one.seconds));
  }
}

// Makes contenders from one start.
struct Field {
  const Gradients& gradients;
  const States& start;
  ThreadPool& pool;
  std::vector<Contender> all = {};

  void add_ours(const std::string& name, double bytes, Form form, Isa isa) {
    all.push_back({fmt::format("ours, {}", name), bytes, States(start, form.halved),
                   [this_gradients = &gradients, this_pool = &pool, form, isa](States& s) {
                     zeroshard::update_span(kOptions, span_of(*this_gradients, s, form),
                                            {.step = ++s.step}, *this_pool, isa);
                   },
                   form});
  }
  void add(const std::string& name, double bytes, bool bf16_parameter, bool verified,
           std::function<void(States&)> step) {
    all.push_back({name,
                   bytes,
                   States(start, false),
                   std::move(step),
                   {.bf16_parameter = bf16_parameter},
                   verified});
  }
};

std::vector<Contender> contenders_of(const Gradients& gradients, const States& start,
                                     ThreadPool& pool, bool all_isas) {
  Field field{gradients, start, pool};
  field.add("torch: fused AdamW, all fp32", 28, false, true,
            [&](States& s) { torch_step(gradients, s); });
  field.add("torch: cast G, fused AdamW, cast parameter", 40, true, true,
            [&](States& s) { torch_mixed_step(gradients, s); });
  for (const Isa isa : zeroshard::available_isas()) {
    if (!all_isas && isa != zeroshard::best_isa()) continue;
    const std::string suffix = fmt::format(" ({})", name_of(isa));
    field.add_ours("all fp32" + suffix, 28, {.bf16_gradient = false, .bf16_parameter = false}, isa);
    field.add_ours("fp32 G, bf16 parameter" + suffix, 30, {.bf16_gradient = false}, isa);
    field.add_ours("bf16 G and parameter" + suffix, 28, {}, isa);
    field.add_ours("the same, master in two halves" + suffix, 24, {.halved = true}, isa);
  }
  field.add("ours, bf16 G and parameter, through the caches", 28, true, true,
            [&](States& s) { cached_step(gradients, s, pool); });
  const auto revocable = std::make_shared<RevocableStep>(start.master.tensor.numel(), pool);
  field.add("ours, bf16 G and parameter, recorded, then the parameter", 35, true, true,
            [&gradients, revocable](States& s) { (*revocable)(gradients, s); });
  field.add("these bytes moved, nothing computed", 28, true, false,
            [&](States& s) { moved_bytes(gradients, s, pool); });
  return std::move(field.all);
}

bool run_case(int threads, const Settings& settings) {
  at::set_num_threads(threads);
  ThreadPool pool(threads);
  const Gradients gradients(settings.parameters);
  const States start(settings.parameters);
  auto contenders = contenders_of(gradients, start, pool, settings.all_isas);
  if (!verify(contenders)) return false;
  for (int round = 0; round < settings.rounds; ++round) {
    for (std::size_t turn = 0; turn < contenders.size(); ++turn) {
      Contender& one = contenders[(turn + static_cast<std::size_t>(round)) % contenders.size()];
      one.seconds.push_back(timed(one));
    }
  }
  print_rows(contenders, threads, settings);
  return true;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::localtime(&now));
  return text;
}

void print_head(const Settings& settings) {
  fmt::print("# AdamW on the host against PyTorch's fused one, {}\n\n", today());
  fmt::print(
      "{} parameters, {} rounds, contenders in turn within each round; all verified against each "
      "other first.\nA bf16 parameter with an fp32 master moves 26 bytes and its gradient's 2 or "
      "4; fp32 alone 28; with the master in two halves 24;\ntorch with its casts 40. Ratios are "
      "torch's fused time over the row's: of the medians, and the median within rounds.\n\n",
      settings.parameters, settings.rounds);
  fmt::print(
      "| threads | who | bytes | median ms | p10 to p90 | G parameters/s | GB/s | ratio of medians "
      "| median ratio |\n|--:|---|--:|--:|--:|--:|--:|--:|--:|\n");
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("our AdamW on the host against PyTorch's fused one");
  app.add_option("--parameters", settings.parameters)->check(CLI::PositiveNumber);
  app.add_option("--rounds", settings.rounds)->check(CLI::PositiveNumber);
  app.add_option("--threads", settings.threads, "default: one, and all CPUs")->delimiter(',');
  app.add_flag("--all-isas", settings.all_isas, "rows for every instruction set");
  CLI11_PARSE(app, argc, argv);
  if (settings.threads.empty()) settings.threads = {1, zeroshard::usable_cpus()};
  print_head(settings);
  for (const int threads : settings.threads) {
    if (!run_case(threads, settings)) return 1;
  }
  return 0;
}
