// A forward and a backward with sizes in place of numbers: what is allocated when, what autograd
// keeps, and how much that is at most. It does what torch's autograd does, in its order: nodes run
// backward from the last to the first, a node's inputs are let go before what it has saved, and
// gradients that meet are added in place.
//
//   SizeTape tape(64);
//   SizeTensor y = tape.record(tape.make(rows * width, 4), {x}, [x](SizeTape& tape, const Memory&)
//   {
//     return std::vector<Memory>{tape.take(x.bytes())};   // x is kept until this has run
//   });
//   tape.backward(y, tape.take(y.bytes()));
//   tape.peak();
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "zeroshard/layout/activations.h"
#include "zeroshard/layout/checked.h"

namespace zeroshard {

class SizeTape;

// So many bytes, held by whoever holds a copy.
using Memory = std::shared_ptr<const std::int64_t>;

// A tensor, or a view of one: both hold the same memory.
struct SizeTensor {
  Memory memory = nullptr;
  std::int64_t numel = 0;
  int width = 4;   // bytes of an element
  int value = -1;  // whose gradient is asked for; -1: nobody's

  std::int64_t bytes() const { return checked_mul(numel, width); }
  bool needs_gradient() const { return value >= 0; }
  // The same memory with other elements: a view that autograd need not know.
  SizeTensor as(std::int64_t elements) const {
    SizeTensor view = *this;
    view.numel = elements;
    return view;
  }
};

class SizeTape {
 public:
  // An allocator gives whole granules.
  explicit SizeTape(std::int64_t granule) : granule_(granule) {}
  SizeTape(const SizeTape&) = delete;
  SizeTape& operator=(const SizeTape&) = delete;

  // Throws BeyondCounting where a unit would hold more than any device has.
  Memory take(std::int64_t bytes);
  SizeTensor make(std::int64_t numel, int width) {
    return {take(checked_mul(numel, width)), numel, width};
  }
  // Comes from outside, and its gradient is wanted.
  SizeTensor input(std::int64_t numel, int width);

  // Gets the output's gradient; returns those of the inputs, in their order. An input that shares
  // the output's gradient returns just that; one that needs none may return null.
  using Backward = std::function<std::vector<Memory>(SizeTape&, const Memory& gradient)>;
  // Nothing is recorded, and `backward` with all it holds is dropped, where no gradient can flow:
  // no input needs one and `trains`, for the parameters in between, is false. `work`: backward's.
  SizeTensor record(SizeTensor output, const std::vector<SizeTensor>& inputs, bool trains,
                    Backward backward, const Work& work = {});
  // For the backward that is under way: a parameter's gradient, which is taken from autograd when
  // the node has run.
  void parameter_gradient(std::int64_t bytes) { fresh_.push_back(take(bytes)); }

  // Consumes the tape. `gradient` is the output's.
  void backward(SizeTensor output, Memory gradient);
  // Such as computing again does: nothing is recorded while it is off.
  void set_recording(bool on) { recording_ = on; }
  // Parameters' gradients stay, as they do where the engine takes them as they are.
  void hold_gradients(bool on) { holds_ = on; }

  // What is computed, in either direction.
  void work(const Work& done) { work_.add(done); }
  Work take_work() { return std::exchange(work_, {}); }

  std::int64_t now() const { return *now_; }
  std::int64_t peak() const { return peak_; }
  void forget_peak() { peak_ = *now_; }

 private:
  struct Node {
    std::vector<int> inputs;
    int output;
    Backward backward;
    Work work;
  };

  void run(Node& node);
  void add_to(int value, Memory gradient);

  const std::int64_t granule_;
  const std::shared_ptr<std::int64_t> now_ = std::make_shared<std::int64_t>(0);
  std::int64_t peak_ = 0;
  Work work_;
  bool recording_ = true;
  bool holds_ = false;
  std::vector<Node> nodes_;
  std::vector<Memory> gradients_;  // by value
  std::vector<Memory> fresh_;
  std::vector<Memory> held_;
};

}  // namespace zeroshard
