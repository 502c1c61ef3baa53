// A plan, worked out and ready to be shown: as text, JSON, a picture or a page.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/plan_inputs.h"
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
  bool rates_measured = false;
  MemoryLimits limits;
  std::vector<std::string> assumptions;

  std::vector<PlannedVariant> variants;  // kVariants
  std::optional<Variant> configured;     // what the configuration asks for
  std::optional<Decision> decision;      // where memory is limited
  PlannedVariant chosen;                 // by the tree, else what is configured
  // The chosen one with its device filled, where that keeps some of what would leave.
  std::optional<PlannedVariant> filled;
  // Of those that fit the one whose step takes least, where that is another one.
  std::optional<PlannedVariant> fastest;
  std::optional<std::int64_t> largest_micro_batch;
  std::string largest_model;
  std::string config_text;  // to use

  bool counts_activations() const { return sequence > 0; }
};

PlanReport make_plan_report(PlanInputs inputs);

std::string plan_text(const PlanReport& report);
std::string plan_json(const PlanReport& report);
// Letters by category against a mark where the memory ends.
std::string plan_bars(const PlanReport& report, int columns);
// Several configurations side by side, each as it asks for.
std::string comparison_text(const std::vector<PlanReport>& reports);
std::string comparison_json(const std::vector<PlanReport>& reports);

// The given configuration with the chosen stage, offload and micro-batch.
std::string config_to_use(const config::ParsedConfig& given, const PlannedVariant& chosen,
                          std::optional<std::int64_t> device_budget, std::int64_t micro_batch);

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

}  // namespace zeroshard::cli
