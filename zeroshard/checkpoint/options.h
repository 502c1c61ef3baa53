// How checkpoints are written and read.
#pragma once

namespace zeroshard {

// What to do when ranks name different tags.
enum class TagValidation { warn, ignore, fail };

struct CheckpointOptions {
  TagValidation tag_validation = TagValidation::warn;
  bool load_universal =
      false;  // of DeepSpeed's own checkpoints the one that `latest_universal` names
  bool load_from_fp32_weights = true;  // masters from the stored fp32, not from the 16-bit copy
};

}  // namespace zeroshard
