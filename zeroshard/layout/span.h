// A half-open range of elements, [begin, end), usually of a flat group.
#pragma once

#include <cstdint>
#include <string>

namespace zeroshard {

class Span {
 public:
  Span() = default;

  // 0 <= begin <= end, else InvariantError.
  Span(std::int64_t begin, std::int64_t end);

  std::int64_t begin() const noexcept { return begin_; }
  std::int64_t end() const noexcept { return end_; }
  std::int64_t size() const noexcept { return end_ - begin_; }
  bool empty() const noexcept { return begin_ == end_; }

  bool contains(std::int64_t offset) const noexcept { return begin_ <= offset && offset < end_; }

  // An empty span is contained in every span.
  bool contains(const Span& other) const noexcept {
    return other.empty() || (begin_ <= other.begin_ && other.end_ <= end_);
  }

  // What both hold. Where they hold nothing in common the result is empty.
  Span intersect(const Span& other) const;

  // The same range seen from another origin: `flat.shifted(-shard.begin())` is local to the shard.
  Span shifted(std::int64_t delta) const;

  bool operator==(const Span& other) const = default;

 private:
  std::int64_t begin_ = 0;
  std::int64_t end_ = 0;
};

// "[64, 128)", for messages.
std::string to_string(const Span& span);

}  // namespace zeroshard
