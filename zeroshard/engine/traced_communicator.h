// Each operation as a span of a trace's communication lane: from its call until it is complete,
// whoever waits for it.
#pragma once

#include <memory>

#include "zeroshard/comm/communicator.h"
#include "zeroshard/monitor/trace.h"

namespace zeroshard {

// Passes everything on to `comm`; siblings are traced as well. Without a trace it is `comm` itself.
// The trace outlives what is returned; operations that end later are not in it.
std::unique_ptr<Communicator> trace_operations(std::unique_ptr<Communicator> comm, Trace* trace);

}  // namespace zeroshard
