// The optimizers as the papers and PyTorch write them, one element at a time, on Approximations:
// written apart from the kernels, and with coefficients in double.
#pragma once

#include <cmath>

#include "tests/optim/approximation.h"
#include "zeroshard/optim/options.h"

namespace zeroshard::testing {

struct Element {
  Approximation parameter, first, second;
};

class Reference {
 public:
  Reference(const OptimizerOptions& options, std::int64_t step) : options_(options), step_(step) {}

  // `gradient` is already multiplied by the gradient factor.
  void update(Element& element, Approximation gradient) const {
    std::visit([&](const auto& one) { apply(one, element, gradient); }, options_);
  }

 private:
  static Approximation number(double value) { return Approximation::rounded(value); }

  void apply(const AdamOptions& o, Element& e, Approximation g) const {
    const auto t = static_cast<double>(step_);
    const double correction1 = o.bias_correction ? 1.0 - std::pow(o.betas[0], t) : 1.0;
    const double correction2 = o.bias_correction ? 1.0 - std::pow(o.betas[1], t) : 1.0;
    if (o.weight_decay != 0.0 && !o.decoupled_decay) g = g + number(o.weight_decay) * e.parameter;
    e.first = number(o.betas[0]) * e.first + number(1.0 - o.betas[0]) * g;
    e.second = number(o.betas[1]) * e.second + number(1.0 - o.betas[1]) * g * g;
    if (o.weight_decay != 0.0 && o.decoupled_decay) {
      e.parameter = e.parameter + number(-o.lr * o.weight_decay) * e.parameter;
    }
    const Approximation root = sqrt(e.second) * number(1.0 / std::sqrt(correction2));
    e.parameter = e.parameter + number(-o.lr / correction1) * (e.first / (root + number(o.eps)));
  }

  void apply(const SgdOptions& o, Element& e, Approximation g) const {
    if (o.weight_decay != 0.0) g = g + number(o.weight_decay) * e.parameter;
    if (o.momentum != 0.0) {
      e.first = step_ == 1 ? g : number(o.momentum) * e.first + number(1.0 - o.dampening) * g;
      g = o.nesterov ? g + number(o.momentum) * e.first : e.first;
    }
    e.parameter = e.parameter + number(-o.lr) * g;
  }

  void apply(const LionOptions& o, Element& e, Approximation g) const {
    const Approximation c = number(o.betas[0]) * e.first + number(1.0 - o.betas[0]) * g;
    if (o.weight_decay != 0.0) {
      e.parameter = e.parameter + number(-o.lr * o.weight_decay) * e.parameter;
    }
    Approximation move = number(c.value > 0.0 ? -o.lr : c.value < 0.0 ? o.lr : 0.0);
    if (std::abs(c.value) <= c.error) move.error += 2.0 * o.lr;  // either sign, or none
    e.parameter = e.parameter + move;
    e.first = number(o.betas[1]) * e.first + number(1.0 - o.betas[1]) * g;
  }

  void apply(const AdagradOptions& o, Element& e, Approximation g) const {
    if (o.weight_decay != 0.0) g = g + number(o.weight_decay) * e.parameter;
    e.first = e.first + g * g;
    e.parameter = e.parameter + number(-o.lr) * (g / (sqrt(e.first) + number(o.eps)));
  }

  const OptimizerOptions options_;
  const std::int64_t step_;
};

}  // namespace zeroshard::testing
