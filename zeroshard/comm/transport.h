// What moves bytes between ranks, from every one of them to every other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "zeroshard/comm/operation.h"
#include "zeroshard/comm/options.h"

namespace zeroshard {

class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  // Whatever is under way ends soon.
  virtual void abort() = 0;

  // This has been sent or asked for and is not waited for yet.
  class Pending {
   public:
    virtual ~Pending() = default;
    // Blocks. Throws CommError, with the operation's name, where a rank is gone or silent.
    virtual void wait(const OperationTag& tag) = 0;
  };
  using Round = std::vector<std::unique_ptr<Pending>>;

  using Source = std::function<const void*(int peer)>;
  using Target = std::function<void*(int peer)>;
  // Sends `bytes` to each of the others, and receives as many from each.
  virtual void exchange(std::int64_t bytes, const Source& source, const Target& target,
                        Round& round) = 0;
  // Sends the piece from the root to all others.
  virtual void broadcast(const Piece& piece, int root, Round& round) = 0;

  static void wait(Round& round, const OperationTag& tag) {
    for (const auto& each : round) each->wait(tag);
    round.clear();
  }
};

// Through memory that the ranks of one host share: a copy in and a copy out, both sides at once.
// The ranks introduce themselves by `first`, which is not needed afterwards. The answer is null, on
// all ranks, where they are on several hosts or may not see each other's memory. Collective; errors
// name the operation that the ranks meet for.
std::unique_ptr<Transport> share_memory(Transport& first, const CommOptions& options,
                                        const OperationTag& tag);

}  // namespace zeroshard
