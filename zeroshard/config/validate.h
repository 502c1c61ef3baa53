// Checks that concern more than one key, and the options that follow from others.
#pragma once

#include <optional>

#include "zeroshard/config/config.h"
#include "zeroshard/config/problem.h"
#include "zeroshard/config/provenance.h"

namespace zeroshard::config {

// Reports contradictions between keys of the file and what has no effect in this combination.
void validate(const Config& config, const Provenance& provenance, std::optional<int> world_size,
              Report& report);

// Turns what the file says into what will be done: disk offload becomes host offload, torch_adam
// brings torch's own default decay.
void settle(Config& config, const Provenance& provenance);

}  // namespace zeroshard::config
