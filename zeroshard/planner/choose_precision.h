// The precision of a run whose configuration does not say it.
#pragma once

#include <optional>
#include <string>

#include "zeroshard/config/config.h"
#include "zeroshard/config/provenance.h"

namespace zeroshard {

// bf16 on an accelerator, fp32 on CPUs. Says what it chose; nothing where the file says it.
std::optional<std::string> choose_precision(PrecisionOptions& precision,
                                            const config::Provenance& provenance,
                                            bool has_accelerator);

}  // namespace zeroshard
