#include "zeroshard/checkpoint/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace zeroshard {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

void append_digits(std::string& text, Checksum checksum) {
  for (unsigned shift = 64; shift > 0; shift -= 4) {
    text.push_back(kDigits[(checksum >> (shift - 4)) & 0xFU]);
  }
}

// 16 where it is none.
constexpr unsigned value_of(char digit) {
  if (digit >= '0' && digit <= '9') return static_cast<unsigned>(digit - '0');
  if (digit >= 'a' && digit <= 'f') return static_cast<unsigned>(digit - 'a' + 10);
  return 16;
}

}  // namespace

Checksum checksum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string checksum_text(Checksum checksum) {
  std::string text;
  append_digits(text, checksum);
  return text;
}

std::string checksum_text(const std::vector<Checksum>& checksums) {
  std::string text;
  text.reserve(checksums.size() * kChecksumDigits);
  for (const Checksum checksum : checksums) append_digits(text, checksum);
  return text;
}

std::optional<std::vector<Checksum>> parse_checksums(std::string_view digits) {
  if (digits.size() % kChecksumDigits != 0) return std::nullopt;
  std::vector<Checksum> checksums(digits.size() / kChecksumDigits, 0);
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const unsigned value = value_of(digits[i]);
    if (value == 16) return std::nullopt;
    Checksum& checksum = checksums[i / kChecksumDigits];
    checksum = checksum << 4U | value;
  }
  return checksums;
}

}  // namespace zeroshard
