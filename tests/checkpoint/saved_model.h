// A model of random shapes whose every byte is known, cut over any number of ranks.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tests/checkpoint/checkpoint_support.h"
#include "zeroshard/base/mix64.h"
#include "zeroshard/checkpoint/checkpoint_save.h"
#include "zeroshard/checkpoint/state_files.h"
#include "zeroshard/comm/communicator.h"
#include "zeroshard/layout/flat_layout.h"

namespace zeroshard {

inline StoredDType stored_as(std::string_view name) { return StoredDType::of(name).value(); }

struct SavedModel {
  std::vector<TensorToSave> tensors;
  std::uint64_t seed = 1;

  static SavedModel random(std::uint64_t seed, int tensors, std::int64_t largest);

  // Of every state: a function of the names and the place alone.
  void copy(const std::string& tensor, const std::string& state, const Span& elements,
            std::uint64_t width, std::byte* into) const;
  std::string bytes(const std::string& tensor, const std::string& state, const Span& elements,
                    std::uint64_t width) const;

  SaveContents contents(int rank, int world_size) const;
  CopyState source(const SaveContents& contents) const;
};

inline std::vector<std::string> states_of(TensorKind kind) {
  if (kind != TensorKind::trained) return {"value"};
  return {"value", "exp_avg", "exp_avg_sq"};
}

inline std::int64_t numel_of(const TensorToSave& tensor) {
  std::int64_t numel = 1;
  for (const std::int64_t extent : tensor.shape) numel *= extent;
  return numel;
}

inline SavedModel SavedModel::random(std::uint64_t seed, int tensors, std::int64_t largest) {
  std::mt19937_64 random(seed);
  SavedModel model{.seed = seed};
  const std::vector<std::string_view> frozen{"BF16", "F32", "F16", "I64", "BOOL"};
  for (int i = 0; i < tensors; ++i) {
    TensorToSave tensor{.name = "layers." + std::to_string(i) + ".weight"};
    tensor.kind = static_cast<TensorKind>(random() % 5 < 3 ? 0 : 1 + random() % 2);
    tensor.dtype =
        stored_as(tensor.kind == TensorKind::trained ? "BF16" : frozen[random() % frozen.size()]);
    for (std::uint64_t dims = random() % 4; dims > 0; --dims) {
      tensor.shape.push_back(static_cast<std::int64_t>(random() % 9));
    }
    if (random() % 3 == 0) {
      tensor.shape = {static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(largest))};
    }
    if (tensor.kind == TensorKind::trained)
      tensor.updates = static_cast<std::int64_t>(random() % 99);
    model.tensors.push_back(tensor);
  }
  return model;
}

inline void SavedModel::copy(const std::string& tensor, const std::string& state,
                             const Span& elements, std::uint64_t width, std::byte* into) const {
  std::uint64_t key = seed;
  for (const char c : tensor + "/" + state) key = mix64(key ^ static_cast<unsigned char>(c));
  const auto begin = static_cast<std::uint64_t>(elements.begin()) * width;
  const auto end = static_cast<std::uint64_t>(elements.end()) * width;
  for (std::uint64_t at = begin; at < end; ++at) {
    *into++ = static_cast<std::byte>(mix64(key + at / 8) >> (at % 8 * 8) & 0xFFU);
  }
}

inline std::string SavedModel::bytes(const std::string& tensor, const std::string& state,
                                     const Span& elements, std::uint64_t width) const {
  std::string bytes(static_cast<std::size_t>(elements.size()) * width, '\0');
  copy(tensor, state, elements, width, reinterpret_cast<std::byte*>(bytes.data()));
  return bytes;
}

// Parameters are cut as the engine cuts them, buffers are rank 0's.
inline SaveContents SavedModel::contents(int rank, int world_size) const {
  SaveContents contents{.tensors = tensors};
  std::vector<std::int64_t> numels;
  for (const TensorToSave& tensor : tensors) numels.push_back(numel_of(tensor));
  const FlatLayout layout(numels, world_size);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorToSave& tensor = tensors[i];
    const bool is_cut = tensor.kind != TensorKind::buffer;
    const Span own = is_cut      ? layout.piece(i, rank).within_parameter
                     : rank == 0 ? Span(0, numels[i])
                                 : Span();
    for (const std::string& state : states_of(tensor.kind)) {
      const StoredDType dtype =
          tensor.kind == TensorKind::trained ? stored_as("F32") : tensor.dtype;
      if (own.empty() && (rank != 0 || numels[i] != 0)) continue;
      contents.states.push_back({.tensor = i, .state = state, .dtype = dtype, .elements = own});
    }
  }
  contents.blobs.push_back({"rng.cpu", true, "random state of rank " + std::to_string(rank)});
  if (rank == 0) {
    contents.blobs.push_back({"client_state.json", false, "{\"epoch\": 3}"});
    contents.run.set("step", std::int64_t{200});
    contents.run.set("data_seed", ~std::uint64_t{0});
    contents.run.set("loss_scale", 65536.0);
    contents.documents["config.json"] = "{\"model_type\": \"none\"}\n";
    contents.written_by["zeroshard"] = "test";
    contents.aliases["tied.weight"] = tensors.front().name;
  }
  return contents;
}

inline CopyState SavedModel::source(const SaveContents& contents) const {
  return [this, &contents](std::size_t number, const Span& elements, std::byte* into) {
    const StateToSave& state = contents.states[number];
    copy(tensors[state.tensor].name, state.state, elements, state.dtype.bytes(), into);
  };
}

inline void save(SaveFolder& folder, const SaveRequest& request, const SavedModel& model,
                 Communicator& comm) {
  const SaveContents contents = model.contents(comm.rank(), comm.world_size());
  CheckpointSave save(folder, request, contents, comm);
  save.run(model.source(contents), SaveStaging(), comm);
}

// Reads all states in full and compares every byte; the first difference, or "".
inline std::string difference(const StateFiles& files, const SavedModel& model) {
  for (const TensorToSave& tensor : model.tensors) {
    const StoredTensor* stored = files.find(tensor.name);
    if (stored == nullptr || stored->shape != tensor.shape) return tensor.name;
    for (const std::string& state : states_of(tensor.kind)) {
      const StoredState& of = stored->states.at(state);
      const Span all(0, numel_of(tensor));
      std::string bytes(static_cast<std::size_t>(all.size()) * of.element_bytes(), '\0');
      RangeReader reader = files.reader();
      reader.read({{&of, all}}, [&](std::size_t, const Span& elements, auto part) {
        std::memcpy(bytes.data() + static_cast<std::size_t>(elements.begin()) * of.element_bytes(),
                    part.data(), part.size());
      });
      if (bytes != model.bytes(tensor.name, state, all, of.element_bytes())) {
        return state + " of " + tensor.name;
      }
    }
  }
  return "";
}

}  // namespace zeroshard
