#include "zeroshard/checkpoint/manifest_checksum.h"

#include <fmt/format.h>

#include "zeroshard/checkpoint/checksum.h"

namespace zeroshard {
namespace {

constexpr std::size_t kEndBytes = 41;

std::string end_of(std::string_view body) {
  const Checksum checksum = checksum_of(std::as_bytes(std::span(body)));
  return fmt::format(",\n\"checksum\":\"xxh3-64:{}\"}}\n", checksum_text(checksum));
}

}  // namespace

std::string with_checksum(std::string body) {
  body += end_of(body);
  return body;
}

bool has_its_checksum(std::string_view text) {
  if (text.size() < kEndBytes) return false;
  const std::string_view body = text.substr(0, text.size() - kEndBytes);
  return text.substr(body.size()) == end_of(body);
}

}  // namespace zeroshard
