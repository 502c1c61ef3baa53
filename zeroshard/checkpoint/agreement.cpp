#include "zeroshard/checkpoint/agreement.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

constexpr char kWord = 'w';
constexpr char kConfigFault = 'c';
constexpr char kStorageFault = 's';
constexpr char kSeparator = '\x1f';

std::string fault_text(char kind, const Fault& fault) {
  return fmt::format("{}{}{}{}{}{}", kind, fault.what, kSeparator, fault.value, kSeparator,
                     fault.remedy);
}

// What this rank has to tell: a word, or what went wrong.
std::string told_by(const std::function<std::string()>& act) {
  try {
    return kWord + act();
  } catch (const CommError&) {
    throw;
  } catch (const ConfigError& error) {
    return fault_text(kConfigFault, error.fault());
  } catch (const Error& error) {
    return fault_text(kStorageFault, error.fault());
  } catch (...) {
    return fault_text(kStorageFault, {.what = message_of(std::current_exception())});
  }
}

// Every rank's, by rank: each as long as the longest on the way.
std::vector<std::string> gathered(Communicator& comm, const std::string& mine,
                                  const std::string& label) {
  const auto ranks = static_cast<std::size_t>(comm.world_size());
  ZS_CHECK_LE(mine.size(), std::size_t{std::numeric_limits<std::int32_t>::max()},
              "too much to tell");
  auto size = static_cast<std::int32_t>(mine.size());
  std::vector<std::int32_t> sizes(ranks);
  comm.all_gather_into(
          {{{&size, 1, DType::int32}, {sizes.data(), std::ssize(sizes), DType::int32}}}, label)
      .wait();
  const std::int64_t longest = *std::ranges::max_element(sizes);
  std::string padded = mine;
  padded.resize(static_cast<std::size_t>(longest));
  std::string all(ranks * padded.size(), '\0');
  comm.all_gather_into({{{padded.data(), longest, DType::uint8},
                         {all.data(), static_cast<std::int64_t>(all.size()), DType::uint8}}},
                       label)
      .wait();
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    texts.push_back(all.substr(rank * padded.size(), static_cast<std::size_t>(sizes[rank])));
  }
  return texts;
}

Fault fault_in(std::string_view text) {
  const std::size_t value = text.find(kSeparator) + 1;
  const std::size_t remedy = text.find(kSeparator, value) + 1;
  return {.what = std::string(text.substr(1, value - 2)),
          .value = std::string(text.substr(value, remedy - 1 - value)),
          .remedy = std::string(text.substr(remedy))};
}

[[noreturn]] void throw_what(const std::string& told, std::size_t rank, int ranks) {
  Fault fault = fault_in(told);
  if (ranks > 1) fault.what = fmt::format("rank {}: {}", rank, fault.what);
  if (told.front() == kConfigFault) throw ConfigError(std::move(fault));
  throw StorageError(std::move(fault));
}

}  // namespace

std::vector<std::string> all_say(Communicator& comm, const std::function<std::string()>& act,
                                 const std::string& label) {
  std::vector<std::string> told = gathered(comm, told_by(act), label);
  for (std::size_t rank = 0; rank < told.size(); ++rank) {
    if (told[rank].front() != kWord) throw_what(told[rank], rank, comm.world_size());
  }
  for (std::string& word : told) word.erase(0, 1);
  return told;
}

void all_do(Communicator& comm, const std::function<void()>& act, const std::string& label) {
  const auto act_silently = [&]() -> std::string {
    act();
    return {};
  };
  all_say(comm, act_silently, label);
}

std::string first_says(Communicator& comm, const std::function<std::string()>& act,
                       const std::string& label) {
  const auto act_if_first = [&] { return comm.rank() == 0 ? act() : std::string(); };
  return all_say(comm, act_if_first, label).front();
}

}  // namespace zeroshard
