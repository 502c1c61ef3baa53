#include "zeroshard/planner/gather_plan.h"

#include "zeroshard/layout/gather_limits.h"

namespace zeroshard {
namespace {

std::vector<UnitSize> unit_sizes(const ModelLayout& model) {
  std::vector<UnitSize> units;
  for (std::size_t i = 0; i < model.units().size(); ++i) {
    const LayoutTotals& totals = model.units()[i].totals();
    units.push_back({totals.numel, totals.gathered_bytes, model.root_unit() == i});
  }
  return units;
}

}  // namespace

bool GatherOrder::goes_ahead() const {
  for (std::size_t visit = 0; visit < ends.size(); ++visit) {
    if (ends[visit] > visit + 1) return true;
  }
  return false;
}

GatherPool gather_pool(const ModelLayout& model, const ZeroOptions& zero) {
  return size_gather_pool(unit_sizes(model), forward_and_backward(model.units().size()),
                          gather_limits(zero));
}

GatherOrder gather_order(const ModelLayout& model, const ZeroOptions& zero, const GatherPool& pool,
                         const Phase& phase) {
  GatherOrder order{.visits = gathered_visits(phase, pool.persistent)};
  order.ends =
      prefetch_ends(unit_sizes(model), order.visits, gather_limits(zero), pool.persistent_numel);
  return order;
}

}  // namespace zeroshard
