// From a checkpoint to a model as HuggingFace lays it out: safetensors files of at most so much
// each, their index, and config.json. It streams: beside a chunk of what it reads it holds the same
// again, and kTransposedBytes of a matrix that is turned round.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "zeroshard/base/dtype.h"
#include "zeroshard/checkpoint/state_files.h"

namespace zeroshard {

inline constexpr std::int64_t kTransposedBytes = 16 << 20;
inline constexpr std::uint64_t kMaxShardBytes = 5'000'000'000;  // HuggingFace's default

// A tensor of the exported model: as many rows of a stored one as its shape has, from `first_row`
// on; a transposed one is the stored matrix the other way round.
struct ExportedTensor {
  std::string name;
  std::string from;
  std::vector<std::int64_t> shape;
  std::int64_t first_row = 0;
  bool transposed = false;
};

struct ExportLayout {
  std::vector<ExportedTensor> tensors;
  std::string config;  // the text of config.json
};

struct ExportOptions {
  // Of all parameters and buffers of fp32, bf16 and fp16; unset: each as the model computes with
  // it.
  std::optional<DType> dtype = {};
  std::uint64_t max_shard_bytes = kMaxShardBytes;  // a larger tensor has a file of its own
  std::optional<ExportLayout> layout = {};         // unset: names and shapes as they are stored
};

struct Exported {
  std::vector<std::string> files;  // of tensors
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;
  std::uint64_t overflowed = 0;  // values that are infinite in the dtype asked for, and were not
  bool has_config = false;
};

// `out` appears when it is complete; a folder that another export has made is replaced. Aliases are
// left out, as HuggingFace does with tied weights.
Exported export_model(const StateFiles& files, const std::filesystem::path& out,
                      const ExportOptions& options = {});

}  // namespace zeroshard
