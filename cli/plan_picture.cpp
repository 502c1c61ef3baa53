// A plan as a picture, and as a page.
#include <algorithm>

#include <fmt/format.h>

#include "cli/plan_report.h"
#include "zeroshard/base/bytes.h"
#include "zeroshard/monitor/page.h"
#include "zeroshard/monitor/svg.h"

namespace zeroshard::cli {
namespace {

constexpr double kGiB = 1 << 30;

Svg picture(const PlanReport& report, const std::string& title) {
  StackedBars bars{.title = title};
  for (const Share share : kShares) bars.names.emplace_back(name_of(share));
  std::int64_t most = 0;
  for (const PlannedVariant& planned : report.variants) {
    const std::int64_t total = shown_total(planned, report.limits);
    most = std::max(most, total);
    StackedBars::Row row{.label = name_of(planned.variant),
                         .total = human_bytes(total),
                         .strong = planned.variant == report.chosen.variant};
    for (const Share share : kShares) {
      row.parts.push_back(static_cast<double>(shown_bytes(share, planned, report.limits)));
    }
    if (report.limits.any()) row.style = planned.fits(report.limits) ? "under" : "over";
    bars.rows.push_back(std::move(row));
  }
  const bool large = most > kGiB;
  bars.unit = large ? kGiB : kMiB;
  bars.unit_name = large ? "GiB" : "MiB";
  if (const auto limit = shown_limit(report.limits)) {
    bars.limit = static_cast<double>(*limit);
    bars.limit_name = fmt::format(
        "{}{}", report.device_name.empty() ? "" : report.device_name + ", ", human_bytes(*limit));
  }
  return stacked_bars(bars);
}

std::string fact(const std::string& value, const std::string& name) {
  return fmt::format("<div><b>{}</b><span>{}</span></div>", escaped(value), escaped(name));
}

std::string facts(const PlanReport& report) {
  std::string out = "<div class=\"facts\">";
  out += fact(human_count(report.parameters), "parameters");
  out += fact(fmt::format("{}", report.ranks), report.ranks == 1 ? "rank" : "ranks");
  out += fact(report.precision, report.optimizer);
  if (report.counts_activations()) {
    out += fact(fmt::format("{} x {}", report.micro_batch, report.sequence),
                "samples and tokens of a micro-batch");
  }
  if (report.limits.device) {
    out += fact(human_bytes(*report.limits.device),
                report.device_name.empty() ? "device" : report.device_name);
  }
  if (report.limits.host) out += fact(human_bytes(*report.limits.host), "host, for each rank");
  if (report.limits.both) out += fact(human_bytes(*report.limits.both), "for each rank");
  return out + "</div>\n";
}

std::string cell(std::int64_t bytes) { return bytes == 0 ? "-" : human_bytes(bytes); }

std::string variants_table(const PlanReport& report) {
  PageTable content{.rows = {{"", "device", "host", "sent per step", "step", "waits for", "left"}}};
  for (const PlannedVariant& planned : report.variants) {
    content.rows.push_back(
        {name_of(planned.variant), cell(planned.memory.peak(Tier::device)),
         cell(planned.memory.engine.total(Tier::host)), cell(planned.sent_bytes),
         planned.time ? fmt::format("{:.3g} s", planned.time->step) : "-",
         planned.time ? std::string(name_of(planned.time->bottleneck(planned.options.micro_steps)))
                      : "-",
         left_cell(planned, report.limits)});
    if (planned.variant == report.chosen.variant) content.marked.push_back(content.rows.size() - 1);
  }
  return table(content);
}

std::string rates_section(const PlanReport& report) {
  PageTable content{.rows = {{"", "rate", "source"}}};
  for (const NamedRate& name : used_rates(report)) {
    const Rate& rate = (*report.rates).*name.member;
    content.rows.push_back(
        {std::string(name.meaning), rate_text(name, rate), std::string(rate.source())});
  }
  return content.rows.size() > 1 ? "<h2>Rates that the times are made of</h2>" + table(content)
                                 : "";
}

std::string phases_table(const PlanReport& report) {
  PageTable content{.rows = {{name_of(report.chosen.variant)}}};
  for (const StepPhase phase : kStepPhases) content.rows.front().emplace_back(name_of(phase));
  content.rows.front().emplace_back("on the host");
  const MemoryPlan& memory = report.chosen.memory;
  const MemoryTable& host = memory.at(memory.worst(Tier::host));
  for (const Line line : kLines) {
    std::int64_t most = host.bytes(line, Tier::host);
    std::vector<std::string> row{std::string(name_of(line))};
    for (const StepPhase phase : kStepPhases) {
      const std::int64_t bytes = memory.at(phase).bytes(line, Tier::device);
      most = std::max(most, bytes);
      row.push_back(cell(bytes));
    }
    row.push_back(cell(host.bytes(line, Tier::host)));
    if (most > 0) content.rows.push_back(std::move(row));
  }
  std::vector<std::string> sum{"in all"};
  for (const StepPhase phase : kStepPhases) {
    sum.push_back(cell(memory.at(phase).total(Tier::device)));
  }
  sum.push_back(cell(host.total(Tier::host)));
  content.rows.push_back(std::move(sum));
  content.marked = {content.rows.size() - 1};
  return table(content);
}

std::string list(const std::vector<std::string>& lines) {
  std::string out = "<ul>";
  for (const std::string& line : lines) out += "<li>" + escaped(line) + "</li>";
  return out + "</ul>\n";
}

}  // namespace

std::string plan_svg(const PlanReport& report) {
  return picture(report, report.description.substr(0, report.description.find(':')) +
                             fmt::format(" on {} rank{}: memory of a rank at its peak",
                                         report.ranks, report.ranks == 1 ? "" : "s"))
      .file();
}

std::string plan_html(const PlanReport& report) {
  std::string body =
      "<h1>Memory of a rank</h1><p>" + escaped(report.description) + "</p>\n" + facts(report);
  body += "<div class=\"scroll\">" + picture(report, "").text() + "</div>\n";
  if (report.decision) body += "<h2>The tree, walked</h2>" + list(report.decision->words);
  body += "<h2>Stages, with and without offload</h2>" + variants_table(report);
  body += "<h2>By phase</h2>" + phases_table(report);
  if (report.largest_micro_batch || !report.largest_model.empty()) {
    std::vector<std::string> lines;
    if (report.largest_micro_batch) {
      lines.push_back(fmt::format("micro-batch: {}", *report.largest_micro_batch));
    }
    if (!report.largest_model.empty()) lines.push_back("model: " + report.largest_model);
    body += "<h2>The largest that fits</h2>" + list(lines);
  }
  body += rates_section(report);
  if (!report.config_text.empty()) {
    body += "<h2>The configuration to use</h2><pre>" + escaped(report.config_text) + "</pre>\n";
  }
  if (!report.assumptions.empty()) body += "<h2>Assumed</h2>" + list(report.assumptions);
  return page("Memory of a rank", body);
}

}  // namespace zeroshard::cli
