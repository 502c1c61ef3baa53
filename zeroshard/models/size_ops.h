// The operators of the models, as they take memory: what each makes, saves for its backward, and
// needs meanwhile. One function here for one operator there; tests hold them to torch's allocator.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "zeroshard/layout/activations.h"
#include "zeroshard/models/size_tape.h"

namespace zeroshard {

inline constexpr int kInt64 = 8;  // bytes of a token

// What an allocator rounds to.
constexpr std::int64_t granule_of(const ComputeDevice& device) {
  return device.accelerator ? 512 : 64;
}

// Tokens of a micro-batch. Throws BeyondCounting where the largest tensor of them, of so many
// columns, is beyond counting; what is left of 64 bits is enough for operators to add up and to
// widen.
std::int64_t countable_rows(std::int64_t micro_batch, std::int64_t length, std::int64_t columns);
// Throws BeyondCounting where the states of so many parameters are beyond counting.
void check_countable(std::int64_t parameters);

class SizeOps {
 public:
  // `width`: bytes of a parameter's element. `trains`: parameters have gradients.
  SizeOps(SizeTape& tape, const ComputeDevice& device, int width, bool trains = true)
      : tape_(tape), device_(device), width_(width), trains_(trains) {}

  SizeTape& tape() const { return tape_; }
  const ComputeDevice& device() const { return device_; }
  int width() const { return width_; }

  struct Matrix {
    std::int64_t inputs = 0;
    std::int64_t outputs = 0;
    bool bias = false;
    std::optional<bool> trains = {};  // unset: as all parameters
  };
  SizeTensor linear(const SizeTensor& x, const Matrix& matrix) const;
  // linear() of which the values are known: residual.h.
  SizeTensor known_linear(const SizeTensor& x, const Matrix& matrix) const;
  SizeTensor layer_norm(const SizeTensor& x, std::int64_t width) const;
  SizeTensor rms_norm(const SizeTensor& x, std::int64_t width) const;
  SizeTensor gelu(const SizeTensor& x) const { return keeping_input(x); }
  SizeTensor relu(const SizeTensor& x) const { return keeping_output(x); }
  SizeTensor swiglu(const SizeTensor& gate, const SizeTensor& up) const;
  // Operators of one input, by what of it their backward needs.
  SizeTensor keeping_input(const SizeTensor& x) const { return unary(x, x); }     // pow, silu
  SizeTensor keeping_output(const SizeTensor& x) const;                           // tanh, softmax
  SizeTensor keeping_nothing(const SizeTensor& x) const { return unary(x, {}); }  // times a number
  SizeTensor dropout(const SizeTensor& x) const;
  // 1 / sqrt(mean(x^2)), a number for each of so many rows.
  SizeTensor root_mean_square(const SizeTensor& x, std::int64_t rows) const;
  // Each row times a parameter.
  SizeTensor times_parameter(const SizeTensor& x, std::int64_t width) const;
  SizeTensor add(const SizeTensor& a, const SizeTensor& b) const;
  SizeTensor mul(const SizeTensor& a, const SizeTensor& b) const;
  SizeTensor to(const SizeTensor& x, int width) const;
  // Views that share the whole's memory, of these numbers of elements.
  std::vector<SizeTensor> split(const SizeTensor& x, const std::vector<std::int64_t>& parts) const;
  // The part of a tensor that other parts of it are used beside.
  SizeTensor narrow(const SizeTensor& x, std::int64_t numel) const;
  SizeTensor cat(const std::vector<SizeTensor>& parts) const;
  // Rows of a table that is a parameter.
  SizeTensor embedding(std::int64_t rows, std::int64_t width, std::int64_t table_rows) const;
  // Adds the first `length` rows of a parameter to each of `batch` sequences.
  struct Positions {
    std::int64_t batch = 1;
    std::int64_t length = 1;
    std::int64_t table_rows = 1;
    std::int64_t width = 1;
  };
  SizeTensor add_positions(const SizeTensor& x, const Positions& positions) const;
  // Turns `halves` of each head against each other: rotary.h.
  SizeTensor rotate(const SizeTensor& x) const;

  struct Heads {
    std::int64_t batch = 1;
    std::int64_t length = 1;
    std::int64_t heads = 1;
    std::int64_t kv_heads = 1;
    std::int64_t width = 1;
  };
  SizeTensor attention(const SizeTensor& queries, const SizeTensor& keys, const SizeTensor& values,
                       const Heads& shape) const;
  // The loss in the memory of the logits: cross_entropy.h.
  SizeTensor consuming_cross_entropy(const SizeTensor& logits, std::int64_t rows) const;
  // The loss as torch has it.
  SizeTensor cross_entropy(const SizeTensor& logits) const;

 private:
  static Work forward_work(const SizeTensor& x, const Matrix& matrix);
  static Work backward_work(const SizeTensor& x, bool trains, const Work& once);
  SizeTensor widened_linear(const SizeTensor& x, const Matrix& matrix) const;
  std::int64_t packing_bytes(const Matrix& matrix) const;
  SizeTensor unary(const SizeTensor& x, const SizeTensor& saved) const;
  std::int64_t attention_forward_bytes(const Heads& shape) const;
  std::int64_t attention_backward_bytes(const Heads& shape) const;

  SizeTape& tape_;
  const ComputeDevice device_;
  const int width_;
  const bool trains_;
};

}  // namespace zeroshard
