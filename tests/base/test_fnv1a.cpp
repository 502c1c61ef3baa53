#include <gtest/gtest.h>

#include "zeroshard/base/fnv1a.h"

namespace zeroshard {
namespace {

// The published vectors of 64-bit FNV-1a.
TEST(Fnv1a, PublishedVectors) {
  EXPECT_EQ(Fnv1a().value(), 0xCBF29CE484222325U);
  EXPECT_EQ(Fnv1a().add("a").value(), 0xAF63DC4C8601EC8CU);
  EXPECT_EQ(Fnv1a().add("foobar").value(), 0x85944171F73967E8U);
}

TEST(Fnv1a, ANumberIsItsBytesLowestFirst) {
  using namespace std::string_view_literals;
  EXPECT_EQ(Fnv1a().add(std::uint64_t{0x6261}).value(), Fnv1a().add("ab\0\0\0\0\0\0"sv).value());
}

}  // namespace
}  // namespace zeroshard
