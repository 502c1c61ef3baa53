// An error in what hosts say to each other is, for who called an operation, one of that operation:
// it is told in the words that every backend has for it (faults.h).
#pragma once

#include <string>

#include "zeroshard/base/error.h"
#include "zeroshard/comm/operation.h"

namespace zeroshard {

// What hosts say to each other, as labels of their operations.
namespace launch_labels {
inline constexpr const char* kNext = "the next launch";
inline constexpr const char* kMore = "the next launches";
inline constexpr const char* kDifferent = "different launches";
inline constexpr const char* kIdentifier = "NCCL's identifier";
inline constexpr const char* kMeeting = "NCCL's meeting";
}  // namespace launch_labels

// `rank 1 is gone: noticed in all_gather "the next launch" (operation 9)` is told of the operation
// itself. What names none of the above has it at its end; an operation without a label is none.
Fault told_of(Fault fault, const OperationTag& tag);

// Does it, and throws its error as told_of() the operation.
template <typename Body>
auto for_operation(const OperationTag& tag, const Body& body) {
  try {
    return body();
  } catch (const PeerError& error) {
    throw PeerError(told_of(error.fault(), tag));
  } catch (const CommError& error) {
    throw CommError(told_of(error.fault(), tag));
  }
}

}  // namespace zeroshard
