#include "zeroshard/layout/span.h"

#include <algorithm>

#include "zeroshard/layout/checked.h"

namespace zeroshard {

Span::Span(std::int64_t begin, std::int64_t end) : begin_(begin), end_(end) {
  ZS_CHECK_GE(begin, 0, "a span starts before its buffer");
  ZS_CHECK_LE(begin, end, "a span ends before it starts");
}

Span Span::intersect(const Span& other) const {
  const std::int64_t begin = std::max(begin_, other.begin_);
  return Span(begin, std::max(begin, std::min(end_, other.end_)));
}

Span Span::shifted(std::int64_t delta) const {
  return Span(checked_add(begin_, delta), checked_add(end_, delta));
}

std::string to_string(const Span& span) {
  return fmt::format("[{}, {})", span.begin(), span.end());
}

}  // namespace zeroshard
