// Our AdamW against PyTorch's fused one on the same threads, buffers and values; bench/README.md.
//
//   adam_vs_torch [--parameters 16777216] [--rounds 15] [--threads 1,2] > table.md
#include <algorithm>
#include <chrono>
#include <ctime>
#include <functional>
#include <thread>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "zeroshard/base/thread_pool.h"
#include "zeroshard/optim/update.h"

namespace {

using zeroshard::AdamOptions;
using zeroshard::DType;
using zeroshard::Isa;
using zeroshard::ThreadPool;

const AdamOptions kOptions{.lr = 1e-3, .weight_decay = 0.01};

struct Settings {
  std::int64_t parameters = std::int64_t{1} << 24;
  int rounds = 15;
  std::vector<int> threads{1, 2};
};

// A contender's own states, made from the same seed for all.
struct States {
  at::Tensor gradient, gradient16, master, first, second, parameter16;
  std::int64_t step = 0;

  explicit States(std::int64_t numel) {
    // fp32 gradients hold bf16 values, so that both contenders see the same numbers in both cases.
    gradient16 = at::randn({numel}, at::kFloat).to(at::kBFloat16);
    gradient = gradient16.to(at::kFloat);
    master = at::randn({numel}, at::kFloat);
    first = at::zeros({numel}, at::kFloat);
    second = at::zeros({numel}, at::kFloat);
    parameter16 = master.to(at::kBFloat16);
  }
  States(const States& other)
      : gradient(other.gradient),
        gradient16(other.gradient16),
        master(other.master.clone()),
        first(other.first.clone()),
        second(other.second.clone()),
        parameter16(other.parameter16.clone()) {}
};

void torch_step(States& s) {
  const at::Tensor step = at::full({}, static_cast<double>(++s.step), at::kFloat);
  at::_fused_adamw_({s.master}, {s.gradient}, {s.first}, {s.second}, {}, {step}, kOptions.lr,
                    kOptions.betas[0], kOptions.betas[1], kOptions.weight_decay, kOptions.eps,
                    /*amsgrad=*/false, /*maximize=*/false);
}

// What PyTorch needs around its kernel for bf16 gradients and parameters with an fp32 master.
void torch_mixed_step(States& s) {
  s.gradient.copy_(s.gradient16);
  torch_step(s);
  s.parameter16.copy_(s.master);
}

void our_step(States& s, bool mixed, ThreadPool& pool, Isa isa) {
  const zeroshard::UpdateSpan span{
      .gradient = mixed ? s.gradient16.data_ptr() : s.gradient.data_ptr(),
      .gradient_dtype = mixed ? DType::bf16 : DType::fp32,
      .master = s.master.data_ptr<float>(),
      .moments = {s.first.data_ptr<float>(), s.second.data_ptr<float>()},
      .parameter = mixed ? s.parameter16.data_ptr() : nullptr,
      .parameter_dtype = DType::bf16,
      .count = s.master.numel()};
  zeroshard::update_span(kOptions, span, {.step = ++s.step}, pool, isa);
}

struct Contender {
  std::string name;
  States states;
  double bytes;  // moved per parameter, as the program asks for them
  std::function<void(States&)> step;
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
bool verified(std::vector<Contender>& contenders, bool mixed) {
  for (Contender& contender : contenders) {
    for (int i = 0; i < 3; ++i) contender.step(contender.states);
  }
  const States& expected = contenders.front().states;
  for (const Contender& contender : contenders) {
    const States& s = contender.states;
    const bool same = s.master.allclose(expected.master, 1e-6, 1e-7) &&
                      s.second.allclose(expected.second, 1e-6, 1e-12) &&
                      (!mixed || s.parameter16.allclose(s.master.to(at::kBFloat16), 0.0, 0.0));
    if (!same) fmt::print(stderr, "{} disagrees with {}\n", contender.name, contenders[0].name);
    if (!same) return false;
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

void print_rows(const std::vector<Contender>& contenders, const char* what, int threads,
                const Settings& settings) {
  const auto& first = contenders.front().seconds;
  for (const Contender& one : contenders) {
    const double median = quantile(one.seconds, 0.5);
    const double numel = static_cast<double>(settings.parameters);
    fmt::print("| {} | {} | {} | {:.1f} | {:.1f} to {:.1f} | {:.0f} | {:.1f} | {:.2f} | {:.2f} |\n",
               what, threads, one.name, median * 1e3, quantile(one.seconds, 0.1) * 1e3,
               quantile(one.seconds, 0.9) * 1e3, numel / median / 1e6,
               one.bytes * numel / median / 1e9, quantile(first, 0.5) / median,
               median_ratio(first, one.seconds));
  }
}

std::vector<Contender> contenders_of(bool mixed, ThreadPool& pool, const States& start) {
  std::vector<Contender> all;
  all.push_back({mixed ? "torch: cast, fused AdamW, cast" : "torch: fused AdamW", start,
                 mixed ? 40.0 : 28.0, mixed ? torch_mixed_step : torch_step});
  for (const Isa isa : zeroshard::available_isas()) {
    all.push_back({fmt::format("ours, {}", name_of(isa)), start, 28.0,
                   [&pool, mixed, isa](States& s) { our_step(s, mixed, pool, isa); }});
  }
  return all;
}

bool run_case(bool mixed, int threads, const Settings& settings) {
  at::set_num_threads(threads);
  ThreadPool pool(threads);
  const States start(settings.parameters);
  auto contenders = contenders_of(mixed, pool, start);
  if (!verified(contenders, mixed)) return false;
  for (int round = 0; round < settings.rounds; ++round) {
    for (std::size_t turn = 0; turn < contenders.size(); ++turn) {
      Contender& one = contenders[(turn + static_cast<std::size_t>(round)) % contenders.size()];
      one.seconds.push_back(timed(one));
    }
  }
  print_rows(contenders, mixed ? "bf16 in and out" : "fp32", threads, settings);
  return true;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::localtime(&now));
  return text;
}

void print_head(const Settings& settings) {
  fmt::print("# AdamW against PyTorch's fused one, {}\n\n", today());
  fmt::print(
      "{} parameters, {} rounds, contenders in turn within each round; all verified against "
      "each other first.\nA parameter moves 28 bytes (fp32: read g, p, m, v, write p, m, v; "
      "bf16: read g16, p, m, v, write p, m, v, p16);\ntorch with its casts moves 40. Ratios are "
      "torch's time over the row's: of the medians, and the median within rounds.\n\n",
      settings.parameters, settings.rounds);
  fmt::print(
      "| case | threads | who | median ms | p10 to p90 | M parameters/s | GB/s | ratio of "
      "medians | median ratio |\n|---|--:|---|--:|--:|--:|--:|--:|--:|\n");
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("our AdamW against PyTorch's fused one");
  app.add_option("--parameters", settings.parameters)->check(CLI::PositiveNumber);
  app.add_option("--rounds", settings.rounds)->check(CLI::PositiveNumber);
  app.add_option("--threads", settings.threads)->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  print_head(settings);
  for (const bool mixed : {false, true}) {
    for (const int threads : settings.threads) {
      if (!run_case(mixed, threads, settings)) return 1;
    }
  }
  return 0;
}
