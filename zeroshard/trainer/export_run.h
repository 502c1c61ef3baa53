// What `zeroshard train` has saved, as a model that transformers can load. Free of torch.
#pragma once

#include <filesystem>

#include "zeroshard/checkpoint/export_model.h"

namespace zeroshard {

struct ExportedRun {
  Exported model;
  // It is one of the built-in models, in a mixture that transformers does not have: names and
  // config.json are ours, and from_pretrained does not load it.
  bool is_ours_alone = false;
};

// As export_model(), with HuggingFace's names and config.json where a built-in model is one of its
// by another name (models/hf_names.h). Other checkpoints have those already.
ExportedRun export_run(const StateFiles& files, const std::filesystem::path& out,
                       ExportOptions options);

}  // namespace zeroshard
