#include "zeroshard/trainer/weight_files.h"

#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/base/error.h"
#include "zeroshard/checkpoint/float_values.h"
#include "zeroshard/checkpoint/free_space.h"
#include "zeroshard/models/shapes.h"

namespace zeroshard {
namespace {

constexpr const char* kTakeItsOwn = "leave out --model to take the folder's own";

void check_tensor(const StateFiles& files, const ParameterShape& wanted) {
  const StoredTensor* const stored = files.find(wanted.name);
  if (stored == nullptr) {
    throw ConfigError(
        {.what = fmt::format("the weights lack a tensor of the model, {}", wanted.name),
         .value = files.folder().string(),
         .remedy = "check that the folder belongs to the model"});
  }
  const StoredDType dtype = stored->states.find(kValueState)->second.dtype;
  if (!is_float(dtype.dtype())) {
    throw ConfigError({.what = "weights are not floating point",
                       .value = fmt::format("{} is {}", stored->name, dtype.name())});
  }
  if (stored->shape == wanted.dims) return;
  throw ConfigError(
      {.what = "the weights are of another model",
       .value = fmt::format("{} is [{}], the model wants [{}]", wanted.name,
                            fmt::join(stored->shape, ", "), fmt::join(wanted.dims, ", ")),
       .remedy = kTakeItsOwn});
}

// A model without them would train on from something else than what was saved.
void refuse_extra(const StateFiles& files, const std::set<std::string>& wanted) {
  std::vector<std::string> extra = files.unreadable();
  for (const StoredTensor& tensor : files.manifest().tensors) {
    if (!wanted.contains(tensor.name)) extra.push_back(tensor.name);
  }
  if (extra.empty()) return;
  throw ConfigError(
      {.what = fmt::format("the weights are of another model, with {} tensor{} more", extra.size(),
                           extra.size() == 1 ? "" : "s"),
       .value = fmt::format("{}{} in {}", extra.front(), extra.size() == 1 ? "" : ", ...",
                            files.folder().string()),
       .remedy = kTakeItsOwn});
}

std::filesystem::path parent_of(const std::string& out) {
  return (std::filesystem::absolute(out) / "").lexically_normal().parent_path().parent_path();
}

// `what` is the option, and what it takes.
void refuse_where_full(const std::filesystem::path& folder, std::int64_t needed,
                       std::string_view what) {
  const auto free = free_bytes(folder);
  if (!free || static_cast<std::uint64_t>(needed) <= *free) return;
  throw StorageError({.what = fmt::format("there is no room for {} take{} {}, and {} are free",
                                          what, what.ends_with('s') ? "" : "s", human_bytes(needed),
                                          human_bytes(static_cast<std::int64_t>(*free))),
                      .value = folder.string(),
                      .remedy = "free some space, or choose another place"});
}

}  // namespace

void check_weights(const StateFiles& files, const ModelOptions& model) {
  std::set<std::string> wanted;
  for (const UnitShapes& unit : unit_shapes(model)) {
    for (const ParameterShape& parameter : unit.parameters) {
      check_tensor(files, parameter);
      wanted.insert(parameter.name);
    }
  }
  refuse_extra(files, wanted);
}

void check_room(const std::string& out, const ModelOptions& model, DType dtype) {
  refuse_where_full(parent_of(out), parameter_count(model) * bytes_of(dtype), "--out: the weights");
}

void check_room_for_checkpoint(const std::string& save, const ModelOptions& model, int moments) {
  std::error_code ignored;
  std::filesystem::path folder = std::filesystem::absolute(save).lexically_normal();
  while (!std::filesystem::exists(folder, ignored) && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  const std::int64_t bytes = parameter_count(model) * bytes_of(DType::fp32) * (1 + moments);
  refuse_where_full(folder, bytes, "--save: a checkpoint");
}

}  // namespace zeroshard
