#include "zeroshard/base/held_instructions.h"

#include "zeroshard/base/env.h"

namespace zeroshard {

bool held_below_avx512() {
  const auto held_to = env_text(EnvVar::kTorchCpu);
  return held_to == "default" || held_to == "avx2";
}

}  // namespace zeroshard
