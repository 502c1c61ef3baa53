// From which checkpoint a run goes on, and whether it may save where it is to: asked by `zeroshard`
// before a rank is started, and by the ranks, with the same sentences. Free of torch.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "zeroshard/checkpoint/state_files.h"
#include "zeroshard/models/options.h"
#include "zeroshard/trainer/options.h"

namespace zeroshard {

struct ResumedCheckpoint {
  std::filesystem::path folder;
  std::string instead = {};  // why it is not what `latest` names; empty where it is
};

inline constexpr const char* kResumeAuto = "auto";

// Nothing where the run begins at the beginning. What is named and not there is an error, as
// find_checkpoint() says. `auto` takes what `latest` names; where that cannot be opened, or nothing
// is named, the newest that can.
std::optional<ResumedCheckpoint> checkpoint_to_resume(const TrainOptions& options);

// The newest of the same folder that was saved before this one and can be opened; empty: none.
std::filesystem::path older_checkpoint(const std::filesystem::path& folder);

// The configuration of the model in a folder: of a checkpoint, of a folder of them, or of what
// `train --out` has written.
ModelOptions model_in(const std::string& folder);

// Throws ConfigError where `save` has checkpoints of another run than the one that is resumed: this
// run's would replace them one by one.
void refuse_others_checkpoints(const TrainOptions& options);

}  // namespace zeroshard
