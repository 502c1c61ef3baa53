// Which streams used some memory last. It owns no memory: it orders the streams that share it.
//
//   StreamUses uses;
//   uses.before_write(side);     // what `side` is given from now on comes after all uses so far
//   side.run(update);
//   uses.before_read(compute);   // what `compute` is given from now on comes after the update
//   forward();
//
// Nothing is recorded while one and the same stream uses the memory. A use keeps its stream, and
// the event is recorded when another stream comes: it then covers all that the first stream has
// been given until that moment. So every use is announced before its work is given, and its work is
// given before the next use is announced. One thread at a time may announce them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "zeroshard/device/event.h"

namespace zeroshard {

class StreamUses {
 public:
  // Waits for all writes, and notes that `stream` reads. The host waits only where `stream` is the
  // calling thread's own, or where an accelerator has to wait for a stream of the CPU.
  void before_read(const Stream& stream);
  // Waits for all writes and all reads, and notes that `stream` writes.
  void before_write(const Stream& stream);
  // Blocks until all uses are over, and throws nothing: the memory may go.
  void wait_until_over() noexcept;

  // The same in two steps, for who notes a use after its work was given (Buffer does). The event of
  // a side stream is then recorded at once: who comes next waits for this use, not for what the
  // stream is given meanwhile; a CPU's thread stays free to end, and failures stay with the memory.
  void wait_for_writes(const Stream& stream) { wait_for(writes_, stream); }
  void wait_for_all(const Stream& stream);
  void wrote(const Stream& stream);
  void read(const Stream& stream);

 private:
  // The last use by one stream.
  struct Use {
    Device device;
    std::int64_t stream_id = 0;
    std::optional<Stream> unrecorded = {};  // the stream, until its event is recorded
    Event event = {};

    bool is_by(const Stream& stream) const {
      return device == stream.device() && stream_id == stream.id();
    }
    const Event& recorded();
    // Uses that failed stay: who comes next must hear of it.
    bool is_over_and_well() const { return !unrecorded && event.done() && !event.failed(); }
  };
  using Uses = std::vector<Use>;

  static Use* note(Uses& uses, const Stream& stream);
  static void wait_for(Uses& uses, const Stream& stream);
  static void wait_until_over(Use& use) noexcept;

  Uses writes_, reads_;
};

}  // namespace zeroshard
