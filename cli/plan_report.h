// A plan, worked out and ready to be shown: as text, JSON, a picture or a page.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/plan_inputs.h"
#include "zeroshard/planner/calibration.h"
#include "zeroshard/planner/decision.h"

namespace zeroshard::cli {

struct PlanReport {
  std::string title;  // the configuration file, where several are compared
  std::string description;
  std::int64_t parameters = 0;
  int ranks = 1;
  int ranks_per_node = 1;
  std::int64_t micro_batch = 1;
  std::int64_t micro_steps = 1;
  std::int64_t sequence = 0;  // 0: activations are not known
  std::string precision;      // "bf16 with fp32 master in halves"
  std::string optimizer;      // "2 fp32 moments per parameter"
  std::string device_name;
  std::string rates_source;
  std::optional<Rates> rates;
  // Of gathers and reductions by rings (or straight, on CPUs), where ranks talk at known rates.
  struct Collective {
    double latency_seconds = 0;
    double bytes_per_second = 0;  // of what each rank sends
  };
  std::optional<Collective> collective;
  MemoryLimits limits;
  std::vector<std::string> assumptions;

  std::vector<PlannedVariant>
      variants;                       // kVariants, and the configured one where it is none of them
  std::optional<Variant> configured;  // what the configuration asks for
  std::optional<Decision> decision;   // where memory is limited
  PlannedVariant chosen;              // by the tree, else what is configured
  // The chosen one with its device filled, where that keeps some of what would leave.
  std::optional<PlannedVariant> filled;
  // Of those that fit the one whose step takes least, where that is another one.
  std::optional<PlannedVariant> fastest;
  std::optional<std::int64_t> largest_micro_batch;
  std::string largest_model;
  std::string config_text;  // to use; empty where nothing fits

  bool counts_activations() const { return sequence > 0; }
  bool has_times() const;
  const PlannedVariant& variant(const Variant& which) const;
};

PlanReport make_plan_report(PlanInputs inputs);

std::string plan_text(const PlanReport& report);
std::string plan_json(const PlanReport& report);
// Letters by category against a mark where the memory ends.
std::string plan_bars(const PlanReport& report, int columns);
// Several configurations side by side, each as it asks for.
std::string comparison_text(const std::vector<PlanReport>& reports);
std::string comparison_json(const std::vector<PlanReport>& reports);

// What is written into the given configuration beside the chosen stage and offload.
struct ChosenSettings {
  std::int64_t micro_batch = 1;
  std::optional<std::int64_t> device_budget = {};
  bool whole_masters = false;
};
std::string config_to_use(const config::ParsedConfig& given, const Variant& chosen,
                          const ChosenSettings& settings);

// A picture by itself, and a page with the picture and all tables.
std::string plan_svg(const PlanReport& report);
std::string plan_html(const PlanReport& report);

// The columns of a rank's memory that people tell apart, and what of a table they take.
enum class Share { parameters, gradients, states, buffers, activations, working, libraries };
inline constexpr std::array<Share, 7> kShares{Share::parameters, Share::gradients,   Share::states,
                                              Share::buffers,    Share::activations, Share::working,
                                              Share::libraries};
std::string_view name_of(Share share);
std::int64_t bytes_of(Share share, const MemoryTable& table, Tier tier);

// What pictures show: the device's memory at its peak, or all of a rank's where the limit is of
// both.
std::int64_t shown_bytes(Share share, const PlannedVariant& planned, const MemoryLimits& limits);
std::int64_t shown_total(const PlannedVariant& planned, const MemoryLimits& limits);
std::optional<std::int64_t> shown_limit(const MemoryLimits& limits);

// What is left of the device, "over by 1.20 GiB", or "host over by 1.20 GiB".
std::string left_cell(const PlannedVariant& planned, const MemoryLimits& limits);

// "742 TFLOP/s", "25.0 GB/s", "20 us"
std::string rate_text(const NamedRate& name, const Rate& rate);
// The rates that the estimates are made of.
std::vector<NamedRate> used_rates(const PlanReport& report);

}  // namespace zeroshard::cli
