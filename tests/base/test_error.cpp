#include <gtest/gtest.h>

#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

TEST(Error, MessageHasAreaWhatValueAndRemedy) {
  const ConfigError error(
      {.what = "stage is out of range", .value = "7", .remedy = "choose 0 to 3"});
  EXPECT_STREQ(error.what(), "[config] stage is out of range: 7; choose 0 to 3");
  EXPECT_EQ(error.fault().what, "stage is out of range");
  EXPECT_EQ(error.fault().value, "7");
  EXPECT_EQ(error.fault().remedy, "choose 0 to 3");
}

TEST(Error, EmptyPartsAreLeftOut) {
  EXPECT_EQ(format_fault("comm", {.what = "peer is gone", .value = "", .remedy = ""}),
            "[comm] peer is gone");
  EXPECT_EQ(format_fault("comm", {.what = "peer is gone", .value = "rank 3", .remedy = ""}),
            "[comm] peer is gone: rank 3");
  EXPECT_EQ(format_fault("comm", {.what = "peer is gone", .value = "", .remedy = "restart"}),
            "[comm] peer is gone; restart");
}

template <typename E>
E error_with(const char* what) {
  return E({.what = what, .value = "", .remedy = ""});
}

TEST(Error, OnlyTheUsersMistakesExitWithTwo) {
  EXPECT_EQ(error_with<ConfigError>("x").exit_code(), 2);
  EXPECT_EQ(error_with<CommError>("x").exit_code(), 1);
  EXPECT_EQ(error_with<StorageError>("x").exit_code(), 1);
  EXPECT_EQ(error_with<StateError>("x").exit_code(), 1);
  EXPECT_EQ(error_with<InvariantError>("x").exit_code(), 1);
}

TEST(Error, AreasTellTheKindsApart) {
  EXPECT_STREQ(error_with<ConfigError>("x").what(), "[config] x");
  EXPECT_STREQ(error_with<CommError>("x").what(), "[comm] x");
  EXPECT_STREQ(error_with<StorageError>("x").what(), "[storage] x");
  EXPECT_STREQ(error_with<StateError>("x").what(), "[state] x");
  EXPECT_STREQ(error_with<InvariantError>("x").what(), "[internal] x");
}

TEST(Error, AllAreCaughtAsTheBase) {
  EXPECT_THROW(throw error_with<StorageError>("disk full"), Error);
  EXPECT_THROW(throw error_with<CommError>("gone"), std::runtime_error);
}

TEST(Error, TorchsStackTracesAreNotShown) {
  const auto thrown = std::make_exception_ptr(std::runtime_error(
      "sizes differ\nException raised from add at a.cpp:7 (most recent call first):\nframe #0"));
  EXPECT_EQ(message_of(thrown), "sizes differ");
  EXPECT_EQ(message_of(std::make_exception_ptr(std::runtime_error("two\nlines"))), "two\nlines");
  const std::runtime_error frames("no memory\nframe #0: c10::alloc_cpu\nframe #1: main\n");
  EXPECT_EQ(message_of(std::make_exception_ptr(frames)), "no memory");
}

}  // namespace
}  // namespace zeroshard
