// The first message of every call, from each rank to each: what it is about to do. Payloads move
// once all greetings are there and equal. A few bytes of payload ride along: small operations
// take one exchange.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <vector>

#include "zeroshard/comm/call.h"

namespace zeroshard {

// All greetings have one size, small enough for every transport to send at once.
struct Greeting {
  std::uint64_t sequence = 0;
  std::uint64_t shape = 0;
  std::uint64_t label_hash = 0;  // of the whole label
  std::uint32_t operation = 0;
  std::uint32_t label_bytes = 0;  // of what is below
  // The text itself, so that who finds a difference can name both without asking again.
  std::int64_t bytes = 0;
  std::array<char, 216> label = {};
  std::array<std::byte, 256> payload = {};
};
static_assert(sizeof(Greeting) == 512);

// The answer says whether all of the call's payload is in its greeting.
bool fits_greeting(const Call& call);

Greeting greeting_of(const Call& call);

// The CommError that names both sides where two ranks' greetings differ, else null. By rank; only
// those that have `arrived` are looked at. Once all have, every rank comes to the same words.
std::exception_ptr disagreement_of(const std::vector<Greeting>& greetings,
                                   const std::vector<bool>& arrived);

}  // namespace zeroshard
