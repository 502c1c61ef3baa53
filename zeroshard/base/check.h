// Invariants. A failed check is a bug in ZeroShard, never a user's mistake; it throws
// InvariantError with the expression, both operands, the place and the rank.
//
//   ZS_CHECK(!spans.empty(), "unit {} has no parameters", name);
//   ZS_CHECK_EQ(span.size() % kAlignment, 0, "shard of rank {}", rank);
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

namespace zeroshard::check_detail {

struct Place {
  const char* file;
  int line;
};

[[noreturn]] void fail(Place place, std::string_view expression, const std::string& operands,
                       const std::string& message);

inline std::string message() { return {}; }

template <typename... Args>
std::string message(fmt::format_string<Args...> format, Args&&... args) {
  return fmt::format(format, std::forward<Args>(args)...);
}

template <typename A, typename B>
std::string operands(const A& left, const B& right) {
  return fmt::format("{} vs {}", left, right);
}

}  // namespace zeroshard::check_detail

#define ZS_CHECK_PLACE_ \
  ::zeroshard::check_detail::Place { __FILE__, __LINE__ }

#define ZS_CHECK(condition, ...)                                                        \
  do {                                                                                  \
    if (!(condition)) [[unlikely]]                                                      \
      ::zeroshard::check_detail::fail(ZS_CHECK_PLACE_, #condition, {},                  \
                                      ::zeroshard::check_detail::message(__VA_ARGS__)); \
  } while (false)

#define ZS_CHECK_COMPARE_(left, op, right, ...)                                                 \
  do {                                                                                          \
    const auto& zs_left_ = (left);                                                              \
    const auto& zs_right_ = (right);                                                            \
    if (!(zs_left_ op zs_right_)) [[unlikely]]                                                  \
      ::zeroshard::check_detail::fail(ZS_CHECK_PLACE_, #left " " #op " " #right,                \
                                      ::zeroshard::check_detail::operands(zs_left_, zs_right_), \
                                      ::zeroshard::check_detail::message(__VA_ARGS__));         \
  } while (false)

#define ZS_CHECK_EQ(left, right, ...) ZS_CHECK_COMPARE_(left, ==, right, __VA_ARGS__)
#define ZS_CHECK_NE(left, right, ...) ZS_CHECK_COMPARE_(left, !=, right, __VA_ARGS__)
#define ZS_CHECK_LT(left, right, ...) ZS_CHECK_COMPARE_(left, <, right, __VA_ARGS__)
#define ZS_CHECK_LE(left, right, ...) ZS_CHECK_COMPARE_(left, <=, right, __VA_ARGS__)
#define ZS_CHECK_GT(left, right, ...) ZS_CHECK_COMPARE_(left, >, right, __VA_ARGS__)
#define ZS_CHECK_GE(left, right, ...) ZS_CHECK_COMPARE_(left, >=, right, __VA_ARGS__)
