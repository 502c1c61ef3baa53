#include "zeroshard/planner/choose_precision.h"

namespace zeroshard {

std::optional<std::string> choose_precision(PrecisionOptions& precision,
                                            const config::Provenance& provenance,
                                            bool has_accelerator) {
  const auto says = [&](const char* key) { return config::says(provenance, key); };
  if (says("bf16.enabled") || says("fp16.enabled")) return std::nullopt;
  precision.bf16.enabled = has_accelerator;
  precision.fp16.enabled = false;
  return has_accelerator ? "no precision: bf16 with fp32 master, on a GPU"
                         : "no precision: fp32, on a CPU";
}

}  // namespace zeroshard
