#include "zeroshard/checkpoint/export_model.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zeroshard/base/error.h"
#include "zeroshard/checkpoint/export_config.h"
#include "zeroshard/checkpoint/float_values.h"
#include "zeroshard/checkpoint/json_events.h"
#include "zeroshard/checkpoint/model_folder.h"
#include "zeroshard/checkpoint/safetensors.h"
#include "zeroshard/checkpoint/write_folder.h"

namespace zeroshard {
namespace {

constexpr std::string_view kConfigFile = "config.json";
constexpr std::string_view kGenerationFile = "generation_config.json";

// What a tensor becomes.
struct Plan {
  const StoredTensor* tensor = nullptr;
  StoredDType dtype;

  const StoredState& value() const { return tensor->states.find(kValueState)->second; }
  std::uint64_t bytes() const {
    return static_cast<std::uint64_t>(tensor->numel()) * dtype.bytes();
  }
};

Plan plan_of(const StoredTensor& tensor, const ExportOptions& options) {
  Plan plan{.tensor = &tensor, .dtype = tensor.dtype};
  const StoredDType stored = plan.value().dtype;
  if (!is_float(stored.dtype()) || !is_float(tensor.dtype.dtype())) {
    plan.dtype = stored;
  } else if (options.dtype) {
    plan.dtype = *options.dtype;
  }
  return plan;
}

using Shard = std::vector<Plan>;

std::vector<Shard> cut(const Manifest& manifest, const ExportOptions& options) {
  std::vector<Shard> shards(1);
  std::uint64_t bytes = 0;
  for (const StoredTensor& tensor : manifest.tensors) {
    const Plan plan = plan_of(tensor, options);
    if (!shards.back().empty() && bytes + plan.bytes() > options.max_shard_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += plan.bytes();
    shards.back().push_back(plan);
  }
  return shards;
}

std::vector<std::string> names_of(std::size_t shards) {
  if (shards == 1) return {std::string(kModelFile)};
  std::vector<std::string> names;
  for (std::size_t i = 1; i <= shards; ++i) {
    names.push_back(fmt::format("model-{:05}-of-{:05}.safetensors", i, shards));
  }
  return names;
}

// Converts what is read and appends it to a file.
class TensorWriter {
 public:
  TensorWriter(RangeReader& reader, Exported& result) : reader_(reader), result_(result) {}

  void write(const Plan& plan, SafetensorsWriter& file, std::size_t index) {
    const StoredState& value = plan.value();
    // Piece by piece, so that elements come in their order wherever they lie.
    for (const StoredPiece& piece : value.pieces) {
      reader_.read({{&value, piece.elements}},
                   [&](std::size_t, const Span&, std::span<const std::byte> bytes) {
                     file.write(index, converted(plan, bytes));
                   });
    }
    ++result_.tensors;
    result_.bytes += plan.bytes();
  }

 private:
  std::span<const std::byte> converted(const Plan& plan, std::span<const std::byte> bytes) {
    const StoredDType from = plan.value().dtype;
    if (from == plan.dtype) return bytes;
    const std::size_t count = bytes.size() / from.bytes();
    converted_.resize(count * plan.dtype.bytes());
    for (std::size_t i = 0; i < count; ++i) {
      const float value = float_at(bytes.data() + i * from.bytes(), *from.dtype());
      std::byte* const to = converted_.data() + i * plan.dtype.bytes();
      put_float(to, *plan.dtype.dtype(), value);
      if (plan.dtype == DType::fp16 && std::isfinite(value)) count_overflow(to);
    }
    return converted_;
  }

  // Only fp16 has a range that weights may leave.
  void count_overflow(const std::byte* rounded) {
    if (!std::isfinite(float_at(rounded, DType::fp16))) ++result_.overflowed;
  }

  RangeReader& reader_;
  Exported& result_;
  std::vector<std::byte> converted_;
};

void write_shard(const Shard& shard, const std::filesystem::path& path, TensorWriter& writer) {
  std::vector<TensorEntry> entries;
  for (const Plan& plan : shard) {
    entries.push_back(
        {.name = plan.tensor->name, .dtype = plan.dtype, .shape = plan.tensor->shape});
  }
  SafetensorsWriter file(path, std::move(entries), {{"format", "pt"}});
  for (std::size_t i = 0; i < shard.size(); ++i) writer.write(shard[i], file, i);
  file.finish();
}

std::string index_text(const std::vector<Shard>& shards, const std::vector<std::string>& names,
                       std::uint64_t bytes) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (const Plan& plan : shards[i]) {
      lines.push_back(
          fmt::format("    {}: {}", json_quoted(plan.tensor->name), json_quoted(names[i])));
    }
  }
  return fmt::format(
      "{{\n  \"metadata\": {{\"total_size\": {}}},\n  \"weight_map\": {{\n{}\n  }}\n}}\n", bytes,
      fmt::join(lines, ",\n"));
}

// The model's own words, which say its dtype as well.
bool write_config(const Manifest& manifest, const std::filesystem::path& folder,
                  const ExportOptions& options) {
  for (const std::string_view name : {kConfigFile, kGenerationFile}) {
    const auto found = manifest.documents.find(name);
    if (found == manifest.documents.end()) continue;
    write_text_file(folder / name, with_dtype(found->second, options.dtype));
  }
  return manifest.documents.contains(kConfigFile);
}

}  // namespace

Exported export_model(const StateFiles& files, const std::filesystem::path& out,
                      const ExportOptions& options) {
  const std::vector<Shard> shards = cut(files.manifest(), options);
  Exported result{.files = names_of(shards.size())};
  RangeReader reader = files.reader();
  reader.check_files();
  FolderWriter folder(out, {shards.size() == 1 ? result.files[0] : std::string(kModelIndexFile)});
  TensorWriter writer(reader, result);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    write_shard(shards[i], folder.folder() / result.files[i], writer);
  }
  if (shards.size() > 1) {
    write_text_file(folder.folder() / kModelIndexFile,
                    index_text(shards, result.files, result.bytes));
  }
  result.has_config = write_config(files.manifest(), folder.folder(), options);
  folder.finish();
  return result;
}

}  // namespace zeroshard
