#include "cli/print_plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/json_writer.h"
#include "cli/text_table.h"
#include "zeroshard/base/bytes.h"

namespace zeroshard::cli {
namespace {

using Align = TextTable::Align;

std::string cell(std::int64_t bytes) { return bytes == 0 ? "-" : human_bytes_decimal(bytes); }

// One tier's table; `with_traffic` adds what each rank sends, once.
std::string tier_table(const PlanReport& report, Tier tier, bool with_traffic) {
  std::vector<Align> columns(8, Align::right);
  std::vector<std::string> head{"stage"};
  for (Category category : kCategories) {
    if (category == Category::buffers) head.emplace_back("= states");
    head.emplace_back(name_of(category));
  }
  head.emplace_back("= total");
  if (with_traffic) {
    head.emplace_back("sent per step");
    columns.push_back(Align::right);
  }
  TextTable table(std::move(columns));
  table.add_row(std::move(head));
  table.add_rule();
  for (const PlannedStage& planned : report.stages) {
    const bool chosen = report.chosen_stage == planned.stage;
    std::vector<std::string> row{fmt::format("{}{}", chosen ? "> " : "", planned.stage)};
    for (Category category : kCategories) {
      if (category == Category::buffers) row.push_back(cell(planned.footprint.states(tier)));
      row.push_back(cell(planned.footprint.bytes(category, tier)));
    }
    row.push_back(cell(planned.footprint.total(tier)));
    if (with_traffic) row.push_back(cell(planned.sent_bytes));
    table.add_row(std::move(row));
  }
  return table.text();
}

bool uses_host(const PlannedStage& planned) { return planned.footprint.total(Tier::host) > 0; }

// What the tables do not say of the stages: where units are cut in two parts, and what budgets are
// too small for.
std::string notes(const PlanReport& report) {
  std::string out;
  const auto units = static_cast<std::size_t>(report.units);
  for (const PlannedStage& planned : report.stages) {
    const std::size_t stay = planned.units_on_device;
    if (uses_host(planned) && stay > 0 && stay < units) {
      out += fmt::format(
          "stage {}: the first {} of {} units keep their optimizer states on the device\n",
          planned.stage, stay, units);
    }
    if (!planned.does_not_fit.empty()) {
      out += fmt::format("stage {} does not fit: {}\n", planned.stage, planned.does_not_fit);
    }
  }
  return out.empty() ? out : "\n" + out;
}

}  // namespace

std::string plan_text(const PlanReport& report) {
  std::string out = fmt::format(
      "{} parameters on {} rank{}: {}, {}\n", human_count(report.parameters), report.world_size,
      report.world_size == 1 ? "" : "s", report.precision, report.optimizer);
  for (const std::string& assumption : report.assumptions) out += "assumed: " + assumption + "\n";
  out += "\nBytes per rank on the device (GB = 1e9 bytes; activations are not counted)\n";
  out += tier_table(report, Tier::device, true);
  if (std::any_of(report.stages.begin(), report.stages.end(), uses_host)) {
    out += "\nBytes per rank on the host\n" + tier_table(report, Tier::host, false);
  }
  out += notes(report);
  if (report.chosen_stage) out += "\n> the config's stage\n";
  return out;
}

std::string plan_json(const PlanReport& report) {
  JsonWriter json;
  json.open_object();
  json.field("parameters", report.parameters);
  json.field("world_size", report.world_size);
  json.field("units", report.units);
  json.field("precision", report.precision);
  json.field("optimizer", report.optimizer);
  json.list("assumptions", report.assumptions);
  if (report.chosen_stage) json.field("config_stage", *report.chosen_stage);
  json.open_list("stages");
  for (const PlannedStage& planned : report.stages) {
    json.open_object();
    json.field("stage", planned.stage);
    for (const auto& [tier, name] :
         {std::pair{Tier::device, "device_bytes"}, std::pair{Tier::host, "host_bytes"}}) {
      json.open_object(name);
      for (Category category : kCategories) {
        json.field(name_of(category), planned.footprint.bytes(category, tier));
      }
      json.field("states", planned.footprint.states(tier));
      json.field("total", planned.footprint.total(tier));
      json.close_object();
    }
    json.field("sent_bytes_per_step", planned.sent_bytes);
    json.field("units_on_device", static_cast<std::int64_t>(planned.units_on_device));
    if (!planned.does_not_fit.empty()) json.field("does_not_fit", planned.does_not_fit);
    json.close_object();
  }
  json.close_list();
  json.close_object();
  return json.text();
}

}  // namespace zeroshard::cli
