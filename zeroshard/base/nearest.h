// "Did you mean": the known word a mistyped one was probably meant to be.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace zeroshard {

// Optimal string alignment: inserting, deleting or replacing a letter, or swapping two neighbours,
// counts one each. Letters differ in case only at no cost.
int edit_distance(std::string_view left, std::string_view right);

// The closest candidate if it is close enough to be a typing mistake, else nothing; of equally
// close ones the first. Words joined by _ or - may also stand in another order. One mistake per
// five letters passes, at least one and at most two, and words of two letters must agree but for
// case: a wrong suggestion is worse than none.
std::optional<std::string> nearest(std::string_view word,
                                   std::span<const std::string_view> candidates);
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);
std::optional<std::string> nearest(std::string_view word,
                                   std::initializer_list<std::string_view> candidates);

// The one candidate that has all words of the name, two at least, and the fewest others: a hint and
// no more, since a shorter name may well mean something else.
std::optional<std::string> nearest_by_words(std::string_view name,
                                            std::span<const std::string> candidates);

}  // namespace zeroshard
