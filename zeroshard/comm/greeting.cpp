#include "zeroshard/comm/greeting.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "zeroshard/base/fnv1a.h"
#include "zeroshard/comm/faults.h"

namespace zeroshard {
namespace {

OperationTag tag_of(const Greeting& greeting) {
  return {.sequence = greeting.sequence,
          .operation = static_cast<Operation>(greeting.operation),
          .label = std::string(greeting.label.data(), greeting.label_bytes),
          .shape = greeting.shape,
          .bytes = greeting.bytes};
}

bool same_call(const Greeting& a, const Greeting& b) {
  return a.sequence == b.sequence && a.operation == b.operation && a.label_hash == b.label_hash &&
         a.shape == b.shape;
}

}  // namespace

bool fits_greeting(const Call& call) {
  if (call.tag.operation == Operation::barrier) return true;
  return call.tag.operation == Operation::all_reduce &&
         call.piece.bytes() <= static_cast<std::int64_t>(sizeof(Greeting::payload));
}

Greeting greeting_of(const Call& call) {
  Greeting greeting;
  greeting.sequence = call.tag.sequence;
  greeting.shape = call.tag.shape;
  greeting.bytes = call.tag.bytes;
  greeting.label_hash = Fnv1a().add(call.tag.label).value();
  greeting.operation = static_cast<std::uint32_t>(call.tag.operation);
  const std::size_t shown = std::min(call.tag.label.size(), greeting.label.size());
  greeting.label_bytes = static_cast<std::uint32_t>(shown);
  std::copy_n(call.tag.label.begin(), shown, greeting.label.begin());
  if (fits_greeting(call) && call.piece.count > 0) {
    std::memcpy(greeting.payload.data(), call.piece.data,
                static_cast<std::size_t>(call.piece.bytes()));
  }
  return greeting;
}

std::exception_ptr disagreement_of(const std::vector<Greeting>& greetings,
                                   const std::vector<bool>& arrived) {
  std::size_t first = 0;
  while (!arrived[first]) ++first;
  for (std::size_t rank = first + 1; rank < greetings.size(); ++rank) {
    const Greeting& one = greetings[first];
    const Greeting& other = greetings[rank];
    if (!arrived[rank] || same_call(one, other)) continue;
    const bool same_name = one.operation == other.operation && one.label_hash == other.label_hash;
    return std::make_exception_ptr(out_of_step({static_cast<int>(first), tag_of(one)},
                                               {static_cast<int>(rank), tag_of(other)}, same_name));
  }
  return nullptr;
}

}  // namespace zeroshard
