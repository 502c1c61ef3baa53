// What is saved: the whole model by name, and of its states what this rank owns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "zeroshard/checkpoint/manifest.h"
#include "zeroshard/layout/span.h"

namespace zeroshard {

struct TensorToSave {
  std::string name;
  TensorKind kind = TensorKind::trained;
  StoredDType dtype;
  std::vector<std::int64_t> shape = {};
  std::int64_t updates = 0;
  std::map<std::string, double> scalars = {};
};

// Elements of one state of a tensor. Of all ranks together each element is there once.
struct StateToSave {
  std::size_t tensor = 0;  // in SaveContents::tensors
  std::string state;       // see docs/checkpoint_format.md; "value" must be there for each tensor
  StoredDType dtype;
  Span elements;
};

struct BlobToSave {
  std::string name;
  bool of_this_rank = false;  // each rank has its own; else rank 0 gives the only one
  std::string bytes;
};

struct SaveContents {
  std::vector<TensorToSave> tensors;  // on every rank the same
  // This rank's. They are written in this order, those of wider elements first.
  std::vector<StateToSave> states;
  std::vector<BlobToSave> blobs = {};
  // Rank 0's are taken.
  Texts aliases = {};
  RunNumbers run = {};
  Texts documents = {};
  Texts written_by = {};
};

// Copies elements of one of `states` into host memory. Each is asked for once, from the first to
// the last: who is asked for the last knows that the state may change again.
using CopyState = std::function<void(std::size_t state, const Span& elements, std::byte* into)>;

}  // namespace zeroshard
