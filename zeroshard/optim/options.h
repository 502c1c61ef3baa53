// The optimizers of ds_config.json and their knobs; every default is written here and nowhere else.
#pragma once

#include <array>
#include <variant>

namespace zeroshard {

// Adam and AdamW. DeepSpeed's "Adam" decouples the decay too unless `adam_w_mode` is false.
struct AdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas{0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.0;
  bool bias_correction = true;
  bool decoupled_decay = true;
  bool operator==(const AdamOptions&) const = default;
};

struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0.0;
  double dampening = 0.0;
  double weight_decay = 0.0;
  bool nesterov = false;
  bool operator==(const SgdOptions&) const = default;
};

struct LionOptions {
  double lr = 1e-3;
  std::array<double, 2> betas{0.9, 0.999};
  double weight_decay = 0.0;
  bool operator==(const LionOptions&) const = default;
};

struct AdagradOptions {
  double lr = 1e-2;
  double eps = 1e-10;
  double weight_decay = 0.0;
  bool operator==(const AdagradOptions&) const = default;
};

using OptimizerOptions = std::variant<AdamOptions, SgdOptions, LionOptions, AdagradOptions>;

inline double learning_rate(const OptimizerOptions& options) {
  return std::visit([](const auto& one) { return one.lr; }, options);
}

// fp32 moments kept per parameter, which is what the optimizer adds to the footprint.
inline int moments_per_parameter(const OptimizerOptions& options) {
  struct Count {
    int operator()(const AdamOptions&) const { return 2; }
    int operator()(const SgdOptions& sgd) const { return sgd.momentum != 0.0 ? 1 : 0; }
    int operator()(const LionOptions&) const { return 1; }
    int operator()(const AdagradOptions&) const { return 1; }
  };
  return std::visit(Count{}, options);
}

}  // namespace zeroshard
