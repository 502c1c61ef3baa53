// With one rank: gradients of units whose G is on the host are copied down while backward goes on.
//
//   down.send(gradient, {.to = g, .to_dtype = DType::bf16, ...}, reduced.pinned());
//   down.finish();   // all that was sent is in G, and the host may read it
//
// A gradient that is G as it is goes straight there, where G is pinned: the driver would hold the
// caller up else. Another one goes through a ring of host memory, and is scaled, rounded or added
// from there by a thread of the host.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include <ATen/core/Tensor.h>

#include "zeroshard/base/thread_pool.h"
#include "zeroshard/engine/slot_ring.h"
#include "zeroshard/numeric/arrays.h"
#include "zeroshard/optim/norm_span.h"

namespace zeroshard {

class GradientsDown {
 public:
  // Not much more than `passing_bytes` of gradients are kept on the device until they are copied.
  GradientsDown(Device device, std::int64_t passing_bytes, SlotRing& ring, ThreadPool& pool);
  GradientsDown(const GradientsDown&) = delete;
  GradientsDown& operator=(const GradientsDown&) = delete;

  // `write` says what becomes of the gradient's elements; its `from` is set here. What is sent
  // later to the same memory comes after it. The gradient's memory stays until it has been copied.
  // `pinned`: of the memory that is written (StateBuffer::pinned()).
  void send(const at::Tensor& gradient, ArrayWrite write, bool pinned);
  // The sum of squares of `values`, which are on the host, once what was sent so far is there. It
  // can be read after finish().
  std::shared_ptr<const double> sum_of_squares(NormSpan values);
  // When all that was sent so far is there.
  Event landed() const;
  // Blocks the host until all is there, and throws what went wrong.
  void finish();
  // Nothing touches what was sent, nor where it goes, any more. What went wrong is dropped.
  void settle() noexcept;

 private:
  void send_straight(const at::Tensor& gradient, const ArrayWrite& write);
  void send_through_ring(const at::Tensor& gradient, const ArrayWrite& write);
  void write(const ArrayWrite& whole);
  void copy_down(void* to, const at::Tensor& gradient, std::int64_t begin, std::int64_t count);
  void bound_what_passes(const Event& copied, std::int64_t bytes);

  struct Passing {
    Event copied;
    std::int64_t bytes = 0;
  };

  const Device device_;
  const std::int64_t passing_limit_;
  SlotRing& ring_;
  ThreadPool& pool_;
  std::deque<Passing> passing_;
  std::int64_t passing_bytes_ = 0;
  Stream down_;
  Stream worker_;
};

}  // namespace zeroshard
