// While it lives, every Unit that is constructed keeps its shard only: no rank ever holds the
// model.
//
//   Model model = nullptr;
//   {
//     zeroshard::Init init(options, comm);
//     model = Model(config);                 // unit by unit
//   }
//   zeroshard::Engine engine(model, options, comm);
//
// All ranks construct the same modules. Random initialisation starts from `seed` on each of them,
// so that shards are of one model whatever the number of ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include <torch/nn/module.h>

#include "zeroshard/engine/core.h"
#include "zeroshard/engine/unit_base.h"

namespace zeroshard {

class Init {
 public:
  Init(EngineOptions options, Communicator& comm, std::uint64_t seed = 0);
  ~Init();
  Init(const Init&) = delete;
  Init& operator=(const Init&) = delete;

  // The calling thread's innermost, or null.
  static Init* current();
  void adopt(const torch::nn::Module& module, UnitBase& unit);

 private:
  const EngineOptions options_;
  Communicator& comm_;
  std::shared_ptr<StateMemory> memory_;
  std::set<const c10::TensorImpl*> adopted_;
  std::vector<UnitSize> so_far_;
  std::size_t units_ = 0;
  Init* const outer_;
};

}  // namespace zeroshard
