#include "zeroshard/config/explain.h"

#include <map>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/config/batch_size.h"
#include "zeroshard/config/key_table.h"
#include "zeroshard/layout/placement.h"

namespace zeroshard::config {
namespace {

struct Derived {
  std::string value;
  std::string note;
};

using Derivations = std::map<std::string, Derived, std::less<>>;

void derive_batch(const Config& config, std::optional<int> world_size, Derivations& out) {
  if (!world_size) return;
  const SolvedBatch solved = solve_batch(config.batch, *world_size);
  if (!solved.sizes) return;
  const auto add = [&](const char* key, const auto& given, std::int64_t value) {
    if (!given) {
      out[key] = {fmt::format("{}", value),
                  fmt::format("batch = micro batch x accumulation x {} ranks", *world_size)};
    }
  };
  add("train_batch_size", config.batch.train, solved.sizes->train);
  add("train_micro_batch_size_per_gpu", config.batch.micro_per_rank, solved.sizes->micro_per_rank);
  add("gradient_accumulation_steps", config.batch.accumulation, solved.sizes->accumulation);
}

void derive_dtypes(const Config& config, Derivations& out) {
  const auto& precision = config.precision;
  const auto quoted = [](DType dtype) { return fmt::format("\"{}\"", name_of(dtype)); };
  if (!precision.communication_data_type) {
    out["communication_data_type"] = {quoted(precision.communication()), "the model's dtype"};
  }
  if (!precision.grad_accum_dtype) {
    out["data_types.grad_accum_dtype"] = {quoted(precision.accumulation()), "the model's dtype"};
  }
}

void derive_decay(const ReadResult& read, Derivations& out) {
  const auto* adam =
      read.config.optimizer ? std::get_if<AdamOptions>(&*read.config.optimizer) : nullptr;
  // settle() has put it there; a default of ours would be 0.
  if (adam != nullptr && adam->weight_decay != AdamOptions{}.weight_decay) {
    out["optimizer.params.weight_decay"] = {fmt::format("{}", adam->weight_decay),
                                            "torch_adam brings torch's own default"};
  }
}

void derive_schedule(const Config& config, Derivations& out) {
  if (!config.scheduler) return;
  if (const auto* warmup = std::get_if<WarmupLrOptions>(&*config.scheduler)) {
    if (!warmup->max_lr && config.optimizer) {
      out["scheduler.params.warmup_max_lr"] = {fmt::format("{}", learning_rate(*config.optimizer)),
                                               "the optimizer's lr"};
    }
  } else if (const auto* cycle = std::get_if<OneCycleOptions>(&*config.scheduler)) {
    if (!cycle->second_step_size) {
      out["scheduler.params.cycle_second_step_size"] = {fmt::format("{}", cycle->first_step_size),
                                                        "cycle_first_step_size"};
    }
    if (!cycle->second_stair_count) {
      out["scheduler.params.cycle_second_stair_count"] = {
          fmt::format("{}", cycle->first_stair_count), "cycle_first_stair_count"};
    }
  }
}

Derivations derive(const ReadResult& read, std::optional<int> world_size) {
  Derivations out;
  const Config& config = read.config;
  derive_batch(config, world_size, out);
  derive_dtypes(config, out);
  derive_schedule(config, out);
  derive_decay(read, out);
  if (!config.zero.overlap_comm) {
    const bool sharded = stage_row(config.zero.stage).overlaps_by_default();
    out["zero_optimization.overlap_comm"] = {
        sharded ? "true" : "false",
        sharded ? "parameters are sharded" : "parameters are replicated"};
  }
  return out;
}

std::string note_of(const Key& key) {
  if (key.effect == Effect::changes_results) return key.instead;
  return is_reported(key.effect) ? "no effect here; " + key.instead : "";
}

ExplainedKey explain_key(const Key& key, const ReadResult& read, const Derivations& derived) {
  ExplainedKey row{.key = key.path, .value = {}};
  const auto origin = read.provenance.find(key.path);
  const auto derivation = derived.find(key.path);
  const bool given = origin != read.provenance.end();
  row.value = key.show ? key.show(read.config) : key.fixed_default;
  if (given) {
    row.source = origin->second.source;
    row.at = origin->second.at;
    if (!key.show) row.value = origin->second.value;
    row.note = note_of(key);
  }
  if ((!given || row.source == Source::automatic) && derivation != derived.end()) {
    if (!given) row.source = Source::derived;
    row.value = derivation->second.value;
    row.note = derivation->second.note;
  }
  if (row.source == Source::automatic && row.note.empty()) row.note = "the caller resolves it";
  return row;
}

}  // namespace

std::vector<ExplainedKey> explain(const ReadResult& read, std::optional<int> world_size) {
  const Derivations derived = derive(read, world_size);
  std::vector<ExplainedKey> rows;
  for (const Key& key : key_table().keys()) {
    const std::string_view section = parent_of(key.path);
    const bool per_kind = leaf_of(section) == "params";
    const std::string kind = kind_given(read.provenance, section);
    if (per_kind && (kind.empty() || !key.applies_to(kind))) continue;
    if (key.deprecated() && !read.provenance.contains(key.path)) continue;
    rows.push_back(explain_key(key, read, derived));
  }
  return rows;
}

}  // namespace zeroshard::config
