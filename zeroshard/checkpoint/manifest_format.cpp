// The text of a manifest: one line for each file, tensor and state, so that people can read and
// compare them.
#include <iterator>
#include <type_traits>

#include <fmt/format.h>

#include "zeroshard/checkpoint/json_events.h"
#include "zeroshard/checkpoint/manifest.h"
#include "zeroshard/checkpoint/manifest_checksum.h"

namespace zeroshard {
namespace {

class Writer {
 public:
  std::string take() { return std::move(text_); }

  template <typename... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  // `write` for each of `all`, with commas between them.
  template <typename All, typename Write>
  void list(const All& all, std::string_view separator, const Write& write) {
    bool first = true;
    for (const auto& one : all) {
      if (!first) text_ += separator;
      first = false;
      write(one);
    }
  }

  void texts(std::string_view member, const Texts& texts) {
    put(",\n\"{}\":{{", member);
    list(texts, ",\n ", [&](const auto& entry) {
      put("{}:{}", json_quoted(entry.first), json_quoted(entry.second));
    });
    put("}}");
  }

  // A real number keeps its point, so that it is read as one.
  void number(double value) {
    const std::string digits = fmt::format("{}", value);
    put("{}{}", digits, digits.find_first_of(".e") == std::string::npos ? ".0" : "");
  }
  void number(std::int64_t value) { put("{}", value); }
  void number(std::uint64_t value) { put("{}", value); }

 private:
  std::string text_;
};

void put_state(Writer& out, const std::string& name, const StoredState& state) {
  out.put("{}:{{\"dtype\":\"{}\",\"pieces\":[", json_quoted(name), state.dtype.name());
  out.list(state.pieces, ",", [&](const StoredPiece& piece) {
    out.put("[{},{},{},{}]", piece.file, piece.elements.begin(), piece.elements.end(),
            piece.offset);
  });
  out.put("]}}");
}

void put_tensor(Writer& out, const StoredTensor& tensor) {
  out.put("{{\"name\":{},\"kind\":\"{}\",\"dtype\":\"{}\",\"shape\":[", json_quoted(tensor.name),
          name_of(tensor.kind), tensor.dtype.name());
  out.list(tensor.shape, ",", [&](std::int64_t extent) { out.number(extent); });
  out.put("],\"updates\":{}", tensor.updates);
  if (!tensor.scalars.empty()) {
    out.put(",\"scalars\":{{");
    out.list(tensor.scalars, ",", [&](const auto& entry) {
      out.put("{}:", json_quoted(entry.first));
      out.number(entry.second);
    });
    out.put("}}");
  }
  out.put(",\n \"states\":{{");
  out.list(tensor.states, ",\n  ",
           [&](const auto& entry) { put_state(out, entry.first, entry.second); });
  out.put("}}}}");
}

void put_blob(Writer& out, const StoredBlob& blob) {
  out.put("{{\"name\":{},", json_quoted(blob.name));
  if (blob.rank) out.put("\"rank\":{},", *blob.rank);
  out.put("\"file\":{},\"offset\":{},\"bytes\":{}}}", blob.file, blob.offset, blob.bytes);
}

void put_file(Writer& out, const StoredFile& file) {
  out.put("{{\"name\":{},\"bytes\":{},\"chunks\":\"{}\"}}", json_quoted(file.name), file.bytes,
          checksum_text(file.chunks));
}

}  // namespace

std::string format_manifest(const Manifest& manifest) {
  Writer out;
  out.put("{{\"format\":\"{}\",\"version\":{},\"needs\":[],\n", kManifestFormat, kManifestVersion);
  out.put("\"tag\":{},\"saved_at_ms\":{},\"ranks\":{}", json_quoted(manifest.tag),
          manifest.saved_at_ms, manifest.ranks);
  out.texts("written_by", manifest.written_by);
  out.put(",\n\"run\":{{");
  out.list(manifest.run.all(), ",", [&](const auto& entry) {
    out.put("{}:", json_quoted(entry.first));
    std::visit([&](auto value) { out.number(value); }, entry.second);
  });
  out.put("}},\n\"chunk_bytes\":{},\n\"files\":[\n", manifest.chunk_bytes);
  out.list(manifest.files, ",\n", [&](const StoredFile& file) { put_file(out, file); });
  out.put("],\n\"tensors\":[\n");
  out.list(manifest.tensors, ",\n", [&](const StoredTensor& tensor) { put_tensor(out, tensor); });
  out.put("]");
  out.texts("aliases", manifest.aliases);
  out.put(",\n\"blobs\":[");
  out.list(manifest.blobs, ",\n", [&](const StoredBlob& blob) { put_blob(out, blob); });
  out.put("]");
  out.texts("documents", manifest.documents);
  return with_checksum(out.take());
}

}  // namespace zeroshard
