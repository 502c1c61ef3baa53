// Reading a header that anybody may have written: nothing in it is believed before it is checked.

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/base/error.h"
#include "zeroshard/checkpoint/json_events.h"
#include "zeroshard/checkpoint/safetensors_dtype.h"
#include "zeroshard/checkpoint/safetensors_header.h"

namespace zeroshard {
namespace {

// More than any tensor has; a bound keeps a hostile shape from taking 8 bytes for each of its two.
constexpr std::size_t kMaxDimensions = 64;

[[noreturn]] void damaged(std::string_view file, const std::string& what) {
  throw StorageError({.what = "this is no sound safetensors file: " + what,
                      .value = std::string(file),
                      .remedy = "fetch or save it again"});
}

// A tensor as the header tells it. Fields are missing until they are read.
struct Record {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<std::vector<std::uint64_t>> shape;
  std::optional<std::vector<std::uint64_t>> offsets;
};

// What a record says once it is checked.
struct Checked {
  TensorEntry entry;
  const SafetensorsDType* dtype = nullptr;
};

class HeaderReader : public JsonEvents {
 public:
  explicit HeaderReader(std::string_view file) : file_(file) {}

  std::vector<Checked> take_tensors() { return std::move(tensors_); }
  SafetensorsMetadata take_metadata() { return std::move(metadata_); }

  void open_object() override {
    if (state_ == State::start) {
      state_ = State::root;
    } else if (state_ == State::name) {
      state_ = record_.name == kMetadataKey ? State::metadata : State::tensor;
    } else {
      unexpected("an object");
    }
  }

  void close_object() override {
    if (state_ == State::tensor) {
      tensors_.push_back(check(std::exchange(record_, {})));
    }
    state_ = state_ == State::root ? State::start : State::root;
  }

  void open_list() override {
    if (state_ == State::shape) {
      state_ = State::shape_list;
      record_.shape.emplace();
    } else if (state_ == State::offsets) {
      state_ = State::offsets_list;
      record_.offsets.emplace();
    } else {
      unexpected("a list");
    }
  }

  void close_list() override { state_ = State::tensor; }

  void key(std::string_view text) override {
    if (state_ == State::root) {
      if (!names_.emplace(text).second) wrong("two tensors are called " + json_quoted_short(text));
      record_ = {.name = std::string(text)};
      state_ = State::name;
    } else if (state_ == State::metadata) {
      metadata_key_ = text;
      state_ = State::metadata_value;
    } else {
      open_field(text);
    }
  }

  void text(std::string_view text) override {
    if (state_ == State::dtype) {
      record_.dtype = text;
      state_ = State::tensor;
    } else if (state_ == State::metadata_value) {
      if (!metadata_.emplace(metadata_key_, text).second) {
        wrong("the metadata has " + json_quoted_short(metadata_key_) + " twice");
      }
      state_ = State::metadata;
    } else {
      unexpected("a text");
    }
  }

  void number(std::string_view digits) override {
    const bool in_shape = state_ == State::shape_list;
    if (!in_shape && state_ != State::offsets_list) unexpected("a number");
    const std::optional<std::uint64_t> value = parse_whole_number(digits);
    if (!value || *value > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
      of_tensor(record_, "has a size that is no whole number below 2^63");
    }
    std::vector<std::uint64_t>& list = in_shape ? *record_.shape : *record_.offsets;
    if (list.size() == (in_shape ? kMaxDimensions : 2)) {
      of_tensor(record_, in_shape ? "has more than 64 dimensions" : "has more than two offsets");
    }
    list.push_back(*value);
  }

  void literal() override { unexpected("true, false or null"); }

 private:
  // Where the reader is; `name`, `dtype`, `shape`, `offsets`, `metadata_value`: behind such a key.
  enum class State {
    start,
    root,
    name,
    tensor,
    dtype,
    shape,
    shape_list,
    offsets,
    offsets_list,
    metadata,
    metadata_value
  };

  void open_field(std::string_view field) {
    const bool given_before = (field == "dtype" && record_.dtype) ||
                              (field == "shape" && record_.shape) ||
                              (field == "data_offsets" && record_.offsets);
    if (given_before) of_tensor(record_, "has two fields " + json_quoted_short(field));
    if (field == "dtype") {
      state_ = State::dtype;
    } else if (field == "shape") {
      state_ = State::shape;
    } else if (field == "data_offsets") {
      state_ = State::offsets;
    } else {
      of_tensor(record_, "has an unknown field " + json_quoted_short(field));
    }
  }

  Checked check(Record record) const {
    if (!record.dtype || !record.shape || !record.offsets || record.offsets->size() != 2) {
      of_tensor(record, "lacks its dtype, its shape or its two data_offsets");
    }
    const SafetensorsDType* dtype = find_safetensors_dtype(*record.dtype);
    if (dtype == nullptr) {
      of_tensor(record, "has the unknown dtype " + json_quoted_short(*record.dtype));
    }
    const std::uint64_t begin = record.offsets->front();
    const std::uint64_t end = record.offsets->back();
    const std::optional<std::uint64_t> bytes = bytes_in(*record.shape, dtype->bits);
    if (begin > end || bytes != end - begin) {
      of_tensor(record, fmt::format("has offsets {} to {}, which its shape and dtype do not fill",
                                    begin, end));
    }
    Checked checked{.dtype = dtype};
    checked.entry = {.name = std::move(record.name),
                     .dtype = *StoredDType::of(dtype->name),
                     .shape = {record.shape->begin(), record.shape->end()},
                     .begin = begin,
                     .end = end};
    return checked;
  }

  // Nothing where it is more than 64 bits can count, or ends within a byte.
  static std::optional<std::uint64_t> bytes_in(const std::vector<std::uint64_t>& shape,
                                               std::uint64_t bits_each) {
    std::uint64_t bits = bits_each;
    for (const std::uint64_t extent : shape) {
      if (__builtin_mul_overflow(bits, extent, &bits)) return std::nullopt;
    }
    if (bits % 8 != 0) return std::nullopt;
    return bits / 8;
  }

  [[noreturn]] void wrong(const std::string& what) const { damaged(file_, what); }
  [[noreturn]] void of_tensor(const Record& record, const std::string& what) const {
    wrong("tensor " + json_quoted_short(record.name) + " " + what);
  }
  [[noreturn]] void unexpected(std::string_view what) const {
    if (state_ == State::start) wrong("the header is no JSON object");
    const bool in_metadata = state_ == State::metadata_value || record_.name == kMetadataKey;
    if (in_metadata) wrong("the metadata must be texts, and hold something else");
    of_tensor(record_, fmt::format("has {} where it does not belong", what));
  }

  std::string_view file_;
  State state_ = State::start;
  Record record_;
  std::string metadata_key_;
  std::set<std::string, std::less<>> names_;  // a tree: colliding hashes would be an attack
  std::vector<Checked> tensors_;
  SafetensorsMetadata metadata_;
};

// Every byte of the data belongs to exactly one tensor.
void check_places(const std::vector<Checked>& by_place, std::uint64_t data_bytes,
                  std::string_view file) {
  std::uint64_t reached = 0;
  for (const Checked& tensor : by_place) {
    if (tensor.entry.begin != reached) {
      damaged(file,
              fmt::format("tensor {} {} the one before it", json_quoted_short(tensor.entry.name),
                          tensor.entry.begin < reached ? "overlaps" : "leaves a hole behind"));
    }
    reached = tensor.entry.end;
  }
  if (reached != data_bytes) {
    damaged(file, fmt::format("its tensors take {} bytes and it has {}", reached, data_bytes));
  }
}

}  // namespace

std::uint64_t safetensors_json_bytes(std::span<const std::byte, kSafetensorsPrefixBytes> prefix,
                                     std::uint64_t file_bytes, std::string_view file) {
  std::uint64_t json_bytes = 0;
  for (std::size_t i = 0; i < prefix.size(); ++i) {
    json_bytes |= std::to_integer<std::uint64_t>(prefix[i]) << (8 * i);
  }
  if (json_bytes > kMaxSafetensorsHeaderBytes) {
    damaged(file, fmt::format("its header would have {} bytes, more than 100 MB", json_bytes));
  }
  if (file_bytes < kSafetensorsPrefixBytes || json_bytes > file_bytes - kSafetensorsPrefixBytes) {
    damaged(file, fmt::format("its header would have {} bytes, and the file has {}", json_bytes,
                              file_bytes));
  }
  return json_bytes;
}

SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes,
                                           std::string_view file) {
  // The format wants the brace first. JSON would allow blanks before it.
  if (!json.starts_with('{')) damaged(file, "its header does not begin with {");
  HeaderReader reader(file);
  if (const std::optional<std::string> fault = read_json_events(json, reader)) {
    damaged(file, "its header is no JSON, " + *fault);
  }
  std::vector<Checked> tensors = reader.take_tensors();
  std::stable_sort(tensors.begin(), tensors.end(), [](const Checked& left, const Checked& right) {
    return std::pair(left.entry.begin, left.entry.end) <
           std::pair(right.entry.begin, right.entry.end);
  });
  check_places(tensors, data_bytes, file);
  SafetensorsHeader header;
  header.metadata = reader.take_metadata();
  for (Checked& tensor : tensors) {
    if (tensor.dtype->dtype) {
      header.tensors.push_back(std::move(tensor.entry));
    } else {
      header.unreadable.push_back({std::move(tensor.entry.name), std::string(tensor.dtype->name)});
    }
  }
  return header;
}

}  // namespace zeroshard
