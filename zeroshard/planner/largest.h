// The largest number that something holds for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace zeroshard {

// `holds` is true up to some number of `least` to `most`, and false beyond. Nothing where it is
// false for `least`. Asked with numbers that double first, so that small answers are found without
// a look at large ones.
template <typename Holds>
std::optional<std::int64_t> largest_that(std::int64_t least, std::int64_t most,
                                         const Holds& holds) {
  if (least > most || !holds(least)) return std::nullopt;
  std::int64_t good = least, bad = most;
  for (std::int64_t step = 1; good < most; step *= 2) {
    const std::int64_t next = good > most - step ? most : good + step;
    if (!holds(next)) {
      bad = next;
      break;
    }
    good = next;
  }
  if (good == most) return most;
  while (bad - good > 1) {
    const std::int64_t middle = good + (bad - good) / 2;
    (holds(middle) ? good : bad) = middle;
  }
  return good;
}

// The same within a share of `tolerance`, where the last digit is worth nobody's time. Asked with
// powers of two times `start` first, so that an answer near it is found at once.
template <typename Holds>
std::optional<std::int64_t> largest_about(std::int64_t start, std::int64_t most, double tolerance,
                                          const Holds& holds) {
  std::int64_t good = start, bad = start;
  while (!holds(good)) {
    if (good == 1) return std::nullopt;
    bad = good;
    good = std::max<std::int64_t>(good / 2, 1);
  }
  while (good >= bad) {
    if (good == most) return most;
    const std::int64_t next = good > most / 2 ? most : 2 * good;
    const bool fits = holds(next);
    if (fits) good = next;
    bad = next;
  }
  while (bad - good > 1 &&
         static_cast<double>(bad - good) > tolerance * static_cast<double>(good)) {
    const std::int64_t middle = good + (bad - good) / 2;
    (holds(middle) ? good : bad) = middle;
  }
  return good;
}

}  // namespace zeroshard
