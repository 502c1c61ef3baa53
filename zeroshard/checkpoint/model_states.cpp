#include "zeroshard/checkpoint/model_states.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zeroshard/base/error.h"
#include "zeroshard/checkpoint/float_values.h"
#include "zeroshard/checkpoint/json_events.h"

namespace zeroshard {
namespace {

std::string of(std::string_view state, const std::string& tensor) {
  return fmt::format("{} of {}", state, tensor);
}

// The first few, and how many there are.
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 3;
  const std::vector<std::string> first(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, names.size())));
  return fmt::format(
      "{}{}", fmt::join(first, ", "),
      names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : "");
}

class Loader {
 public:
  Loader(const StateFiles& files, TensorStates& states, const LoadOptions& options)
      : files_(files), states_(states), options_(options) {}

  LoadReport run() {
    for (std::size_t i = 0; i < states_.tensors().size(); ++i) find_tensor(i);
    find_states();
    find_unexpected();
    if (options_.strict) refuse_differences();
    RangeReader reader =
        files_.reader({.memory = options_.memory, .past_cache = holds_what_it_owns()});
    reader.check_files();
    reader.read(requests_, [&](std::size_t request, const Span& elements, auto bytes) {
      write(*wanted_[request], *requests_[request].state->dtype.dtype(), elements, bytes);
    });
    if (options_.optimizer_states) set_updates();
    report_.bytes_read = reader.bytes_read();
    return std::move(report_);
  }

 private:
  // Then no other rank reads the same.
  bool holds_what_it_owns() const {
    const auto numel = [](const std::vector<HeldState>& states) {
      std::int64_t sum = 0;
      for (const HeldState& state : states) sum += state.elements.size();
      return sum;
    };
    return numel(states_.held()) == numel(states_.owned());
  }

  bool wants(const std::string& tensor) const { return !options_.wants || options_.wants(tensor); }

  void find_tensor(std::size_t index) {
    const TensorRecord& tensor = states_.tensors()[index];
    const StoredTensor* const stored = wants(tensor.name) ? files_.find(tensor.name) : nullptr;
    stored_.push_back(stored);
    if (stored == nullptr) {
      if (wants(tensor.name)) report_.missing.push_back(tensor.name);
      return;
    }
    found_.insert(stored->name);
    if (stored->shape == tensor.shape) return;
    throw ConfigError({.what = fmt::format(
                           "this is a checkpoint of another model: {} is [{}] there and [{}] here",
                           json_quoted_short(tensor.name), fmt::join(stored->shape, ", "),
                           fmt::join(tensor.shape, ", ")),
                       .value = files_.folder().string(),
                       .remedy = "give the model that it was saved from"});
  }

  // The same on every rank, whatever it holds.
  void find_states() {
    for (std::size_t i = 0; i < stored_.size(); ++i) {
      const TensorRecord& tensor = states_.tensors()[i];
      if (stored_[i] == nullptr) continue;
      for (const std::string& state : tensor.states) {
        if (is_wanted(state)) check_state(*stored_[i], state);
      }
      if (!options_.optimizer_states || !tensor.trained) continue;
      for (const auto& [name, state] : stored_[i]->states) {
        if (std::ranges::count(tensor.states, name) > 0) continue;
        report_.unexpected.push_back(of(name, tensor.name));
      }
    }
    for (const HeldState& held : states_.held()) {
      const StoredTensor* const stored = stored_[held.tensor];
      if (stored == nullptr || !is_wanted(held.state)) continue;
      const auto found = stored->states.find(held.state);
      if (found == stored->states.end()) continue;
      requests_.push_back({&found->second, held.elements});
      wanted_.push_back(&held);
    }
  }

  bool is_wanted(std::string_view state) const {
    return options_.optimizer_states || state == kValueState;
  }

  void check_state(const StoredTensor& stored, const std::string& state) {
    const auto found = stored.states.find(state);
    if (found == stored.states.end()) return report_.missing.push_back(of(state, stored.name));
    if (is_float(found->second.dtype.dtype())) return;
    throw ConfigError(
        {.what = fmt::format("the checkpoint's {} is no floating point", of(state, stored.name)),
         .value = std::string(found->second.dtype.name()),
         .remedy = "give the model that it was saved from"});
  }

  // What a filter leaves out is nobody's.
  void find_unexpected() {
    for (const StoredTensor& tensor : files_.manifest().tensors) {
      if (wants(tensor.name) && !found_.contains(tensor.name)) {
        report_.unexpected.push_back(tensor.name);
      }
    }
  }

  void refuse_differences() const {
    if (report_.missing.empty() && report_.unexpected.empty()) return;
    std::vector<std::string> words;
    if (!report_.missing.empty()) words.push_back("it lacks " + some_of(report_.missing));
    if (!report_.unexpected.empty()) {
      words.push_back("the model has no " + some_of(report_.unexpected));
    }
    throw ConfigError(
        {.what = fmt::format("the checkpoint and the model differ: {}", fmt::join(words, "; ")),
         .value = files_.folder().string(),
         .remedy = "give the model and the optimizer that it was saved from, or load "
                   "what fits"});
  }

  void write(const HeldState& held, DType stored, const Span& elements,
             std::span<const std::byte> bytes) {
    const TensorRecord& tensor = states_.tensors()[held.tensor];
    const bool rounds = !options_.fp32_masters && held.moment < 0 && tensor.trained;
    if (!rounds || stored == tensor.dtype) {
      report_.settled_ties += states_.write(held, elements, bytes.data(), stored);
      return;
    }
    const auto width = static_cast<std::size_t>(bytes_of(stored));
    const auto rounded_width = static_cast<std::size_t>(bytes_of(tensor.dtype));
    const auto count = static_cast<std::size_t>(elements.size());
    rounded_.resize(count * rounded_width);
    for (std::size_t i = 0; i < count; ++i) {
      put_float(rounded_.data() + i * rounded_width, tensor.dtype,
                float_at(bytes.data() + i * width, stored));
    }
    report_.settled_ties += states_.write(held, elements, rounded_.data(), tensor.dtype);
  }

  void set_updates() {
    for (std::size_t i = 0; i < stored_.size(); ++i) {
      if (stored_[i] != nullptr) states_.set_updates(i, stored_[i]->updates);
    }
  }

  const StateFiles& files_;
  TensorStates& states_;
  const LoadOptions& options_;
  std::vector<const StoredTensor*> stored_;  // by tensor; null where there is none
  std::set<std::string, std::less<>> found_;
  std::vector<RangeRequest> requests_;
  std::vector<const HeldState*> wanted_;  // by request
  std::vector<std::byte> rounded_;
  LoadReport report_;
};

}  // namespace

SaveContents contents_of(const TensorStates& states) {
  SaveContents contents;
  for (const TensorRecord& tensor : states.tensors()) {
    contents.tensors.push_back({.name = tensor.name,
                                .kind = tensor.trained ? TensorKind::trained : TensorKind::frozen,
                                .dtype = tensor.dtype,
                                .shape = tensor.shape,
                                .updates = tensor.updates});
  }
  for (const HeldState& state : states.owned()) {
    contents.states.push_back({.tensor = state.tensor,
                               .state = state.state,
                               .dtype = state.dtype,
                               .elements = state.elements});
  }
  return contents;
}

CopyState copy_of(const TensorStates& states) {
  return [&states](std::size_t number, const Span& elements, std::byte* into) {
    states.read(states.owned()[number], elements, into);
  };
}

LoadReport load_states(const StateFiles& files, TensorStates& states, const LoadOptions& options) {
  return Loader(files, states, options).run();
}

}  // namespace zeroshard
