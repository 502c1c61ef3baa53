// States that training changes as soon as it may, with values that are known at every step.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/checkpoint/saved_model.h"
#include "zeroshard/engine/tensor_state.h"

namespace zeroshard {

// A model whose every tensor is a trained unit of its own.
class TrainingStates final : public TensorStates {
 public:
  TrainingStates(SavedModel model, int rank, int world_size) : model_(std::move(model)) {
    std::vector<std::int64_t> numels;
    for (const TensorToSave& tensor : model_.tensors) numels.push_back(numel_of(tensor));
    const FlatLayout layout(numels, world_size);
    for (std::size_t i = 0; i < numels.size(); ++i) {
      const TensorToSave& tensor = model_.tensors[i];
      tensors_.push_back({.name = tensor.name,
                          .shape = tensor.shape,
                          .dtype = DType::bf16,
                          .states = states_of(TensorKind::trained)});
      HeldState state{.tensor = i, .elements = layout.piece(i, rank).within_parameter, .unit = i};
      if (state.elements.empty() && (rank != 0 || numels[i] != 0)) continue;
      for (const std::string& name : tensors_.back().states) {
        state.state = name;
        owned_.push_back(state);
      }
    }
    seeds_.assign(numels.size(), model_.seed);
  }

  // The update of all units, each as soon as nobody reads it any more.
  void train(std::uint64_t seed) {
    std::unique_lock lock(mutex_);
    for (std::size_t unit = 0; unit < seeds_.size(); ++unit) {
      changed_.wait(lock, [&] { return !closed_.contains(unit); });
      seeds_[unit] = seed;
    }
  }

  const std::vector<TensorRecord>& tensors() const override { return tensors_; }
  const std::vector<HeldState>& owned() const override { return owned_; }
  const std::vector<HeldState>& held() const override { return owned_; }
  void read(const HeldState& state, const Span& elements, void* into) const override {
    SavedModel now{.tensors = {}, .seed = 0};
    {
      const std::lock_guard lock(mutex_);
      now.seed = seeds_[state.unit];
    }
    now.copy(tensors_[state.tensor].name, state.state, elements, 4, static_cast<std::byte*>(into));
  }
  std::int64_t write(const HeldState&, const Span&, const void*, DType) override { return 0; }
  void set_updates(std::size_t, std::int64_t) override {}

  void begin_reading(const std::set<std::size_t>& units) override {
    const std::lock_guard lock(mutex_);
    closed_ = units;
  }
  void begin_reading_frozen() override {}
  void end_reading(std::size_t unit) override {
    {
      const std::lock_guard lock(mutex_);
      closed_.erase(unit);
    }
    changed_.notify_all();
  }
  void end_reading() noexcept override {
    {
      const std::lock_guard lock(mutex_);
      closed_.clear();
    }
    changed_.notify_all();
  }
  std::chrono::nanoseconds waited() const override { return {}; }

 private:
  const SavedModel model_;
  std::vector<TensorRecord> tensors_;
  std::vector<HeldState> owned_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::size_t> closed_;
  std::vector<std::uint64_t> seeds_;  // of each unit's values
};

}  // namespace zeroshard
