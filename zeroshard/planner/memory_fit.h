// Whether a plan fits into the memory there is, and which units' states leave the device where a
// budget decides that. What does not fit is refused with what would.
//
//   FootprintOptions options = footprint_options(config, micro_steps);
//   options.first_host_unit = fit_to_budgets(model, options).first_host_unit;
//   check_host_room(model, options, {.bytes = room.bytes, .set_by = room.set_by});
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "zeroshard/base/error.h"
#include "zeroshard/layout/unit_layout.h"
#include "zeroshard/planner/footprint.h"

namespace zeroshard {

// What budgets make of a plan. They are of one rank, and count what the engine's ledger counts.
struct BudgetFit {
  // With a device_budget: such that as many units as possible keep their optimizer states on the
  // device. Without one: what the options say.
  std::optional<std::size_t> first_host_unit = {};
  // What a host_budget leaves for early updates, which are worth no refusal.
  std::optional<std::int64_t> undo_limit_bytes = {};
  std::optional<Fault> shortage = {};  // of a budget that is too small for this model
};
BudgetFit judge_budgets(const ModelLayout& model, const FootprintOptions& options);

// The same; throws ConfigError where there is a shortage.
BudgetFit fit_to_budgets(const ModelLayout& model, const FootprintOptions& options);

// What a machine can still give to the ranks that run on it.
struct HostRoom {
  std::int64_t bytes = 0;
  std::string set_by = {};  // the file that says so
  int ranks = 1;
  std::int64_t held_bytes = 0;  // of a rank's plan, already allocated
};

// Throws StorageError where the plan's host tier does not fit into it, early updates' records
// aside.
void check_host_room(const ModelLayout& model, const FootprintOptions& options,
                     const HostRoom& room);

// What early updates of a rank may take of it: half of what the plan leaves.
std::int64_t undo_room(const ModelLayout& model, const FootprintOptions& options,
                       const HostRoom& room);

// "gradients 1.25 GiB, master 2.5 GiB, moments 5 GiB, in all 8.75 GiB"
std::string in_one_line(const Footprint& plan, Tier tier);

}  // namespace zeroshard
