#include "zeroshard/engine/gradients_down.h"

#include <algorithm>
#include <utility>

#include "zeroshard/engine/settle.h"
#include "zeroshard/engine/tensors.h"
#include "zeroshard/layout/alignment.h"
#include "zeroshard/optim/sum_of_squares.h"

namespace zeroshard {
namespace {

bool is_as_it_is(const ArrayWrite& write) {
  const auto keeps = [&](DType dtype) { return dtype == DType::fp32 || dtype == write.from_dtype; };
  return write.from_dtype == write.to_dtype && !write.adds && write.factor1 == 1.0F &&
         write.factor2 == 1.0F && keeps(write.via1) && keeps(write.via2);
}

ArrayWrite part_of(const ArrayWrite& whole, std::int64_t begin, std::int64_t count) {
  ArrayWrite part = whole;
  part.to = element_at(whole.to, begin, whole.to_dtype);
  part.count = count;
  return part;
}

}  // namespace

GradientsDown::GradientsDown(Device device, std::int64_t passing_bytes, SlotRing& ring,
                             ThreadPool& pool)
    : device_(device),
      passing_limit_(passing_bytes),
      ring_(ring),
      pool_(pool),
      down_(Stream::make(device)),
      worker_(Stream::make(kCpu)) {}

void GradientsDown::send(const at::Tensor& gradient, ArrayWrite write, bool pinned) {
  const at::Tensor whole = gradient.contiguous();
  write.from_dtype = dtype_of(whole, "a gradient");
  write.count = whole.numel();
  if (write.count == 0) return;
  Event made;
  made.record(Stream::current(device_));
  down_.wait(made);
  pinned&& is_as_it_is(write) ? send_straight(whole, write) : send_through_ring(whole, write);
}

// The worker keeps the tensor until it has been copied, since its memory is torch's to give away.
void GradientsDown::send_straight(const at::Tensor& gradient, const ArrayWrite& write) {
  copy_down(write.to, gradient, 0, write.count);
  Event copied;
  copied.record(down_);
  worker_.run([gradient, copied] { copied.synchronize(); });
  bound_what_passes(copied, write.count * bytes_of(write.from_dtype));
}

void GradientsDown::send_through_ring(const at::Tensor& gradient, const ArrayWrite& write) {
  const std::int64_t at_once = ring_.slot_bytes() / bytes_of(write.from_dtype);
  for (std::int64_t begin = 0; begin < write.count; begin += at_once) {
    ArrayWrite part = part_of(write, begin, std::min(at_once, write.count - begin));
    StateBuffer& slot = ring_.next();
    slot.before_write(down_);
    copy_down(slot.data(), gradient, begin, part.count);
    Event copied;
    copied.record(down_);
    part.from = slot.data();
    worker_.run([this, gradient, copied, part] {
      copied.synchronize();
      this->write(part);
    });
    slot.read(worker_);
    bound_what_passes(copied, part.count * bytes_of(write.from_dtype));
  }
}

void GradientsDown::write(const ArrayWrite& whole) {
  constexpr std::int64_t kGrain = 1 << 14;
  pool_.parallel_for(whole.count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    ArrayWrite part = part_of(whole, begin, end - begin);
    part.from = element_at(const_cast<void*>(whole.from), begin, whole.from_dtype);
    write_arrays(kCpu, {part});
  });
}

void GradientsDown::copy_down(void* to, const at::Tensor& gradient, std::int64_t begin,
                              std::int64_t count) {
  const DType dtype = dtype_of(gradient, "a gradient");
  copy_bytes(down_, to, kCpu, element_at(gradient.mutable_data_ptr(), begin, dtype), device_,
             count * bytes_of(dtype));
}

// Backward may make gradients faster than they are copied, and memory is what offloading is for.
void GradientsDown::bound_what_passes(const Event& copied, std::int64_t bytes) {
  passing_.push_back({copied, bytes});
  passing_bytes_ += bytes;
  while (passing_.front().copied.done() || passing_bytes_ > passing_limit_) {
    passing_.front().copied.synchronize();
    passing_bytes_ -= passing_.front().bytes;
    passing_.pop_front();
    if (passing_.empty()) break;
  }
}

std::shared_ptr<const double> GradientsDown::sum_of_squares(NormSpan values) {
  auto sum = std::make_shared<double>(0.0);
  worker_.run(
      [this, sum, values = std::move(values)] { *sum = zeroshard::sum_of_squares(values, pool_); });
  return sum;
}

// The worker waits for each copy before it goes on.
Event GradientsDown::landed() const {
  Event event;
  event.record(worker_);
  return event;
}

void GradientsDown::finish() {
  worker_.synchronize();
  down_.synchronize();
}

void GradientsDown::settle() noexcept {
  settle_one([&] { worker_.synchronize(); });
  settle_one([&] { down_.synchronize(); });
}

}  // namespace zeroshard
