// What torch calls the moments that an optimizer keeps, in the order in which our kernels have
// them.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "zeroshard/optim/options.h"

namespace zeroshard {

inline std::vector<std::string> moment_names(const OptimizerOptions& options) {
  struct Names {
    std::vector<std::string> operator()(const AdamOptions&) const {
      return {"exp_avg", "exp_avg_sq"};
    }
    std::vector<std::string> operator()(const SgdOptions& sgd) const {
      return sgd.momentum != 0.0 ? std::vector<std::string>{"momentum_buffer"}
                                 : std::vector<std::string>{};
    }
    std::vector<std::string> operator()(const LionOptions&) const { return {"exp_avg"}; }
    std::vector<std::string> operator()(const AdagradOptions&) const { return {"sum"}; }
  };
  return std::visit(Names{}, options);
}

}  // namespace zeroshard
