// Bars for a terminal: one for each variant, a letter for each part.
#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "cli/plan_report.h"
#include "zeroshard/base/bytes.h"

namespace zeroshard::cli {
namespace {

constexpr char letter_of(Share share) {
  switch (share) {
    case Share::parameters: return 'p';
    case Share::gradients: return 'g';
    case Share::states: return 'o';
    case Share::buffers: return 'b';
    case Share::activations: return 'a';
    case Share::working: return 'w';
    case Share::libraries: return 'l';
  }
  return '?';
}

// Ends of parts are rounded, not parts, so that the bar is as long as its sum.
std::string bar(const PlannedVariant& planned, const MemoryLimits& limits,
                double bytes_per_letter) {
  std::string text;
  double end = 0;
  for (const Share share : kShares) {
    end += static_cast<double>(shown_bytes(share, planned, limits));
    const auto letters = static_cast<std::size_t>(end / bytes_per_letter + 0.5);
    text.append(letters - std::min(letters, text.size()), letter_of(share));
  }
  return text;
}

}  // namespace

std::string plan_bars(const PlanReport& report, int columns) {
  const auto limit = shown_limit(report.limits);
  std::int64_t most = limit.value_or(0);
  std::size_t label = 0;
  for (const PlannedVariant& planned : report.variants) {
    most = std::max(most, shown_total(planned, report.limits));
    label = std::max(label, name_of(planned.variant).size());
  }
  // What is far beyond the memory is cut off.
  if (limit) most = std::min(most, 2 * *limit);
  const int width = std::max(20, columns - static_cast<int>(label) - 14);
  const double each = std::max(1.0, static_cast<double>(most) / width);
  const auto mark = limit ? static_cast<std::size_t>(static_cast<double>(*limit) / each) : 0;
  std::string out;
  for (const PlannedVariant& planned : report.variants) {
    std::string text = bar(planned, report.limits, each);
    const auto most_letters = static_cast<std::size_t>(width);
    if (text.size() > most_letters) text = text.substr(0, most_letters - 1) + ">";
    if (limit) {
      text.resize(std::max(text.size(), mark), ' ');
      text.insert(std::min(mark, text.size()), "|");
    }
    out += fmt::format("  {:<{}}  {} {}\n", name_of(planned.variant), label, text,
                       human_bytes(shown_total(planned, report.limits)));
  }
  out += "  p parameters, g gradients, o master and moments, b buffers";
  if (report.counts_activations()) {
    out += ", a activations and logits, w working memory, l libraries";
  }
  if (!limit) return out + "\n";
  return out + (report.limits.both ? ", | where the memory ends (device and host)\n"
                                   : ", | where the device ends\n");
}

}  // namespace zeroshard::cli
