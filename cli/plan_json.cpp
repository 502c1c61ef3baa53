// A plan for programs.
#include <algorithm>

#include "cli/json_writer.h"
#include "cli/plan_report.h"
#include "zeroshard/layout/placement.h"

namespace zeroshard::cli {
namespace {

void write_footprint(const Footprint& footprint, Tier tier, JsonWriter& json) {
  for (const Category category : kCategories) {
    json.field(name_of(category), footprint.bytes(category, tier));
  }
  json.field("states", footprint.states(tier));
  json.field("total", footprint.total(tier));
}

void write_phases(const MemoryPlan& memory, JsonWriter& json) {
  json.open_object("phases");
  for (const StepPhase phase : kStepPhases) {
    json.open_object(name_of(phase));
    for (const auto& [tier, name] : {std::pair{Tier::device, "device"}, {Tier::host, "host"}}) {
      json.open_object(name);
      for (const Line line : kLines) {
        const std::int64_t bytes = memory.at(phase).bytes(line, tier);
        if (bytes > 0) json.field(name_of(line), bytes);
      }
      json.field("total", memory.at(phase).total(tier));
      json.close_object();
    }
    json.close_object();
  }
  json.close_object();
}

void write_time(const PlannedVariant& planned, JsonWriter& json) {
  if (!planned.time) return;
  const StepEstimate& time = *planned.time;
  json.open_object("seconds");
  json.field("forward", time.forward);
  json.field("backward", time.backward);
  json.field("update", time.update);
  json.field("network", time.network);
  json.field("network_not_hidden", time.exposed);
  json.field("copies", time.copies);
  json.field("host", time.host);
  json.field("step", time.step);
  json.field("waits_for", name_of(time.bottleneck(planned.options.micro_steps)));
  json.close_object();
}

void write_variant(const PlannedVariant& planned, const MemoryLimits& limits, JsonWriter& json) {
  json.field("name", name_of(planned.variant));
  json.field("stage", planned.variant.stage);
  json.field("offload_optimizer", planned.variant.optimizer_on_host);
  json.field("offload_param", planned.variant.parameters_on_host);
  json.open_object("device_bytes");
  write_footprint(planned.memory.engine, Tier::device, json);
  json.close_object();
  json.open_object("host_bytes");
  write_footprint(planned.memory.engine, Tier::host, json);
  json.close_object();
  json.field("device_peak_bytes", planned.memory.peak(Tier::device));
  json.field("host_peak_bytes", planned.memory.peak(Tier::host));
  write_phases(planned.memory, json);
  json.field("sent_bytes_per_step", planned.sent_bytes);
  json.field("collectives_per_step", planned.collectives);
  json.field("reduce_bucket_size", planned.options.zero.reduce_bucket_numel);
  if (stage_row(planned.variant.stage).parameters == Placement::sharded) {
    json.field("stage3_prefetch_bucket_size", planned.options.zero.prefetch_numel);
    json.field("stage3_max_live_parameters", planned.options.zero.max_live_numel);
  }
  json.field("units_on_device", static_cast<std::int64_t>(planned.units_on_device));
  write_time(planned, json);
  if (planned.network_seconds) json.field("network_seconds", *planned.network_seconds);
  if (limits.any()) json.field("fits", planned.fits(limits));
  if (const auto left = planned.left(Tier::device, limits)) json.field("device_left_bytes", *left);
  if (const auto left = planned.left(Tier::host, limits)) json.field("host_left_bytes", *left);
  if (const auto left = planned.left_of_both(limits)) json.field("left_bytes", *left);
  if (planned.budget_shortage) {
    const Fault& fault = *planned.budget_shortage;
    json.field("does_not_fit", fault.what + ": " + fault.value + "; " + fault.remedy);
  }
}

void write_limits(const MemoryLimits& limits, JsonWriter& json) {
  if (limits.device) json.field("device_memory_bytes", *limits.device);
  if (limits.host) json.field("host_memory_bytes_per_rank", *limits.host);
  if (limits.both) json.field("memory_bytes_per_rank", *limits.both);
}

void write_rates(const PlanReport& report, JsonWriter& json) {
  const std::vector<NamedRate> used = used_rates(report);
  json.field("rates_measured", std::ranges::any_of(used, [&](const NamedRate& name) {
               return ((*report.rates).*name.member).measured;
             }));
  json.open_object("rates");
  for (const NamedRate& name : used) {
    const Rate& rate = (*report.rates).*name.member;
    json.open_object(name.name);
    json.field("value", rate.value);
    json.field("unit", name.unit);
    json.field("source", rate.source());
    json.close_object();
  }
  json.close_object();
  if (!report.collective) return;
  json.open_object("collective");
  json.field("latency_seconds", report.collective->latency_seconds);
  json.field("bytes_per_second", report.collective->bytes_per_second);
  json.close_object();
}

void write_report(const PlanReport& report, JsonWriter& json) {
  json.open_object();
  if (!report.title.empty()) json.field("config", report.title);
  json.field("model", report.description);
  json.field("parameters", report.parameters);
  json.field("world_size", report.ranks);
  json.field("ranks_per_node", report.ranks_per_node);
  json.field("micro_batch", report.micro_batch);
  json.field("micro_steps", report.micro_steps);
  if (report.sequence > 0) json.field("sequence", report.sequence);
  json.field("precision", report.precision);
  json.field("optimizer", report.optimizer);
  if (!report.device_name.empty()) json.field("device", report.device_name);
  write_limits(report.limits, json);
  json.list("assumptions", report.assumptions);
  if (report.configured) json.field("configured", name_of(*report.configured));
  json.field("chosen", name_of(report.chosen.variant));
  if (report.decision) {
    json.field("fits", report.decision->fits);
    json.list("tree", report.decision->words);
  }
  if (report.filled) {
    json.field("device_budget_bytes", report.filled->memory.engine.total(Tier::device));
  }
  if (report.largest_micro_batch) json.field("largest_micro_batch", *report.largest_micro_batch);
  if (!report.largest_model.empty()) json.field("largest_model", report.largest_model);
  write_rates(report, json);
  json.open_list("variants");
  for (const PlannedVariant& planned : report.variants) {
    json.open_object();
    write_variant(planned, report.limits, json);
    json.close_object();
  }
  json.close_list();
  if (!report.config_text.empty()) json.field("config_to_use", report.config_text);
  json.close_object();
}

}  // namespace

std::string plan_json(const PlanReport& report) {
  JsonWriter json;
  write_report(report, json);
  return json.text();
}

std::string comparison_json(const std::vector<PlanReport>& reports) {
  JsonWriter json;
  json.open_list();
  for (const PlanReport& report : reports) write_report(report, json);
  json.close_list();
  return json.text();
}

}  // namespace zeroshard::cli
