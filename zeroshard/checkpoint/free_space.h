// How much a file system still takes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace zeroshard {

// In the file system of an existing folder. Nothing where it names no sizes. Blocks kept for root
// count as free: what is refused by this number must never have fitted.
std::optional<std::uint64_t> free_bytes(const std::filesystem::path& folder);

}  // namespace zeroshard
