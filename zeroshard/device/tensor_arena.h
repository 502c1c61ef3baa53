// Memory for tensors on the CPU. A step asks for the same sizes in the same order as the one before
// it, so whoever keeps what comes back has it all at hand: no page is made a second time, and what
// the process holds is what its tensors have held at most. Malloc puts small things between the
// large ones, which then leave holes, and gives pages back that the next step makes again.
//
//   TensorArena arena(most_bytes);          // addresses; no memory yet
//   void* const data = arena.take(bytes);   // null: no addresses are left
//   arena.give_back(data);
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace zeroshard {

// Any thread may use it.
class TensorArena {
 public:
  // Where the system refuses so many addresses it has none, and take() gives nothing.
  explicit TensorArena(std::int64_t most_bytes);
  ~TensorArena();
  TensorArena(const TensorArena&) = delete;
  TensorArena& operator=(const TensorArena&) = delete;

  // The smallest gap that is long enough; beyond all of them where none is. 64-byte aligned.
  void* take(std::int64_t bytes);
  void give_back(void* data);
  bool owns(const void* data) const { return data >= begin_ && data < begin_ + most_; }
  // Of a piece that take() gave.
  std::int64_t bytes_of(const void* data) const;
  // The pages of all gaps go back to the system, until somebody writes there again.
  void trim();
  // From the first address to the last that was ever given out.
  std::int64_t extent() const;

 private:
  using Gaps = std::map<std::int64_t, std::int64_t>;  // bytes by where they begin

  bool grow(std::int64_t end);
  void add_gap(std::int64_t begin, std::int64_t bytes);
  void remove_gap(Gaps::iterator gap);

  mutable std::mutex mutex_;
  std::byte* begin_ = nullptr;
  std::int64_t most_ = 0;
  std::int64_t top_ = 0;                                   // what lies behind was never given out
  std::int64_t usable_ = 0;                                // up to here there may be pages
  std::map<std::int64_t, std::int64_t> taken_;             // bytes by where they begin
  Gaps gaps_;                                              // below the top; neighbours are joined
  std::set<std::pair<std::int64_t, std::int64_t>> sizes_;  // the gaps by (bytes, begin)
};

}  // namespace zeroshard
