#include "zeroshard/checkpoint/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/checkpoint/float_values.h"

namespace zeroshard {
namespace {

std::string text_of(const RunNumbers::Number& number) {
  return std::visit([](auto value) { return fmt::format("{}", value); }, number);
}

// How far two elements are apart: 0 for types that are no floating point, and infinite where one is
// no number.
double distance(const std::byte* first, const std::byte* second, StoredDType dtype) {
  const std::optional<DType> known = dtype.dtype();
  if (!is_float(known)) return 0.0;
  const double apart = std::abs(double{float_at(first, *known)} - double{float_at(second, *known)});
  return std::isnan(apart) ? std::numeric_limits<double>::infinity() : apart;
}

class Comparer {
 public:
  Comparer(const StateFiles& first, const StateFiles& second)
      : first_(first),
        second_(second),
        first_reader_(first.reader()),
        second_reader_(second.reader()) {}

  Comparison run() {
    first_reader_.check_files();
    second_reader_.check_files();
    for (const StoredTensor& tensor : first_.manifest().tensors) {
      const StoredTensor* const other = second_.find(tensor.name);
      if (other == nullptr) {
        result_.only_in_first.push_back(tensor.name);
      } else {
        compare_tensors(tensor, *other);
      }
    }
    for (const StoredTensor& tensor : second_.manifest().tensors) {
      if (first_.find(tensor.name) == nullptr) result_.only_in_second.push_back(tensor.name);
    }
    compare_numbers();
    return std::move(result_);
  }

 private:
  void compare_tensors(const StoredTensor& tensor, const StoredTensor& other) {
    for (const auto& [name, state] : tensor.states) {
      const auto found = other.states.find(name);
      if (found == other.states.end()) {
        result_.only_in_first.push_back(fmt::format("{} of {}", name, tensor.name));
        continue;
      }
      StateDifference difference{.tensor = tensor.name, .state = name};
      if (tensor.shape != other.shape) {
        difference.what = "has another shape";
      } else if (state.dtype != found->second.dtype) {
        difference.what =
            fmt::format("is {} and {}", state.dtype.name(), found->second.dtype.name());
      } else {
        compare_values(tensor, state, found->second, difference);
      }
      if (difference.what.empty() && difference.elements == 0) {
        ++result_.equal_states;
      } else {
        result_.differences.push_back(std::move(difference));
      }
    }
    for (const auto& [name, state] : other.states) {
      if (tensor.states.contains(name)) continue;
      result_.only_in_second.push_back(fmt::format("{} of {}", name, tensor.name));
    }
  }

  void compare_values(const StoredTensor& tensor, const StoredState& one, const StoredState& other,
                      StateDifference& difference) {
    difference.of_elements = tensor.numel();
    const auto block = static_cast<std::int64_t>(kChunkBytes / one.element_bytes());
    for (std::int64_t begin = 0; begin < difference.of_elements; begin += block) {
      const Span span(begin, std::min(begin + block, difference.of_elements));
      read(first_reader_, one, span, first_block_);
      read(second_reader_, other, span, second_block_);
      if (first_block_ != second_block_) compare_blocks(one.dtype, begin, difference);
    }
  }

  static void read(RangeReader& reader, const StoredState& state, const Span& span,
                   std::vector<std::byte>& into) {
    const std::uint64_t width = state.element_bytes();
    into.resize(static_cast<std::size_t>(span.size()) * width);
    reader.read({{&state, span}},
                [&](std::size_t, const Span& elements, std::span<const std::byte> bytes) {
                  const auto at = static_cast<std::size_t>(elements.begin() - span.begin());
                  std::memcpy(into.data() + at * width, bytes.data(), bytes.size());
                });
  }

  void compare_blocks(StoredDType dtype, std::int64_t begin, StateDifference& difference) {
    const std::size_t width = dtype.bytes();
    for (std::size_t at = 0; at < first_block_.size(); at += width) {
      const std::byte* const one = first_block_.data() + at;
      const std::byte* const other = second_block_.data() + at;
      if (std::memcmp(one, other, width) == 0) continue;
      const auto element = begin + static_cast<std::int64_t>(at / width);
      if (difference.elements++ == 0) difference.first = element;
      difference.largest = std::max(difference.largest, distance(one, other, dtype));
    }
  }

  void compare_numbers() {
    const auto& one = first_.manifest().run.all();
    const auto& other = second_.manifest().run.all();
    for (const auto& [name, number] : one) {
      const auto found = other.find(name);
      if (found == other.end()) {
        result_.numbers.push_back(fmt::format("{}: {} and none", name, text_of(number)));
      } else if (found->second != number) {
        result_.numbers.push_back(
            fmt::format("{}: {} and {}", name, text_of(number), text_of(found->second)));
      }
    }
    for (const auto& [name, number] : other) {
      if (one.contains(name)) continue;
      result_.numbers.push_back(fmt::format("{}: none and {}", name, text_of(number)));
    }
  }

  const StateFiles& first_;
  const StateFiles& second_;
  RangeReader first_reader_;
  RangeReader second_reader_;
  std::vector<std::byte> first_block_;
  std::vector<std::byte> second_block_;
  Comparison result_;
};

}  // namespace

Comparison compare(const StateFiles& first, const StateFiles& second) {
  return Comparer(first, second).run();
}

}  // namespace zeroshard
