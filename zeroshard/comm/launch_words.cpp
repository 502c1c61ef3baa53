#include "zeroshard/comm/launch_words.h"

#include <utility>

#include <fmt/format.h>

namespace zeroshard {
namespace {

constexpr const char* kLabels[] = {launch_labels::kNext, launch_labels::kMore,
                                   launch_labels::kDifferent, launch_labels::kIdentifier,
                                   launch_labels::kMeeting};

// Whether it was there. The words are describe()'s: name, label in quotes, number in brackets.
bool rename(std::string& text, const OperationTag& tag) {
  for (const char* const label : kLabels) {
    const std::size_t quote = text.find(fmt::format(" \"{}\" (operation ", label));
    if (quote == std::string::npos) continue;
    const std::size_t space = quote == 0 ? std::string::npos : text.rfind(' ', quote - 1);
    const std::size_t begin = space == std::string::npos ? 0 : space + 1;
    const std::size_t end = text.find(')', quote);
    text.replace(begin, end == std::string::npos ? end : end + 1 - begin, describe(tag));
    return true;
  }
  return false;
}

}  // namespace

// What is known of the other rank stays as it is: its host is where it says.
Fault told_of(Fault fault, const OperationTag& tag) {
  if (tag.label.empty()) return fault;
  bool named = rename(fault.what, tag);
  if (fault.value.starts_with("noticed in ")) named = rename(fault.value, tag) || named;
  if (!named) fault.what = fmt::format("{}, in {}", fault.what, describe(tag));
  return fault;
}

}  // namespace zeroshard
