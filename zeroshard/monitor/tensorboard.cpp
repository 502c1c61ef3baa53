#include "zeroshard/monitor/tensorboard.h"

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>

#include <fmt/core.h>
#include <unistd.h>

#include "zeroshard/monitor/crc32c.h"

namespace zeroshard {
namespace {

// The three wire types of protobuf that events need. As in proto3, a field that holds its default
// is left out by the callers below.
enum WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

template <typename Unsigned>
void append_little_endian(std::string& out, Unsigned value) {
  for (std::size_t i = 0; i < sizeof value; ++i) {
    out += static_cast<char>(value & 0xFFU);
    value >>= 8U;
  }
}

void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U) out += static_cast<char>((value & 0x7FU) | 0x80U);
  out += static_cast<char>(value);
}

void append_key(std::string& out, std::uint32_t field, WireType type) {
  append_varint(out, field << 3U | type);
}

void append_bytes(std::string& out, std::uint32_t field, std::string_view bytes) {
  append_key(out, field, kBytes);
  append_varint(out, bytes.size());
  out += bytes;
}

// A double beyond a float's range is an infinity there; the bare cast would be undefined.
float nearest_float(double value) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  if (std::abs(value) <= kLargest || std::isnan(value)) return static_cast<float>(value);
  const float infinity = std::numeric_limits<float>::infinity();
  return value < 0 ? -infinity : infinity;
}

std::string event_at(double wall_time) {
  std::string event;
  if (wall_time != 0) {
    append_key(event, 1, kFixed64);
    append_little_endian(event, std::bit_cast<std::uint64_t>(wall_time));
  }
  return event;
}

// Summary.Value: tag, and simple_value even where it is 0, because it is one of a choice.
std::string summary_value(const Scalar& scalar) {
  std::string value;
  if (!scalar.tag.empty()) append_bytes(value, 1, scalar.tag);
  append_key(value, 2, kFixed32);
  append_little_endian(value, std::bit_cast<std::uint32_t>(nearest_float(scalar.value)));
  return value;
}

// TFRecord's mask: keeps a checksum of data that itself holds checksums from being weak.
std::uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U;
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

// Never twice the same, also for two writers made within one second.
std::string new_file_name() {
  static std::atomic<int> files{0};
  return fmt::format("events.out.tfevents.{:010}.{}.{}.{}",
                     static_cast<std::int64_t>(seconds_since_1970()), host_name(), ::getpid(),
                     files.fetch_add(1));
}

}  // namespace

namespace tensorboard_detail {

std::string record(std::string_view payload) {
  std::string out;
  append_little_endian(out, static_cast<std::uint64_t>(payload.size()));
  append_little_endian(out, masked_crc32c(out));
  out += payload;
  append_little_endian(out, masked_crc32c(payload));
  return out;
}

std::string version_event(double wall_time) {
  std::string event = event_at(wall_time);
  append_bytes(event, 3, "brain.Event:2");
  return event;
}

std::string scalars_event(double wall_time, std::int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) append_bytes(summary, 1, summary_value(scalar));
  std::string event = event_at(wall_time);
  if (step != 0) {
    append_key(event, 2, kVarint);
    append_varint(event, static_cast<std::uint64_t>(step));
  }
  append_bytes(event, 5, summary);
  return event;
}

}  // namespace tensorboard_detail

TensorBoardWriter::TensorBoardWriter(const std::string& folder)
    : file_((folder.empty() ? "" : folder + "/") + new_file_name(), {.make_folders = true}) {
  file_.append(tensorboard_detail::record(tensorboard_detail::version_event(seconds_since_1970())));
  file_.flush();
}

void TensorBoardWriter::write(std::int64_t step, std::span<const Scalar> scalars) {
  if (scalars.empty()) return;
  file_.append(tensorboard_detail::record(
      tensorboard_detail::scalars_event(seconds_since_1970(), step, scalars)));
  file_.flush();
}

}  // namespace zeroshard
