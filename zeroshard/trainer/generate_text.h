// `zeroshard generate`: what a trained model says after a prompt.
#pragma once

#include "zeroshard/trainer/options.h"

namespace zeroshard {

// Reads the folder that `zeroshard train --out` wrote and prints prompt and continuation.
int generate_text(const GenerateOptions& options);

}  // namespace zeroshard
