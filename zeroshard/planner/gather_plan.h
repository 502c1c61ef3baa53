// Which units are gathered for each use, how far ahead, and what memory that takes: the layout's
// functions, asked with a model and a configuration.
#pragma once

#include <cstddef>
#include <vector>

#include "zeroshard/engine/options.h"
#include "zeroshard/layout/pool.h"
#include "zeroshard/layout/prefetch.h"
#include "zeroshard/layout/unit_layout.h"

namespace zeroshard {

// Which units the engine never releases, and the pool for the others.
GatherPool gather_pool(const ModelLayout& model, const ZeroOptions& zero);

// A forward or a backward: the visits that need a gather, and for each of them where those end that
// may be gathered by then (layout/prefetch.h).
struct GatherOrder {
  Phase visits = {};
  std::vector<std::size_t> ends = {};

  // Whether anything is gathered before it is needed.
  bool goes_ahead() const;
};

// `phase` as of forward_and_backward(). With `persistent` of the pool.
GatherOrder gather_order(const ModelLayout& model, const ZeroOptions& zero, const GatherPool& pool,
                         const Phase& phase);

}  // namespace zeroshard
