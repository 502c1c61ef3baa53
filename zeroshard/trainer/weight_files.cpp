#include "zeroshard/trainer/weight_files.h"

#include <filesystem>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/base/error.h"
#include "zeroshard/checkpoint/free_space.h"
#include "zeroshard/models/shapes.h"

namespace zeroshard {
namespace {

constexpr const char* kTakeItsOwn = "leave out --model to take the folder's own";

void refuse_integers(const TensorEntry& entry) {
  if (entry.dtype == DType::fp32 || entry.dtype == DType::bf16 || entry.dtype == DType::fp16) {
    return;
  }
  throw ConfigError({.what = "weights are not floating point",
                     .value = fmt::format("{} is {}", entry.name, name_of(*entry.dtype.dtype()))});
}

void check_entry(const ModelFolder& folder, const ParameterShape& wanted) {
  const TensorEntry& stored = folder.entry(wanted.name);
  refuse_integers(stored);
  if (stored.shape == wanted.dims) return;
  throw ConfigError(
      {.what = "the weights are of another model",
       .value = fmt::format("{} is [{}], the model wants [{}]", wanted.name,
                            fmt::join(stored.shape, ", "), fmt::join(wanted.dims, ", ")),
       .remedy = kTakeItsOwn});
}

// A model without them would train on from something else than what was saved.
void refuse_extra(const ModelFolder& folder, const std::set<std::string>& wanted) {
  std::vector<std::string> extra;
  for (const std::string& name : folder.names()) {
    if (!wanted.contains(name)) extra.push_back(name);
  }
  for (const SafetensorsReader& file : folder.files()) {
    for (const UnreadableTensor& tensor : file.unreadable()) extra.push_back(tensor.name);
  }
  if (extra.empty()) return;
  throw ConfigError({.what = fmt::format("the weights are of another model, with {} tensor{} more",
                                         extra.size(), extra.size() == 1 ? "" : "s"),
                     .value = fmt::format("{}{} in {}", extra.front(),
                                          extra.size() == 1 ? "" : ", ...", folder.path().string()),
                     .remedy = kTakeItsOwn});
}

std::filesystem::path parent_of(const std::string& out) {
  return (std::filesystem::absolute(out) / "").lexically_normal().parent_path().parent_path();
}

}  // namespace

void check_weights(const ModelFolder& folder, const ModelOptions& model) {
  std::set<std::string> wanted;
  for (const UnitShapes& unit : unit_shapes(model)) {
    for (const ParameterShape& parameter : unit.parameters) {
      check_entry(folder, parameter);
      wanted.insert(parameter.name);
    }
  }
  refuse_extra(folder, wanted);
}

void check_room(const std::string& out, const ModelOptions& model, DType dtype) {
  const std::filesystem::path parent = parent_of(out);
  const auto free = free_bytes(parent);
  const std::int64_t needed = parameter_count(model) * bytes_of(dtype);
  if (!free || static_cast<std::uint64_t>(needed) <= *free) return;
  throw StorageError(
      {.what = fmt::format("there is no room for --out: the weights take {}, and {} are free",
                           human_bytes(needed), human_bytes(static_cast<std::int64_t>(*free))),
       .value = parent.string(),
       .remedy = "free some space, or choose another place"});
}

}  // namespace zeroshard
