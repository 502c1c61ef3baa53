#include "zeroshard/engine/engine.h"

#include <algorithm>
#include <exception>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

// A unit that Init has made must hold what the finished tree says it holds.
void check_made(const FlatUnit& made, const UnitSpec& spec) {
  made.check_intact();
  const auto& has = made.parameters();
  const bool same = std::ranges::equal(
      has, spec.parameters, [](const NamedParameter& a, const NamedParameter& b) {
        return a.tensor.unsafeGetTensorImpl() == b.tensor.unsafeGetTensorImpl();
      });
  if (same) return;
  throw StateError({.what = "parameters have moved since the unit was made under Init",
                    .value = "unit " + spec.name,
                    .remedy = "tie parameters inside a unit's constructor, or build without Init"});
}

// How the limit on persistent units was used up may differ, since Init sees inner units first.
void check_options(const FlatUnit& made, FlatUnitOptions options, bool replicated) {
  if (!replicated) options.resident = made.resident();
  if (made.options() == options) return;
  throw StateError({.what = "Init and Engine were given different options or communicators",
                    .value = "unit " + made.name(),
                    .remedy = "pass the same to both"});
}

std::vector<std::string> names_of(const UnitSpec& spec) {
  std::vector<std::string> names;
  for (const NamedParameter& parameter : spec.parameters) names.push_back(parameter.name);
  return names;
}

}  // namespace

Engine::Engine(torch::nn::Module& model, EngineOptions options, Communicator& comm) {
  const std::vector<FoundUnit> found = find_units(model);
  std::shared_ptr<StateMemory> memory;
  std::vector<std::unique_ptr<FlatUnit>> made(found.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    made[i] = found[i].unit == nullptr ? nullptr : found[i].unit->take_made();
    if (!made[i]) continue;
    check_made(*made[i], found[i].spec);
    made[i]->rename(found[i].spec.name, names_of(found[i].spec));
    memory = made[i]->memory();
  }
  if (!memory) memory = Core::make_memory(options);
  std::vector<UnitSize> so_far;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const UnitSpec& spec = found[i].spec;
    const FlatUnitOptions unit_options = Core::unit_options(options, spec, comm, so_far);
    if (!made[i]) made[i] = std::make_unique<FlatUnit>(spec, unit_options, memory);
    check_options(*made[i], unit_options,
                  stage_row(options.zero.stage).parameters == Placement::replicated);
  }
  core_ = std::make_unique<Core>(std::move(made), std::move(memory), std::move(options), comm);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].unit != nullptr) found[i].unit->attach({core_->weak(), i});
  }
}

Engine::~Engine() = default;

std::unique_ptr<FullParams> Engine::full_params(FullParams::Access access) {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < core_->units(); ++i) all.push_back(i);
  return std::make_unique<FullParams>(*core_, all, access);
}

std::unique_ptr<FullParams> Engine::full_params_of(const std::vector<std::string>& units,
                                                   FullParams::Access access) {
  std::vector<std::size_t> wanted;
  for (const std::string& name : units) {
    std::size_t i = 0;
    while (i < core_->units() && core_->unit(i).name() != name) ++i;
    if (i == core_->units()) {
      throw StateError({.what = "there is no unit of that name", .value = name});
    }
    wanted.push_back(i);
  }
  return std::make_unique<FullParams>(*core_, wanted, access);
}

void Engine::visit_parameters(const Visitor& visit) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < core_->units(); ++i) {
    const FullParams scope(*core_, {i}, {});
    for (const NamedParameter& parameter : core_->unit(i).parameters()) {
      visit(parameter.name, parameter.tensor);
    }
  }
}

FullParams::FullParams(Core& core, std::vector<std::size_t> units, Access access)
    : core_(core), units_(std::move(units)), access_(access) {
  try {
    for (; open_ < units_.size(); ++open_) core_.gather_full(units_[open_], access_.writes);
  } catch (...) {  // nobody will close what is open
    for (; open_ > 0; --open_) core_.release_full(units_[open_ - 1], Written::nothing);
    throw;
  }
}

void FullParams::close() {
  // Where an exception ends the scope, what was written half is forgotten.
  const Written written = access_.writes && !unwinding_ ? Written::some : Written::nothing;
  for (; open_ > 0; --open_) core_.release_full(units_[open_ - 1], written, access_.from);
}

FullParams::~FullParams() {
  try {
    close();
  } catch (...) {
    core_.keep_error(std::current_exception());
  }
}

}  // namespace zeroshard
