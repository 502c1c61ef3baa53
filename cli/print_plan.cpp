// A plan as text.
#include <algorithm>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/plan_report.h"
#include "cli/text_table.h"
#include "zeroshard/base/bytes.h"
#include "zeroshard/monitor/terminal.h"

namespace zeroshard::cli {
namespace {

using Align = TextTable::Align;

constexpr int kUsualColumns = 100;

// Devices are spoken of in GiB; the paper counts in GB.
class Sizes {
 public:
  explicit Sizes(const PlanReport& report) : binary_(report.limits.any()) {}
  std::string cell(std::int64_t bytes) const { return bytes == 0 ? "-" : text(bytes); }
  std::string text(std::int64_t bytes) const {
    return binary_ ? human_bytes(bytes) : human_bytes_decimal(bytes);
  }
  const char* unit() const { return binary_ ? "GiB = 2^30 bytes" : "GB = 1e9 bytes"; }

 private:
  const bool binary_;
};

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  if (seconds < 1000) return fmt::format("{:.3g} s", seconds);
  return fmt::format("{:.0f} s", seconds);
}

bool is_marked(const PlanReport& report, const PlannedVariant& planned) {
  return report.decision ? planned.variant == report.chosen.variant
                         : report.configured == planned.variant;
}

// "2 +opt +param"
std::string short_name(const Variant& variant) {
  return fmt::format("{}{}{}", variant.stage, variant.optimizer_on_host ? " +opt" : "",
                     variant.parameters_on_host ? " +param" : "");
}

// Where a step's time is not known, that of what it sends may be.
bool has_network_alone(const PlanReport& report) {
  return !report.has_times() && report.ranks > 1 &&
         report.variants.front().network_seconds.has_value();
}

// By what it is for, in the phase in which the device holds most.
std::string memory_table(const PlanReport& report) {
  const Sizes sizes(report);
  const bool more = report.counts_activations();
  std::vector<std::string> head{"stage",   "parameters", "gradients", "master",
                                "moments", "= states",   "buffers"};
  if (more) head.insert(head.end(), {"activations", "libraries"});
  head.insert(head.end(), {"= total", "on the host", "sent per step"});
  if (has_network_alone(report)) head.emplace_back("sent in");
  if (report.limits.any()) head.emplace_back("left");
  std::vector<Align> columns(head.size(), Align::right);
  columns.front() = Align::left;
  TextTable table(std::move(columns));
  table.add_row(std::move(head));
  table.add_rule();
  for (const PlannedVariant& planned : report.variants) {
    const MemoryTable& now = planned.memory.at(planned.memory.worst(Tier::device));
    const auto of = [&](Line line) { return now.bytes(line, Tier::device); };
    const std::int64_t states =
        of(Line::parameters) + of(Line::gradients) + of(Line::master) + of(Line::moments);
    std::vector<std::string> row{
        fmt::format("{} {}", is_marked(report, planned) ? ">" : " ", short_name(planned.variant)),
        sizes.cell(of(Line::parameters)),
        sizes.cell(of(Line::gradients)),
        sizes.cell(of(Line::master)),
        sizes.cell(of(Line::moments)),
        sizes.cell(states),
        sizes.cell(bytes_of(Share::buffers, now, Tier::device))};
    if (more) {
      row.push_back(sizes.cell(bytes_of(Share::activations, now, Tier::device) +
                               bytes_of(Share::working, now, Tier::device)));
      row.push_back(sizes.cell(of(Line::library)));
    }
    row.push_back(sizes.cell(now.total(Tier::device)));
    row.push_back(sizes.cell(planned.memory.engine.total(Tier::host)));
    row.push_back(sizes.cell(planned.sent_bytes));
    if (has_network_alone(report)) row.push_back(seconds_text(*planned.network_seconds));
    if (report.limits.any()) row.push_back(left_cell(planned, report.limits));
    table.add_row(std::move(row));
  }
  return table.text();
}

std::string time_table(const PlanReport& report) {
  const bool travels = report.ranks > 1;
  std::vector<std::string> head{"stage", "forward", "backward", "network"};
  if (travels) head.insert(head.end(), {"not hidden", "collectives"});
  head.insert(head.end(), {"PCIe", "host", "= step", "waits for"});
  std::vector<Align> columns(head.size(), Align::right);
  columns.front() = columns.back() = Align::left;
  TextTable table(std::move(columns));
  table.add_row(std::move(head));
  table.add_rule();
  for (const PlannedVariant& planned : report.variants) {
    if (!planned.time) continue;
    const StepEstimate& time = *planned.time;
    const auto cell = [](double seconds) {
      return seconds == 0 ? std::string("-") : seconds_text(seconds);
    };
    std::vector<std::string> row{
        fmt::format("{} {}", is_marked(report, planned) ? ">" : " ", short_name(planned.variant)),
        cell(time.forward), cell(time.backward), cell(time.network)};
    if (travels) {
      row.push_back(cell(time.exposed));
      row.push_back(fmt::format("{}", planned.collectives));
    }
    row.insert(row.end(), {cell(time.copies), cell(time.host), cell(time.step),
                           std::string(name_of(time.bottleneck(planned.options.micro_steps)))});
    table.add_row(std::move(row));
  }
  return table.text();
}

std::string rates_table(const PlanReport& report) {
  const std::vector<NamedRate> used = used_rates(report);
  if (used.empty()) return "";
  TextTable table({Align::left, Align::right, Align::left});
  for (const NamedRate& name : used) {
    const Rate& rate = (*report.rates).*name.member;
    table.add_row(
        {"  " + std::string(name.meaning), rate_text(name, rate), std::string(rate.source())});
  }
  std::string text = "\nRates that the times are made of\n" + table.text();
  if (report.collective) {
    text += fmt::format(
        "  a collective of {} ranks takes {}, and a second for each {:.3g} GB that a rank sends\n",
        report.ranks, seconds_text(report.collective->latency_seconds),
        report.collective->bytes_per_second / 1e9);
  }
  return text;
}

// The chosen one, phase by phase.
std::string phase_table(const PlanReport& report) {
  const Sizes sizes(report);
  std::vector<std::string> head{name_of(report.chosen.variant)};
  for (const StepPhase phase : kStepPhases) head.emplace_back(name_of(phase));
  head.emplace_back("on the host");
  std::vector<Align> columns(head.size(), Align::right);
  columns.front() = Align::left;
  TextTable table(std::move(columns));
  table.add_row(std::move(head));
  table.add_rule();
  const MemoryPlan& memory = report.chosen.memory;
  const MemoryTable& host = memory.at(memory.worst(Tier::host));
  for (const Line line : kLines) {
    std::int64_t most = host.bytes(line, Tier::host);
    std::vector<std::string> row{"  " + std::string(name_of(line))};
    for (const StepPhase phase : kStepPhases) {
      const std::int64_t bytes = memory.at(phase).bytes(line, Tier::device);
      most = std::max(most, bytes);
      row.push_back(sizes.cell(bytes));
    }
    row.push_back(sizes.cell(host.bytes(line, Tier::host)));
    if (most > 0) table.add_row(std::move(row));
  }
  std::vector<std::string> sum{"= in all"};
  for (const StepPhase phase : kStepPhases) {
    sum.push_back(sizes.cell(memory.at(phase).total(Tier::device)));
  }
  sum.push_back(sizes.cell(host.total(Tier::host)));
  table.add_row(std::move(sum));
  return table.text();
}

std::string limits_text(const PlanReport& report) {
  const auto size = [](std::int64_t bytes) { return human_bytes(bytes); };
  const MemoryLimits& limits = report.limits;
  std::string text;
  if (limits.device) {
    text += fmt::format("device: {}{}", report.device_name.empty() ? "" : report.device_name + ", ",
                        size(*limits.device));
  }
  if (limits.host)
    text += fmt::format("{}host: {} for each rank", text.empty() ? "" : "; ", size(*limits.host));
  if (limits.both) {
    text += fmt::format("{}{} for each rank, device and host in one", text.empty() ? "" : "; ",
                        size(*limits.both));
  }
  return text.empty() ? text : text + "\n";
}

std::string tree_text(const PlanReport& report) {
  std::string text = "\nThe tree, walked:\n";
  for (const std::string& words : report.decision->words) text += "  " + words + "\n";
  if (!report.decision->fits) {
    text +=
        "  nothing fits: take more ranks, a smaller micro-batch, or a device with more memory\n";
  }
  if (report.filled) {
    const PlannedVariant& filled = *report.filled;
    text += fmt::format(
        "  with a device_budget of {} the first {} units keep their optimizer states there{}\n",
        human_bytes(filled.memory.engine.total(Tier::device)), filled.units_on_device,
        filled.time ? ": " + seconds_text(filled.time->step) + " a step" : "");
  }
  if (report.fastest) {
    text += fmt::format("  {} fits as well, and its step takes {} instead of {}\n",
                        name_of(report.fastest->variant), seconds_text(report.fastest->time->step),
                        seconds_text(report.chosen.time->step));
  }
  return text;
}

std::string in_words(const Fault& fault) {
  return fmt::format("{}: {}; {}", fault.what, fault.value, fault.remedy);
}

// Variants of which the same is to be said stand in one line.
std::string shortages(const PlanReport& report) {
  std::vector<std::pair<std::string, std::string>> lines;  // what, and of which
  for (const PlannedVariant& planned : report.variants) {
    if (!planned.budget_shortage) continue;
    const std::string words = in_words(*planned.budget_shortage);
    const auto known = std::ranges::find(lines, words, &std::pair<std::string, std::string>::first);
    if (known == lines.end()) {
      lines.emplace_back(words, name_of(planned.variant));
    } else {
      known->second += ", " + name_of(planned.variant);
    }
  }
  std::string out;
  for (const auto& [words, names] : lines)
    out += fmt::format("does not fit: {}: {}\n", names, words);
  return out;
}

// What the tables do not say: where units are cut in two parts, what budgets are too small for, and
// where a limit keeps gathers from going ahead.
std::string notes(const PlanReport& report) {
  std::string out;
  const auto late = std::ranges::find_if(report.variants, &PlannedVariant::gathers_late);
  if (late != report.variants.end()) {
    out += fmt::format(
        "{}: no unit is gathered ahead, since two do not fit into stage3_max_live_parameters, {}; "
        "a larger one lets gathers hide behind computation\n",
        name_of(late->variant), late->options.zero.max_live_numel);
  }
  for (const PlannedVariant& planned : report.variants) {
    const bool host = planned.memory.engine.total(Tier::host) > 0;
    if (host && planned.units_on_device > 0 && planned.options.first_host_unit) {
      out += fmt::format("{}: the first {} units keep their optimizer states on the device\n",
                         name_of(planned.variant), planned.units_on_device);
    }
  }
  out += shortages(report);
  return out.empty() ? out : "\n" + out;
}

std::string header(const PlanReport& report) {
  std::string out = fmt::format("{}\n{} rank{}, {}, {}", report.description, report.ranks,
                                report.ranks == 1 ? "" : "s", report.precision, report.optimizer);
  if (report.counts_activations()) {
    out += fmt::format("; micro-batch {} of {} token{}", report.micro_batch, report.sequence,
                       report.sequence == 1 ? "" : "s");
  }
  out += "\n" + limits_text(report);
  for (const std::string& assumption : report.assumptions) out += "assumed: " + assumption + "\n";
  return out;
}

std::string largest_text(const PlanReport& report) {
  std::string out;
  if (report.largest_micro_batch) {
    out += fmt::format("\nThe largest micro-batch that fits: {}\n", *report.largest_micro_batch);
  }
  if (!report.largest_model.empty()) {
    out += fmt::format("{}The largest model of this kind that fits: {}\n",
                       report.largest_micro_batch ? "" : "\n", report.largest_model);
  }
  return out;
}

}  // namespace

std::string plan_text(const PlanReport& report) {
  const Sizes sizes(report);
  std::string out = header(report);
  out += fmt::format("\nMemory of a rank on the device, at its peak ({}{})\n", sizes.unit(),
                     report.counts_activations() ? "" : "; activations are not counted");
  out += memory_table(report) + notes(report);
  out += "\n" +
         plan_bars(report, static_cast<int>(usable_columns(STDOUT_FILENO).value_or(kUsualColumns)));
  if (report.has_times()) {
    const std::string source = report.rates_source.empty()
                                   ? "assumed of a " + report.rates->device +
                                         "; `zeroshard env --measure` measures this machine"
                                   : report.rates_source;
    out += fmt::format("\nTime of a step (rates {})\n{}", source, time_table(report));
  }
  out += rates_table(report);
  if (report.decision) out += tree_text(report);
  if (report.counts_activations()) {
    out += "\nThe chosen one, by phase (what the engine owns is exact, the rest an estimate)\n" +
           phase_table(report);
  }
  out += largest_text(report);
  const bool chooses = report.decision && !report.config_text.empty();
  if (chooses) out += "\nThe configuration to use:\n" + report.config_text;
  if (!report.decision && report.configured) out += "\n> as the configuration has it\n";
  return out;
}

std::string comparison_text(const std::vector<PlanReport>& reports) {
  std::string out = reports.front().description + "\n\n";
  TextTable table({Align::left, Align::left, Align::right, Align::right, Align::right, Align::right,
                   Align::right, Align::left});
  table.add_row({"configuration", "stage", "device", "host", "sent per step", "step", "left", ""});
  table.add_rule();
  for (const PlanReport& report : reports) {
    const Sizes sizes(report);
    const PlannedVariant& planned = report.chosen;
    const bool fits = planned.fits(report.limits);
    table.add_row(
        {report.title, short_name(planned.variant), sizes.cell(planned.memory.peak(Tier::device)),
         sizes.cell(planned.memory.engine.total(Tier::host)), sizes.cell(planned.sent_bytes),
         planned.time ? seconds_text(planned.time->step) : "-", left_cell(planned, report.limits),
         !report.limits.any() ? ""
         : fits               ? "fits"
                              : "does not fit"});
  }
  return out + table.text();
}

}  // namespace zeroshard::cli
