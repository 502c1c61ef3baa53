#include <gtest/gtest.h>

#include "zeroshard/base/utf8.h"

namespace zeroshard {
namespace {

TEST(Utf8, CountsCharactersNotBytes) {
  EXPECT_EQ(character_count(""), 0U);
  EXPECT_EQ(character_count("abc"), 3U);
  EXPECT_EQ(character_count("\xC3\xA9t\xC3\xA9"), 3U);         // two letters with accents
  EXPECT_EQ(character_count("\xE5\xAD\x97\xE6\xAF\x8D"), 2U);  // two Chinese characters
}

TEST(Utf8, CutsBetweenCharacters) {
  EXPECT_EQ(shortened("abcdef", 6), "abcdef");
  EXPECT_EQ(shortened("abcdef", 3), "abc...");
  EXPECT_EQ(shortened("\xE5\xAD\x97\xE6\xAF\x8D", 4), "\xE5\xAD\x97...");
  EXPECT_EQ(shortened("\xE5\xAD\x97", 2), "...");
}

}  // namespace
}  // namespace zeroshard
