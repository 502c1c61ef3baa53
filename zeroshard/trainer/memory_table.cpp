#include "zeroshard/trainer/memory_table.h"

#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "zeroshard/base/bytes.h"

namespace zeroshard {
namespace {

std::int64_t planned_in(const Footprint& plan, Category category) {
  return plan.bytes(category, Tier::device) + plan.bytes(category, Tier::host);
}

std::int64_t held_in(const MemoryLedger& ledger, Category category) {
  return ledger.peak(category, Tier::device) + ledger.peak(category, Tier::host);
}

std::string row(std::string_view name, std::int64_t planned, std::int64_t held) {
  return fmt::format("{:<12}{:>14}{:>14}{}\n", name, human_bytes(planned), human_bytes(held),
                     planned == held ? "" : "  differs");
}

}  // namespace

std::string planned_line(const Footprint& plan) {
  std::string line;
  std::int64_t total = 0;
  for (const Category category : kCategories) {
    const std::int64_t bytes = planned_in(plan, category);
    total += bytes;
    if (bytes > 0) line += fmt::format("{} {}, ", name_of(category), human_bytes(bytes));
  }
  return line + "in all " + human_bytes(total);
}

std::string planned_and_measured(const Footprint& plan, const MemoryLedger& ledger) {
  std::string table = fmt::format("{:<12}{:>14}{:>14}\n", "per rank", "planned", "measured");
  std::int64_t planned = 0, held = 0;
  for (const Category category : kCategories) {
    const std::int64_t wanted = planned_in(plan, category), had = held_in(ledger, category);
    planned += wanted;
    held += had;
    table += row(name_of(category), wanted, had);
  }
  return table + row("in all", planned, held);
}

std::int64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("VmHWM:")) continue;
    std::istringstream words(line.substr(6));
    std::int64_t kib = 0;
    words >> kib;
    return kib * 1024;
  }
  return 0;
}

}  // namespace zeroshard
