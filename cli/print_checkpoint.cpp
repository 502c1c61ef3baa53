#include "cli/print_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <set>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/json_writer.h"
#include "cli/text_table.h"
#include "zeroshard/base/bytes.h"
#include "zeroshard/base/utf8.h"

namespace zeroshard::cli {
namespace {

std::string bytes_text(std::uint64_t bytes) {
  return human_bytes_decimal(static_cast<std::int64_t>(bytes));
}

std::string plural(std::uint64_t count, std::string_view word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

std::uint64_t bytes_of_files(const Manifest& manifest) {
  std::uint64_t bytes = 0;
  for (const StoredFile& file : manifest.files) bytes += file.bytes;
  return bytes;
}

std::uint64_t stored_bytes(const StoredTensor& tensor) {
  std::uint64_t bytes = 0;
  for (const auto& [name, state] : tensor.states) {
    bytes += static_cast<std::uint64_t>(tensor.numel()) * state.element_bytes();
  }
  return bytes;
}

std::string saved_text(const Manifest& manifest) {
  const auto seconds = static_cast<std::time_t>(manifest.saved_at_ms / 1000);
  const auto version = manifest.written_by.find("zeroshard");
  return fmt::format("saved {:%Y-%m-%d %H:%M:%S} UTC by {}{}", fmt::gmtime(seconds),
                     plural(static_cast<std::uint64_t>(manifest.ranks), "rank"),
                     version == manifest.written_by.end()
                         ? ""
                         : fmt::format(", with zeroshard {}", version->second));
}

std::string counts_text(const Manifest& manifest) {
  std::map<TensorKind, std::int64_t> numel;
  for (const StoredTensor& tensor : manifest.tensors) numel[tensor.kind] += tensor.numel();
  const std::int64_t parameters = numel[TensorKind::trained] + numel[TensorKind::frozen];
  std::string text = fmt::format("{}, {}; {} parameters", plural(manifest.files.size(), "file"),
                                 bytes_text(bytes_of_files(manifest)), human_count(parameters));
  if (numel[TensorKind::trained] > 0 && numel[TensorKind::frozen] > 0) {
    text += fmt::format(", {} of them trained", human_count(numel[TensorKind::trained]));
  }
  if (numel[TensorKind::buffer] > 0) {
    text += fmt::format("; {} elements in buffers", human_count(numel[TensorKind::buffer]));
  }
  return text;
}

std::string number_text(const RunNumbers::Number& number) {
  return std::visit([](auto value) { return fmt::format("{}", value); }, number);
}

std::string run_text(const Manifest& manifest) {
  std::vector<std::string> words;
  for (const auto& [name, number] : manifest.run.all()) {
    words.push_back(fmt::format("{} {}", name, number_text(number)));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string extras_text(const Manifest& manifest) {
  std::vector<std::string> words;
  for (const auto& [name, text] : manifest.documents) words.push_back(name);
  std::set<std::string> blobs;
  for (const StoredBlob& blob : manifest.blobs) blobs.insert(blob.name);
  words.insert(words.end(), blobs.begin(), blobs.end());
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string states_text(const StoredTensor& tensor) {
  std::vector<std::string> words;
  for (const auto& [name, state] : tensor.states) {
    words.push_back(fmt::format("{} {}", name, state.dtype.name()));
  }
  // The value first: it is what everybody looks for.
  std::ranges::stable_partition(words,
                                [](const std::string& word) { return word.starts_with("value "); });
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string tensors_text(const Manifest& manifest) {
  using Align = TextTable::Align;
  TextTable table({Align::left, Align::left, Align::left, Align::left, Align::right, Align::right,
                   Align::left});
  table.add_row({"tensor", "kind", "dtype", "shape", "updates", "bytes", "stored"});
  table.add_rule();
  for (const StoredTensor& tensor : manifest.tensors) {
    table.add_row({shortened(tensor.name, 80), std::string(name_of(tensor.kind)),
                   std::string(tensor.dtype.name()),
                   fmt::format("[{}]", fmt::join(tensor.shape, ", ")),
                   tensor.kind == TensorKind::trained ? fmt::format("{}", tensor.updates) : "-",
                   bytes_text(stored_bytes(tensor)), states_text(tensor)});
  }
  for (const auto& [alias, name] : manifest.aliases) {
    table.add_row({shortened(alias, 80), "alias", "", "", "", "", "is " + shortened(name, 80)});
  }
  return table.text();
}

void write_tensor(JsonWriter& json, const StoredTensor& tensor) {
  json.open_object();
  json.field("name", tensor.name);
  json.field("kind", name_of(tensor.kind));
  json.field("dtype", tensor.dtype.name());
  json.numbers("shape", tensor.shape);
  json.field("updates", tensor.updates);
  json.open_object("states");
  for (const auto& [name, state] : tensor.states) {
    json.open_object(name);
    json.field("dtype", state.dtype.name());
    json.field("pieces", std::uint64_t{state.pieces.size()});
    json.close_object();
  }
  json.close_object();
  json.close_object();
}

void write_texts(JsonWriter& json, std::string_view member, const Texts& texts) {
  json.open_object(member);
  for (const auto& [name, text] : texts) json.field(name, text);
  json.close_object();
}

std::string name_of(const StateFiles& files) { return files.folder().string(); }

std::string difference_text(const StateDifference& one) {
  const std::string what = fmt::format("{} of {}", one.state, shortened(one.tensor, 80));
  if (!one.what.empty()) return fmt::format("{} {}\n", what, one.what);
  return fmt::format("{}: {} of {} elements differ, the first is {}, by at most {:.6g}\n", what,
                     one.elements, one.of_elements, one.first, one.largest);
}

}  // namespace

std::string inspect_text(const StateFiles& files) {
  const Manifest& manifest = files.manifest();
  std::string text = name_of(files) + ": ";
  text += files.is_checkpoint() ? saved_text(manifest) : "a HuggingFace model";
  text += "\n" + counts_text(manifest) + "\n";
  if (!manifest.run.all().empty()) text += run_text(manifest) + "\n";
  if (const std::string extras = extras_text(manifest); !extras.empty()) {
    text += "with " + extras + "\n";
  }
  return text + "\n" + tensors_text(manifest);
}

std::string inspect_json(const StateFiles& files) {
  const Manifest& manifest = files.manifest();
  JsonWriter json;
  json.open_object();
  json.field("folder", name_of(files));
  json.field("is_checkpoint", files.is_checkpoint());
  json.field("tag", manifest.tag);
  json.field("saved_at_ms", manifest.saved_at_ms);
  json.field("ranks", manifest.ranks);
  json.field("bytes", bytes_of_files(manifest));
  write_texts(json, "written_by", manifest.written_by);
  json.open_object("run");
  for (const auto& [name, number] : manifest.run.all()) {
    std::visit([&, &of = name](auto value) { json.field(of, value); }, number);
  }
  json.close_object();
  json.open_list("files");
  for (const StoredFile& file : manifest.files) {
    json.open_object();
    json.field("name", file.name);
    json.field("bytes", file.bytes);
    json.close_object();
  }
  json.close_list();
  json.open_list("tensors");
  for (const StoredTensor& tensor : manifest.tensors) write_tensor(json, tensor);
  json.close_list();
  write_texts(json, "aliases", manifest.aliases);
  json.open_list("blobs");
  for (const StoredBlob& blob : manifest.blobs) {
    json.open_object();
    json.field("name", blob.name);
    if (blob.rank) json.field("rank", *blob.rank);
    json.field("bytes", blob.bytes);
    json.close_object();
  }
  json.close_list();
  std::vector<std::string> documents;
  for (const auto& [name, document] : manifest.documents) documents.push_back(name);
  json.list("documents", documents);
  json.close_object();
  return json.text();
}

std::string verify_text(const StateFiles& files, const Verified& verified) {
  std::string text;
  for (const DamagedPlace& place : verified.damaged) {
    text += fmt::format("{} {} ({})\n", place.file, place.what, place.states);
  }
  if (!verified.damaged.empty()) return text;
  if (verified.unchecked > 0) {
    return fmt::format(
        "{}: {} are there with the sizes that they should have; they have no "
        "checksums\n",
        name_of(files), plural(verified.files, "file"));
  }
  return fmt::format("{} is complete: {}, {}, every checksum is right\n", name_of(files),
                     plural(verified.files, "file"), bytes_text(verified.bytes));
}

std::string verify_json(const StateFiles& files, const Verified& verified) {
  JsonWriter json;
  json.open_object();
  json.field("folder", name_of(files));
  json.field("is_sound", verified.damaged.empty());
  json.field("files", verified.files);
  json.field("bytes", verified.bytes);
  json.field("unchecked_bytes", verified.unchecked);
  json.open_list("damaged");
  for (const DamagedPlace& place : verified.damaged) {
    json.open_object();
    json.field("file", place.file);
    json.field("what", place.what);
    json.field("states", place.states);
    json.close_object();
  }
  json.close_list();
  json.close_object();
  return json.text();
}

std::string export_text(const std::string& out, const ExportedRun& run) {
  const Exported& exported = run.model;
  std::string text =
      fmt::format("wrote {}: {} in {}, {}{}\n", out, plural(exported.tensors, "tensor"),
                  plural(exported.files.size(), "file"), bytes_text(exported.bytes),
                  exported.has_config ? ", and config.json" : "");
  if (!exported.has_config) {
    text += "the checkpoint has no config.json: put the model's own beside the weights\n";
  }
  if (run.is_ours_alone) {
    text +=
        "transformers has no model of this architecture, and from_pretrained does not load it; the "
        "checkpoint itself serves train --init\n";
  }
  if (exported.overflowed > 0) {
    text += fmt::format("{} were too large for fp16 and are infinite now: take bf16\n",
                        plural(exported.overflowed, "value"));
  }
  return text;
}

std::string export_json(const std::string& out, const ExportedRun& run) {
  const Exported& exported = run.model;
  JsonWriter json;
  json.open_object();
  json.field("folder", out);
  json.list("files", exported.files);
  json.field("tensors", exported.tensors);
  json.field("bytes", exported.bytes);
  json.field("has_config", exported.has_config);
  json.field("in_transformers", !run.is_ours_alone);
  json.field("overflowed", exported.overflowed);
  json.close_object();
  return json.text();
}

std::string diff_text(const StateFiles& first, const StateFiles& second,
                      const Comparison& comparison) {
  std::string text;
  for (const std::string& number : comparison.numbers) text += number + "\n";
  for (const std::string& name : comparison.only_in_first) {
    text += fmt::format("{} is only in {}\n", shortened(name, 120), name_of(first));
  }
  for (const std::string& name : comparison.only_in_second) {
    text += fmt::format("{} is only in {}\n", shortened(name, 120), name_of(second));
  }
  for (const StateDifference& one : comparison.differences) text += difference_text(one);
  return text + fmt::format("{} are equal to the bit{}\n", plural(comparison.equal_states, "state"),
                            comparison.same_states() ? ", and nothing differs" : "");
}

std::string diff_json(const StateFiles& first, const StateFiles& second,
                      const Comparison& comparison) {
  JsonWriter json;
  json.open_object();
  json.field("first", name_of(first));
  json.field("second", name_of(second));
  json.field("same_states", comparison.same_states());
  json.field("equal_states", comparison.equal_states);
  json.list("numbers", comparison.numbers);
  json.list("only_in_first", comparison.only_in_first);
  json.list("only_in_second", comparison.only_in_second);
  json.open_list("differences");
  for (const StateDifference& one : comparison.differences) {
    json.open_object();
    json.field("tensor", one.tensor);
    json.field("state", one.state);
    if (!one.what.empty()) json.field("what", one.what);
    json.field("elements", one.elements);
    json.field("of_elements", one.of_elements);
    json.field("first", one.first);
    // JSON has no infinity: where a number was none, there is no distance.
    if (std::isfinite(one.largest)) json.field("largest", one.largest);
    json.close_object();
  }
  json.close_list();
  json.close_object();
  return json.text();
}

}  // namespace zeroshard::cli
