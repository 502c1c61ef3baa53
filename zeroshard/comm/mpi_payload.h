// A call's payload on its way, cut into rounds. In a round every rank exchanges one part, of at
// most `chunk_bytes`, with every other rank, and then does the part's arithmetic.
//
// Point to point rather than MPI's collectives: reductions need every addend anyway (rank order),
// the number of bytes is the least possible, nothing is copied twice, and a message under way names
// the peer it waits for. On the 2 to 8 ranks this backend is for, trees would save nothing.
//
// A few rounds are under way at once. All ranks post them in the same order, so the earliest
// unfinished round is always posted everywhere and nobody can wait in a circle. Memory for arrivals
// is needed for those few rounds only, not for the whole payload.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "zeroshard/comm/call.h"
#include "zeroshard/comm/mpi_link.h"

namespace zeroshard {

// MPI's tags, of which every MPI allows those to 32767.
int greeting_tag(int lane);
int payload_tag(int lane, std::uint64_t sequence);

// Memory for what arrives before it is summed. Grows, and is used again by later calls.
class MpiArrivals {
 public:
  std::byte* at_least(std::int64_t bytes);

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::int64_t bytes_ = 0;
};

class MpiPayload {
 public:
  static constexpr std::size_t kRoundsUnderWay = 4;

  struct Place {
    int lane;
    std::int64_t chunk_bytes;
  };
  struct Counts {
    std::vector<int>& open_with;  // messages under way, by rank
    std::int64_t& ended;          // messages that got through
  };
  MpiPayload(const Call& call, MpiLink& link, Place place, MpiArrivals& arrivals, Counts counts);

  // Finishes rounds whose messages are through and posts the next; true when none is left.
  bool advance();

 private:
  // Elements [first, first + count) of every rank's slice of one pair, or of the piece.
  struct Part {
    std::size_t pair = 0;
    std::int64_t first = 0;
    std::int64_t count = 0;
  };
  struct Round {
    bool under_way = false;
    int open = 0;
    Part part = {};
    std::byte* arrivals = nullptr;  // chunk_bytes for each rank
  };

  std::size_t pairs() const;
  std::int64_t slice_count(std::size_t pair) const;
  DType dtype(std::size_t pair) const;
  bool needs_arrivals() const;
  std::optional<Part> next_part();
  void post(Round& round, const Part& part);
  void finish(const Round& round) const;
  // Where the part for a peer lies, or goes that comes from it; null where nothing moves.
  const std::byte* outgoing(const Part& part, int peer) const;
  std::byte* incoming(const Round& round, int peer) const;
  std::vector<const void*> addends(const Round& round, const std::byte* own) const;

  const Call& call_;
  MpiLink& link_;
  const int lane_;
  const std::int64_t chunk_bytes_;
  const Counts counts_;
  std::array<Round, kRoundsUnderWay> rounds_ = {};
  Part cursor_ = {};  // the next part starts here
};

}  // namespace zeroshard
