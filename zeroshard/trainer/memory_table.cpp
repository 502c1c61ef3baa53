#include "zeroshard/trainer/memory_table.h"

#include <fmt/format.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/planner/memory_fit.h"

namespace zeroshard {
namespace {

std::string row(std::string_view name, std::int64_t planned, std::int64_t held) {
  return fmt::format("{:<12}{:>14}{:>14}{}\n", name, human_bytes(planned), human_bytes(held),
                     planned == held ? "" : "  differs");
}

// A tier's categories, and their sum.
std::string tier_table(const char* head, Tier tier, const Footprint& plan,
                       const MemoryLedger& ledger) {
  std::string table = fmt::format("{:<12}{:>14}{:>14}\n", head, "planned", "measured");
  std::int64_t held = 0;
  for (const Category category : kCategories) {
    const std::int64_t had = ledger.peak(category, tier);
    held += had;
    table += row(name_of(category), plan.bytes(category, tier), had);
  }
  return table + row("in all", plan.total(tier), held);
}

}  // namespace

std::string planned_line(const Footprint& plan) {
  const std::string device = in_one_line(plan, Tier::device);
  if (plan.total(Tier::host) == 0) return device;
  return fmt::format("{}; on the host: {}", device, in_one_line(plan, Tier::host));
}

std::string planned_and_measured(const Footprint& plan, const MemoryLedger& ledger) {
  std::string table = tier_table("per rank", Tier::device, plan, ledger);
  if (plan.total(Tier::host) > 0 || ledger.peak_total(Tier::host) > 0) {
    table += tier_table("on the host", Tier::host, plan, ledger);
  }
  return table;
}

}  // namespace zeroshard
