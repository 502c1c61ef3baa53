// What of a model's states a rank holds, by name and by element range: all that checkpoints know of
// an engine. Free of torch.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "zeroshard/base/dtype.h"
#include "zeroshard/layout/span.h"

namespace zeroshard {

struct TensorRecord {
  std::string name;
  std::vector<std::int64_t> shape = {};
  DType dtype = DType::fp32;  // that the model computes with
  bool trained = true;
  std::int64_t updates = 0;  // that it has had
  // Those that some rank holds: "value", and torch's names of moments
  // (docs/checkpoint_format.md). A trained parameter's value is its master.
  std::vector<std::string> states = {};
};

// Elements of one state of a tensor that a rank holds.
struct HeldState {
  std::size_t tensor = 0;  // in tensors()
  std::string state;       // one of the tensor's
  DType dtype = DType::fp32;
  Span elements;  // of the flattened tensor
  // Where the engine finds them.
  std::size_t unit = 0;
  std::size_t group = 0;
  int moment = -1;      // -1: the value
  std::int64_t at = 0;  // the first, counted in what the rank holds of the group
};

class TensorStates {
 public:
  virtual ~TensorStates() = default;

  // The same on every rank.
  virtual const std::vector<TensorRecord>& tensors() const = 0;
  // Of all ranks together every element of every state once: what this rank saves. In the order in
  // which units are updated, what is not trained last.
  virtual const std::vector<HeldState>& owned() const = 0;
  // All that this rank holds, and so what it loads.
  virtual const std::vector<HeldState>& held() const = 0;

  // Some elements of one of those, into host memory and out of it. Values that come in may be of
  // any floating dtype. Parameters follow their masters when everything is written
  // (Core::adopt_masters). write() returns how many values gave their last bit away, as masters in
  // two halves do of exact ties (docs/kernels.md).
  virtual void read(const HeldState& state, const Span& elements, void* into) const = 0;
  virtual std::int64_t write(const HeldState& state, const Span& elements, const void* from,
                             DType dtype) = 0;
  virtual void set_updates(std::size_t tensor, std::int64_t updates) = 0;

  // What is owned of these units is read while training goes on: from here on the update of each
  // waits until end_reading() of it. Between steps; any thread may end it.
  virtual void begin_reading(const std::set<std::size_t>& units) = 0;
  // The same of what is not trained: whoever moves or writes it waits until end_reading() of all.
  virtual void begin_reading_frozen() = 0;
  virtual void end_reading(std::size_t unit) = 0;
  virtual void end_reading() noexcept = 0;  // of all
  // How long updates have waited since.
  virtual std::chrono::nanoseconds waited() const = 0;
};

}  // namespace zeroshard
