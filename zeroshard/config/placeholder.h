// Texts that stand for something else: a template that nobody has filled in, and a file of git-lfs
// that was not fetched.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace zeroshard::config {

inline constexpr const char* kPlaceholder = "a template's placeholder";
inline constexpr const char* kFillTemplate = "fill the template in first";

// Whether a value is one: "{{ batch }}", "${BATCH}", "$BATCH", "<batch size>", "%(batch)s".
bool is_placeholder(std::string_view value);

struct FoundPlaceholder {
  std::size_t offset = 0;
  std::string text;
};

// The first one that stands in a text where a value should, outside of quotes and comments.
std::optional<FoundPlaceholder> find_placeholder(std::string_view text);

// What `git clone` leaves in a file's place where git-lfs is not installed.
bool is_git_lfs_pointer(std::string_view text);

}  // namespace zeroshard::config
