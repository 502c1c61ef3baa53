// CRC-32C (Castagnoli; RFC 3720, appendix B.4), as in TensorBoard's records.
// Ours, because Debian packages no C or C++ library for it, and zlib has only the other polynomial.
#pragma once

#include <cstdint>
#include <string_view>

namespace zeroshard {

std::uint32_t crc32c(std::string_view bytes);

}  // namespace zeroshard
