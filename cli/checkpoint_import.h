// `zeroshard checkpoint import`: DeepSpeed's own checkpoints into ours.
#pragma once

#include "cli/app.h"

namespace zeroshard::cli {

// The one verb of `checkpoint` that starts Python: its files are pickles of torch's.
void add_checkpoint_import(CommandLine& line, CLI::App& parent);

}  // namespace zeroshard::cli
