#include "zeroshard/engine/init.h"

#include <utility>

#include <ATen/Context.h>
#include <fmt/format.h>

namespace zeroshard {
namespace {

thread_local Init* innermost_scope = nullptr;

}  // namespace

Init::Init(EngineOptions options, Communicator& comm, std::uint64_t seed)
    : options_(std::move(options)),
      comm_(comm),
      memory_(Core::make_memory(options_)),
      outer_(std::exchange(innermost_scope, this)) {
  at::manual_seed(seed);
}

Init::~Init() { innermost_scope = outer_; }

Init* Init::current() { return innermost_scope; }

// What nested units have adopted already is theirs.
void Init::adopt(const torch::nn::Module& module, UnitBase& unit) {
  UnitSpec spec{.name = fmt::format("unit {}", units_++), .parameters = {}};
  for (const auto& parameter : module.named_parameters()) {
    if (!adopted_.insert(parameter.value().unsafeGetTensorImpl()).second) continue;
    spec.parameters.push_back({parameter.key(), parameter.value()});
  }
  const FlatUnitOptions unit_options = Core::unit_options(options_, spec, comm_, so_far_);
  unit.keep(std::make_unique<FlatUnit>(spec, unit_options, memory_));
}

}  // namespace zeroshard
