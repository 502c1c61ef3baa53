// An engine's states into a checkpoint and out of any: by name and element range, whatever stage,
// number of ranks, tier and precision has saved them.
//
//   SaveContents contents = contents_of(states);      // and what else is to be said
//   save.run(copy_of(states), staging, comm);
//
//   load_states(StateFiles::open("runs/7"), states, {});
//   core.adopt_masters();                             // parameters follow
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "zeroshard/checkpoint/save_contents.h"
#include "zeroshard/checkpoint/state_files.h"
#include "zeroshard/engine/tensor_state.h"

namespace zeroshard {

// What this rank saves of them.
SaveContents contents_of(const TensorStates& states);
// Of contents that begin with what contents_of() gave. The states must outlive it.
CopyState copy_of(const TensorStates& states);

struct LoadOptions {
  // Moments and counts of updates; else weights only.
  bool optimizer_states = true;
  // What is missing or too much is an error; else it is in the report, and left as it was.
  bool strict = true;
  // Masters take the stored fp32; else what the parameter's own dtype has of it.
  bool fp32_masters = true;
  // Which tensors are wanted, by name; unset: all.
  std::function<bool(const std::string& tensor)> wants = {};
  // kSaveStagingBytes that nobody uses meanwhile, for reading ahead (range_reader.h).
  std::byte* memory = nullptr;
};

struct LoadReport {
  // Tensors, or "exp_avg of h.0.weight".
  std::vector<std::string> missing = {};     // wanted and not stored
  std::vector<std::string> unexpected = {};  // stored and not wanted by anybody
  std::uint64_t bytes_read = 0;
  // Masters held here that were exact ties of two bf16 values and gave their last bit away, as
  // masters in two halves do (docs/kernels.md).
  std::int64_t settled_ties = 0;
};

// What is held of the wanted states takes the stored values. Beside them there is one chunk in
// memory, or what is lent. Another shape, and what is missing or too much where it is strict, is a
// ConfigError on all ranks alike, and nothing is changed; damage is a StorageError of the rank that
// meets it, and states are then partly new. Updates must not be under way. No message.
LoadReport load_states(const StateFiles& files, TensorStates& states, const LoadOptions& options);

}  // namespace zeroshard
