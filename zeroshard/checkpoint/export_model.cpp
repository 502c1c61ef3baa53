#include "zeroshard/checkpoint/export_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zeroshard/base/check.h"
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
  std::string name;
  std::vector<std::int64_t> shape;
  Span elements;  // of the stored one
  bool transposed = false;

  const StoredState& value() const { return tensor->states.find(kValueState)->second; }
  std::uint64_t bytes() const {
    return static_cast<std::uint64_t>(elements.size()) * dtype.bytes();
  }
};

Plan plan_of(const StoredTensor& tensor, const ExportOptions& options) {
  Plan plan{.tensor = &tensor,
            .dtype = tensor.dtype,
            .name = tensor.name,
            .shape = tensor.shape,
            .elements = Span(0, tensor.numel())};
  const StoredDType stored = plan.value().dtype;
  if (!is_float(stored.dtype()) || !is_float(tensor.dtype.dtype())) {
    plan.dtype = stored;
  } else if (options.dtype) {
    plan.dtype = *options.dtype;
  }
  return plan;
}

Plan plan_of(const StateFiles& files, const ExportedTensor& wanted, const ExportOptions& options) {
  Plan plan = plan_of(*files.find(wanted.from), options);
  const std::int64_t row = plan.shape.size() > 1 ? plan.elements.size() / plan.shape[0] : 1;
  const std::int64_t numel = std::accumulate(wanted.shape.begin(), wanted.shape.end(),
                                             std::int64_t{1}, std::multiplies<>{});
  const std::int64_t begin = wanted.first_row * row;
  ZS_CHECK(begin + numel <= plan.elements.size() && (!wanted.transposed || plan.shape.size() == 2),
           "{} does not hold {}", wanted.from, wanted.name);
  plan.name = wanted.name;
  plan.shape = wanted.shape;
  plan.elements = Span(begin, begin + numel);
  plan.transposed = wanted.transposed;
  return plan;
}

std::vector<Plan> plans_of(const StateFiles& files, const ExportOptions& options) {
  std::vector<Plan> plans;
  if (options.layout) {
    for (const ExportedTensor& tensor : options.layout->tensors) {
      plans.push_back(plan_of(files, tensor, options));
    }
    return plans;
  }
  for (const StoredTensor& tensor : files.manifest().tensors) {
    plans.push_back(plan_of(tensor, options));
  }
  return plans;
}

using Shard = std::vector<Plan>;

std::vector<Shard> cut(std::vector<Plan> plans, const ExportOptions& options) {
  std::vector<Shard> shards(1);
  std::uint64_t bytes = 0;
  for (Plan& plan : plans) {
    if (!shards.back().empty() && bytes + plan.bytes() > options.max_shard_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += plan.bytes();
    shards.back().push_back(std::move(plan));
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
    if (plan.transposed) {
      write_transposed(plan, file, index);
    } else {
      visit(plan, [&](const Span&, std::span<const std::byte> bytes) { file.write(index, bytes); });
    }
    ++result_.tensors;
    result_.bytes += plan.bytes();
  }

 private:
  // Converted. Piece by piece, so that elements come in their order wherever they lie.
  template <typename Take>
  void visit(const Plan& plan, const Take& take) {
    const StoredState& value = plan.value();
    for (const StoredPiece& piece : value.pieces) {
      const Span wanted = piece.elements.intersect(plan.elements);
      if (wanted.empty()) continue;
      reader_.read({{&value, wanted}},
                   [&](std::size_t, const Span& elements, std::span<const std::byte> bytes) {
                     take(elements, converted(plan, bytes));
                   });
    }
  }

  // As many columns at a time as there is memory for; all of the matrix is read for each.
  void write_transposed(const Plan& plan, SafetensorsWriter& file, std::size_t index) {
    const std::int64_t columns = plan.shape[0], rows = plan.shape[1];
    const auto width = static_cast<std::int64_t>(plan.dtype.bytes());
    const std::int64_t most = std::max<std::int64_t>(kTransposedBytes / (rows * width), 1);
    const std::uint64_t overflowed = result_.overflowed;
    for (std::int64_t first = 0; first < columns; first += most) {
      const std::int64_t end = std::min(first + most, columns);
      result_.overflowed = overflowed;  // values are converted again each time
      turned_.resize(static_cast<std::size_t>((end - first) * rows * width));
      visit(plan, [&](const Span& elements, std::span<const std::byte> bytes) {
        for (std::int64_t i = elements.begin(); i < elements.end(); ++i) {
          const std::int64_t row = i / columns, column = i % columns;
          if (column < first || column >= end) continue;
          std::memcpy(turned_.data() + ((column - first) * rows + row) * width,
                      bytes.data() + (i - elements.begin()) * width,
                      static_cast<std::size_t>(width));
        }
      });
      file.write(index, turned_);
    }
  }

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
  std::vector<std::byte> turned_;
};

void write_shard(const Shard& shard, const std::filesystem::path& path, TensorWriter& writer) {
  std::vector<TensorEntry> entries;
  for (const Plan& plan : shard) {
    entries.push_back({.name = plan.name, .dtype = plan.dtype, .shape = plan.shape});
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
      lines.push_back(fmt::format("    {}: {}", json_quoted(plan.name), json_quoted(names[i])));
    }
  }
  return fmt::format(
      "{{\n  \"metadata\": {{\"total_size\": {}}},\n  \"weight_map\": {{\n{}\n  }}\n}}\n", bytes,
      fmt::join(lines, ",\n"));
}

// The model's own words, which say its dtype as well.
bool write_config(const Manifest& manifest, const std::filesystem::path& folder,
                  const ExportOptions& options) {
  if (options.layout) {
    const std::optional<DType> own = manifest.tensors.front().dtype.dtype();
    write_text_file(folder / kConfigFile,
                    with_dtype(options.layout->config, options.dtype ? options.dtype : own));
    return true;
  }
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
  const std::vector<Shard> shards = cut(plans_of(files, options), options);
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
