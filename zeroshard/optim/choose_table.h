// From an optimizer's options to its loops, of one instruction set, and the numbers they take.
#pragma once

#include <variant>

#include "zeroshard/optim/coefficients.h"
#include "zeroshard/optim/kernels.h"

namespace zeroshard {

// Calls run(table, coefficients) with those of the optimizer.
template <typename Run>
class TableChoice {
 public:
  TableChoice(const Kernels& kernels, const StepScalars& scalars, const Run& run)
      : kernels_(kernels), scalars_(scalars), run_(run) {}

  void operator()(const AdamOptions& options) const {
    run_(kernels_.adam, adam_coefficients(options, scalars_));
  }
  void operator()(const SgdOptions& options) const {
    if (options.momentum == 0.0) return run_(kernels_.sgd, sgd_coefficients(options, scalars_));
    run_(kernels_.momentum, momentum_coefficients(options, scalars_));
  }
  void operator()(const LionOptions& options) const {
    run_(kernels_.lion, lion_coefficients(options, scalars_));
  }
  void operator()(const AdagradOptions& options) const {
    run_(kernels_.adagrad, adagrad_coefficients(options, scalars_));
  }

 private:
  const Kernels& kernels_;
  const StepScalars& scalars_;
  const Run& run_;
};

template <typename Run>
void choose_table(const OptimizerOptions& options, const Kernels& kernels,
                  const StepScalars& scalars, const Run& run) {
  std::visit(TableChoice<Run>(kernels, scalars, run), options);
}

}  // namespace zeroshard
