#include "zeroshard/base/nearest.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace zeroshard {
namespace {

constexpr int kLettersPerMistake = 5;
constexpr int kMostMistakes = 2;

bool same_letter(char left, char right) {
  const auto fold = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; };
  return fold(left) == fold(right);
}

int mistakes_allowed(std::string_view word, std::string_view candidate) {
  const int letters = static_cast<int>(std::max(word.size(), candidate.size()));
  if (letters <= 2) return 0;
  return std::clamp(letters / kLettersPerMistake, 1, kMostMistakes);
}

// The words of a name in alphabetical order.
std::vector<std::string_view> words_of(std::string_view name) {
  std::vector<std::string_view> words;
  while (!name.empty()) {
    const std::size_t end = std::min(name.find_first_of("_-"), name.size());
    if (end > 0) words.push_back(name.substr(0, end));
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  std::ranges::sort(words);
  return words;
}

// So that comm_overlap and overlap_comm are one.
std::string sorted_words(std::string_view name) {
  std::string joined;
  for (const std::string_view word : words_of(name)) {
    if (!joined.empty()) joined += '_';
    joined += word;
  }
  return joined;
}

// Letter by letter, or with the words of both put in one order, which counts as one mistake more.
int distance_by_letters_or_words(std::string_view word, std::string_view candidate) {
  const int by_letters = edit_distance(word, candidate);
  const bool one_word = word.find_first_of("_-") == std::string_view::npos;
  if (one_word || by_letters <= 1) return by_letters;
  return std::min(by_letters, edit_distance(sorted_words(word), sorted_words(candidate)) + 1);
}

template <typename Text>
std::optional<std::string> nearest_of(std::string_view word, std::span<const Text> candidates) {
  std::optional<std::string> best;
  int best_distance = kMostMistakes + 1;
  for (std::string_view candidate : candidates) {
    // Every letter too many is a mistake; without this a word of megabytes would take its time.
    const auto [shorter, longer] = std::minmax({word.size(), candidate.size()});
    if (longer - shorter > kMostMistakes) continue;
    const int distance = distance_by_letters_or_words(word, candidate);
    if (distance >= best_distance || distance > mistakes_allowed(word, candidate)) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

}  // namespace

int edit_distance(std::string_view left, std::string_view right) {
  // Row i holds the distances of left's first i letters to every beginning of right.
  std::vector<int> before_last(right.size() + 1), last(right.size() + 1), row(right.size() + 1);
  for (std::size_t j = 0; j <= right.size(); ++j) last[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= left.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= right.size(); ++j) {
      const int replaced = last[j - 1] + (same_letter(left[i - 1], right[j - 1]) ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && same_letter(left[i - 1], right[j - 2]) &&
                           same_letter(left[i - 2], right[j - 1]);
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[right.size()];
}

std::optional<std::string> nearest(std::string_view word,
                                   std::span<const std::string_view> candidates) {
  return nearest_of(word, candidates);
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates) {
  return nearest_of(word, candidates);
}

std::optional<std::string> nearest(std::string_view word,
                                   std::initializer_list<std::string_view> candidates) {
  return nearest_of(word, std::span<const std::string_view>(candidates.begin(), candidates.size()));
}

std::optional<std::string> nearest_by_words(std::string_view name,
                                            std::span<const std::string> candidates) {
  constexpr std::size_t kLeastWords = 2;
  const auto words = words_of(name);
  std::optional<std::string> best;
  std::size_t best_more = 0;
  bool several = false;
  for (const std::string& candidate : candidates) {
    const auto theirs = words_of(candidate);
    if (words.size() < kLeastWords || !std::ranges::includes(theirs, words)) continue;
    const std::size_t missing = theirs.size() - words.size();
    several = best && missing == best_more;
    if (best && missing >= best_more) continue;
    best = candidate;
    best_more = missing;
  }
  return several ? std::nullopt : best;
}

}  // namespace zeroshard
