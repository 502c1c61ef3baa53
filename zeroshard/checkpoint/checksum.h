// Checksums by which damage is found: XXH3 in 64 bits, of the manifest and of every chunk of the
// data files. docs/checkpoint_format.md says where they stand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zeroshard {

using Checksum = std::uint64_t;

Checksum checksum_of(std::span<const std::byte> bytes);

inline constexpr std::size_t kChecksumDigits = 16;

// In hexadecimal digits, lower case, the most significant first.
std::string checksum_text(Checksum checksum);
std::string checksum_text(const std::vector<Checksum>& checksums);  // one behind the other

// The same read again; nothing where it is anything else.
std::optional<std::vector<Checksum>> parse_checksums(std::string_view digits);

}  // namespace zeroshard
