#include "zeroshard/planner/memory_fit.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/layout/checked.h"
#include "zeroshard/layout/placement.h"
#include "zeroshard/planner/largest.h"

namespace zeroshard {
namespace {

// Early updates take what is left over.
Footprint bare_footprint(const ModelLayout& model, FootprintOptions options) {
  options.undo_limit_bytes = 0;
  return footprint(model, options);
}

Footprint footprint_at(const ModelLayout& model, FootprintOptions options,
                       std::size_t first_host_unit) {
  options.first_host_unit = first_host_unit;
  return bare_footprint(model, options);
}

// A size that can be written into a configuration, and is enough.
std::string enough(std::int64_t bytes) {
  if (bytes < kMiB) return fmt::format("\"{}\"", bytes);
  return fmt::format("\"{}MiB\"", checked_round_up(bytes, kMiB) / kMiB);
}

bool shards_states(const FootprintOptions& options) {
  return stage_row(options.zero.stage).optimizer_states == Placement::sharded;
}

bool parameters_are_on_host(const FootprintOptions& options) {
  return stage_row(options.zero.stage).parameters == Placement::sharded &&
         options.offload.parameters != Tier::device;
}

Fault device_shortage(std::int64_t budget, std::int64_t least, const FootprintOptions& options) {
  std::string remedy = "give at least " + enough(least);
  if (!parameters_are_on_host(options)) {
    remedy += ", or put the parameters on the host as well (stage 3 with offload_param)";
  }
  return {.what =
              "zeroshard.device_budget is less than this model needs on the device with all "
              "optimizer states on the host",
          .value = fmt::format("{}, while it needs {}", human_bytes(budget), human_bytes(least)),
          .remedy = std::move(remedy)};
}

// The share of the elements that units from `first` on have, never more than that.
double ratio_at(const ModelLayout& model, std::size_t first, bool sharded) {
  std::int64_t behind = 0, all = 0;
  for (std::size_t i = 0; i < model.units().size(); ++i) {
    const LayoutTotals& totals = model.units()[i].totals();
    const std::int64_t owned =
        sharded ? totals.trainable_shard_numel : totals.trainable_padded_numel;
    all += owned;
    if (i >= first) behind += owned;
  }
  if (all == 0) return 0.0;
  return std::floor(1000.0 * static_cast<double>(behind) / static_cast<double>(all)) / 1000.0;
}

// How the host comes to hold at most so many bytes: by the fewest units whose states must stay on
// the device. Empty where even all of them are not enough.
std::string what_would_fit(const ModelLayout& model, const FootprintOptions& options,
                           std::int64_t host_bytes) {
  const std::size_t units = model.units().size();
  const auto on_host = largest_that(0, static_cast<std::int64_t>(units), [&](std::int64_t count) {
    const std::size_t first = units - static_cast<std::size_t>(count);
    return footprint_at(model, options, first).total(Tier::host) <= host_bytes;
  });
  if (!on_host) return parameters_are_on_host(options) ? "leave offload_param out" : "";
  const std::size_t first = units - static_cast<std::size_t>(*on_host);
  const std::int64_t device = footprint_at(model, options, first).total(Tier::device);
  if (options.zero.device_budget_bytes) {
    return fmt::format("a zeroshard.device_budget of {} would fit", enough(device));
  }
  return fmt::format("an offload_optimizer.ratio of {:g} would fit, with {} on the device",
                     ratio_at(model, first, shards_states(options)), human_bytes(device));
}

std::string joined(std::string first, const std::string& second, const char* between) {
  if (first.empty() || second.empty()) return first + second;
  return std::move(first) + between + second;
}

std::optional<Fault> host_shortage(const ModelLayout& model, const FootprintOptions& options,
                                   std::int64_t budget) {
  const Footprint plan = bare_footprint(model, options);
  const std::int64_t needed = plan.total(Tier::host);
  if (needed <= budget) return std::nullopt;
  std::string remedy =
      joined("give at least " + enough(needed), what_would_fit(model, options, budget), ", or ");
  if (shards_states(options)) remedy += ", or take more ranks, each of which then holds less";
  return Fault{
      .what = "zeroshard.host_budget is less than the plan puts on the host",
      .value = fmt::format("{}, but {}", human_bytes(budget), in_one_line(plan, Tier::host)),
      .remedy = std::move(remedy)};
}

// Where nothing fits, the plan that takes the least of the device.
BudgetFit fit_to_device(const ModelLayout& model, const FootprintOptions& options,
                        std::int64_t budget) {
  const auto device_at = [&](std::int64_t first_host_unit) {
    return footprint_at(model, options, static_cast<std::size_t>(first_host_unit))
        .total(Tier::device);
  };
  const auto units = static_cast<std::int64_t>(model.units().size());
  const auto first =
      largest_that(0, units, [&](std::int64_t each) { return device_at(each) <= budget; });
  if (first) return {.first_host_unit = static_cast<std::size_t>(*first)};
  return {.first_host_unit = 0, .shortage = device_shortage(budget, device_at(0), options)};
}

}  // namespace

BudgetFit judge_budgets(const ModelLayout& model, const FootprintOptions& options) {
  BudgetFit fit{.first_host_unit = options.first_host_unit};
  if (const auto budget = options.zero.device_budget_bytes) {
    fit = fit_to_device(model, options, *budget);
  }
  if (const auto budget = options.zero.host_budget_bytes; budget && !fit.shortage) {
    FootprintOptions fitted = options;
    fitted.first_host_unit = fit.first_host_unit;
    fit.shortage = host_shortage(model, fitted, *budget);
    fit.undo_limit_bytes =
        std::max<std::int64_t>(0, *budget - bare_footprint(model, fitted).total(Tier::host));
  }
  return fit;
}

BudgetFit fit_to_budgets(const ModelLayout& model, const FootprintOptions& options) {
  const BudgetFit fit = judge_budgets(model, options);
  if (fit.shortage) throw ConfigError(*fit.shortage);
  return fit;
}

std::int64_t undo_room(const ModelLayout& model, const FootprintOptions& options,
                       const HostRoom& room) {
  const std::int64_t each = bare_footprint(model, options).total(Tier::host) - room.held_bytes;
  return std::max<std::int64_t>(0, room.bytes / room.ranks - each) / 2;
}

void check_host_room(const ModelLayout& model, const FootprintOptions& options,
                     const HostRoom& room) {
  const Footprint plan = bare_footprint(model, options);
  const std::int64_t each = plan.total(Tier::host);
  const std::int64_t missing =
      checked_mul(std::max<std::int64_t>(0, each - room.held_bytes), room.ranks);
  if (missing <= room.bytes) return;
  std::string value = in_one_line(plan, Tier::host);
  if (room.ranks > 1) {
    value += fmt::format(" for each of {} ranks, {}", room.ranks,
                         human_bytes(checked_mul(each, room.ranks)));
  }
  value += fmt::format(", while {} can be had here by {}", human_bytes(room.bytes), room.set_by);
  const std::string less =
      what_would_fit(model, options, room.bytes / room.ranks + room.held_bytes);
  throw StorageError(
      {.what = "the plan puts more on the host than it has memory for",
       .value = std::move(value),
       .remedy = joined(less, "give the ranks more memory, or take more hosts", ", or ")});
}

std::string in_one_line(const Footprint& plan, Tier tier) {
  std::string line;
  for (const Category category : kCategories) {
    const std::int64_t bytes = plan.bytes(category, tier);
    if (bytes > 0) line += fmt::format("{} {}, ", name_of(category), human_bytes(bytes));
  }
  return line + "in all " + human_bytes(plan.total(tier));
}

}  // namespace zeroshard
