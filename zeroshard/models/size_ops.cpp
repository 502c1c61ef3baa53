#include "zeroshard/models/size_ops.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/bytes.h"

namespace zeroshard {
namespace {

constexpr int kFp32 = 4;
// What oneDNN packs a product of bf16 with, and sums up a bias's gradient in, by column.
constexpr std::int64_t kPackingBytes = 128 << 10;
constexpr std::int64_t kPackingBytesOfColumn = 64;
constexpr std::int64_t kSumBytesOfColumn = 350;

using Gradients = std::vector<Memory>;

// So many reads and writes of so many bytes by one operator.
Work passes(std::int64_t bytes, double count) {
  return {.moved_bytes = static_cast<double>(bytes) * count, .operators = 1};
}

Work product(double flops) { return {.product_flops = flops, .operators = 1}; }

Memory gradient_of(SizeTape& tape, const SizeTensor& x) {
  return x.needs_gradient() ? tape.take(x.bytes()) : nullptr;
}

// Of elements that one tensor may have, and parameters that a model may.
constexpr double kMostElements = static_cast<double>(std::int64_t{1} << 44U);
constexpr std::int64_t kMostParameters = 100'000'000'000'000'000;

}  // namespace

std::int64_t countable_rows(std::int64_t micro_batch, std::int64_t length, std::int64_t columns) {
  const double elements = static_cast<double>(micro_batch) * static_cast<double>(length) *
                          static_cast<double>(std::max<std::int64_t>(columns, 1));
  if (elements > kMostElements) {
    throw BeyondCounting({.what = "the micro-batch is more than any device holds",
                          .value = fmt::format("{} samples of {} tokens, with {} columns",
                                               micro_batch, length, columns),
                          .remedy = "make --micro-batch, --seq or the model smaller"});
  }
  return micro_batch * length;
}

void check_countable(std::int64_t parameters) {
  if (parameters <= kMostParameters) return;
  throw BeyondCounting({.what = "the model's size is out of range",
                        .value = human_count(parameters),
                        .remedy = "give at most " + human_count(kMostParameters)});
}

SizeTensor SizeOps::linear(const SizeTensor& x, const Matrix& matrix) const {
  if (device_.widens && width_ < kFp32) return widened_linear(x, matrix);
  const std::int64_t rows = x.numel / matrix.inputs;
  const bool trains = matrix.trains.value_or(trains_);
  const Work once = forward_work(x, matrix);
  tape_.work(once);
  SizeTensor kept = x;
  if (!trains) kept.memory = nullptr;  // for the weight's gradient alone
  const std::int64_t packing = packing_bytes(matrix);
  SizeTensor out = tape_.make(rows * matrix.outputs, width_);
  { const Memory packed = tape_.take(packing); }
  return tape_.record(
      std::move(out), {x}, trains,
      [kept, matrix, trains, packing, width = width_](SizeTape& tape, const Memory&) {
        Memory of_x = gradient_of(tape, kept);
        if (trains) tape.parameter_gradient(matrix.inputs * matrix.outputs * width);
        const Memory packed = tape.take(packing);
        if (trains && matrix.bias) tape.parameter_gradient(matrix.outputs * width);
        return Gradients{of_x};
      },
      backward_work(x, trains, once));
}

Work SizeOps::forward_work(const SizeTensor& x, const Matrix& matrix) {
  return product(2.0 * static_cast<double>(x.numel) * static_cast<double>(matrix.outputs));
}

// A product for each gradient that is wanted.
Work SizeOps::backward_work(const SizeTensor& x, bool trains, const Work& once) {
  Work work;
  if (x.needs_gradient()) work.add(once);
  if (trains) work.add(once);
  return work;
}

std::int64_t SizeOps::packing_bytes(const Matrix& matrix) const {
  if (device_.accelerator || width_ == kFp32) return 0;
  const std::int64_t of_column =
      kPackingBytesOfColumn + (matrix.bias ? kSumBytesOfColumn : std::int64_t{0});
  return kPackingBytes + matrix.outputs * of_column;
}

SizeTensor SizeOps::known_linear(const SizeTensor& x, const Matrix& matrix) const {
  return tape_.record(
      {.numel = x.numel / matrix.inputs * matrix.outputs, .width = width_}, {x}, trains_,
      [x, matrix, width = width_](SizeTape& tape, const Memory&) {
        Memory of_x = gradient_of(tape, x);
        tape.parameter_gradient(matrix.inputs * matrix.outputs * width);
        if (matrix.bias) tape.parameter_gradient(matrix.outputs * width);
        return Gradients{of_x};
      },
      backward_work(x, trains_, forward_work(x, matrix)));
}

SizeTensor SizeOps::widened_linear(const SizeTensor& x, const Matrix& matrix) const {
  const std::int64_t rows = x.numel / matrix.inputs;
  const std::int64_t weights = matrix.inputs * matrix.outputs;
  SizeTensor out;
  {
    const Memory wide_x = tape_.take(x.numel * kFp32), wide_weight = tape_.take(weights * kFp32);
    const Memory product = tape_.take(rows * matrix.outputs * kFp32);
    out = tape_.make(rows * matrix.outputs, width_);
  }
  const bool trains = matrix.trains.value_or(trains_);
  const Work once = forward_work(x, matrix);
  tape_.work(once);
  tape_.work(passes(x.numel + weights + out.numel, kFp32 + width_));
  Work backward = backward_work(x, trains, once);
  backward.add(passes(2 * (x.numel + weights + out.numel), kFp32 + width_));
  return tape_.record(
      std::move(out), {x}, trains,
      [x, matrix, trains, rows, weights, width = width_](SizeTape& tape, const Memory&) {
        const Memory wide = tape.take(rows * matrix.outputs * kFp32);
        Memory of_x;
        if (x.needs_gradient()) {
          const Memory wide_weight = tape.take(weights * kFp32);
          const Memory product = tape.take(x.numel * kFp32);
          of_x = tape.take(x.bytes());
        }
        if (trains) {
          const Memory wide_x = tape.take(x.numel * kFp32), product = tape.take(weights * kFp32);
          tape.parameter_gradient(weights * width);
          if (matrix.bias) tape.parameter_gradient(matrix.outputs * width);
        }
        return Gradients{of_x};
      },
      backward);
}

SizeTensor SizeOps::layer_norm(const SizeTensor& x, std::int64_t width) const {
  const std::int64_t rows = x.numel / width;
  const SizeTensor statistics = tape_.make(2 * rows, kFp32);
  tape_.work(passes(x.bytes(), 2));
  return tape_.record(
      tape_.make(x.numel, x.width), {x}, trains_,
      [x, statistics, width, trains = trains_](SizeTape& tape, const Memory&) {
        Memory of_x = gradient_of(tape, x);
        if (trains) tape.parameter_gradient(2 * width * x.width);
        return Gradients{of_x};
      },
      passes(x.bytes(), 5));
}

// On the CPU torch puts it together of simple operators, in fp32.
SizeTensor SizeOps::rms_norm(const SizeTensor& x, std::int64_t width) const {
  const std::int64_t rows = x.numel / width;
  if (device_.accelerator) {
    const SizeTensor statistics = tape_.make(rows, kFp32);
    tape_.work(passes(x.bytes(), 2));
    return tape_.record(
        tape_.make(x.numel, x.width), {x}, trains_,
        [x, statistics, width, trains = trains_](SizeTape& tape, const Memory&) {
          Memory of_x = gradient_of(tape, x);
          if (trains) tape.parameter_gradient(width * x.width);
          return Gradients{of_x};
        },
        passes(x.bytes(), 5));
  }
  const SizeTensor wide = to(x, kFp32);
  const SizeTensor normal = mul(wide, root_mean_square(wide, rows));
  return to(times_parameter(normal, width), x.width);
}

SizeTensor SizeOps::root_mean_square(const SizeTensor& x, std::int64_t rows) const {
  const Memory squares = tape_.take(x.bytes());
  tape_.work(passes(x.bytes(), 3));
  return tape_.record(
      tape_.make(2 * rows, x.width), {x}, false,
      [x](SizeTape& tape, const Memory&) {
        const Memory of_squares = tape.take(x.bytes());  // a row's, over all of it
        const Memory powers = tape.take(x.bytes()), doubled = tape.take(x.bytes());
        return Gradients{tape.take(x.bytes())};
      },
      passes(x.bytes(), 8));
}

SizeTensor SizeOps::unary(const SizeTensor& x, const SizeTensor& saved) const {
  tape_.work(passes(x.bytes(), 2));
  return tape_.record(
      tape_.make(x.numel, x.width), {x}, false,
      [saved, bytes = x.bytes()](SizeTape& tape, const Memory&) {
        return Gradients{tape.take(bytes)};
      },
      passes(x.bytes(), 3));
}

SizeTensor SizeOps::keeping_output(const SizeTensor& x) const {
  const SizeTensor out = tape_.make(x.numel, x.width);
  tape_.work(passes(x.bytes(), 2));
  return tape_.record(
      out, {x}, false,
      [out](SizeTape& tape, const Memory&) { return Gradients{tape.take(out.bytes())}; },
      passes(x.bytes(), 3));
}

// A byte for each element says which ones stay.
SizeTensor SizeOps::dropout(const SizeTensor& x) const { return unary(x, tape_.make(x.numel, 1)); }

SizeTensor SizeOps::times_parameter(const SizeTensor& x, std::int64_t width) const {
  const SizeTensor saved = trains_ ? x : SizeTensor{};
  tape_.work(passes(x.bytes(), 2));
  return tape_.record(
      tape_.make(x.numel, x.width), {x}, trains_,
      [saved, needs = x.needs_gradient(), bytes = x.bytes(), width, trains = trains_, own = width_](
          SizeTape& tape, const Memory&) {
        const Memory of_weight = trains ? tape.take(bytes) : nullptr;
        Memory of_x = needs ? tape.take(bytes) : nullptr;
        if (trains) tape.parameter_gradient(width * own);
        return Gradients{of_x};
      },
      passes(x.bytes(), 6));
}

SizeTensor SizeOps::swiglu(const SizeTensor& gate, const SizeTensor& up) const {
  if (!device_.accelerator || gate.width == kFp32) return mul(keeping_input(gate), up);
  tape_.work(passes(gate.bytes(), 3));
  return tape_.record(
      tape_.make(gate.numel, gate.width), {gate, up}, false,
      [gate, up](SizeTape& tape, const Memory&) {
        Memory of_gate = tape.take(gate.bytes());
        return Gradients{std::move(of_gate), tape.take(up.bytes())};
      },
      passes(gate.bytes(), 5));
}

SizeTensor SizeOps::add(const SizeTensor& a, const SizeTensor& b) const {
  tape_.work(passes(a.bytes(), 3));
  return tape_.record(
      tape_.make(a.numel, a.width), {a, b}, false,
      [](SizeTape&, const Memory& gradient) {
        return Gradients{gradient, gradient};
      },
      passes(a.bytes(), 3));  // where the two meet again they are added
}

// `b` may be as small as a number for each row of `a`: its gradient is added up from a whole one.
SizeTensor SizeOps::mul(const SizeTensor& a, const SizeTensor& b) const {
  tape_.work(passes(a.bytes(), 3));
  return tape_.record(
      tape_.make(a.numel, a.width), {a, b}, false,
      [a, b](SizeTape& tape, const Memory&) {
        Memory of_a = gradient_of(tape, a);
        Memory of_b = b.needs_gradient() ? tape.take(a.bytes()) : nullptr;
        if (of_b != nullptr && b.numel < a.numel) of_b = tape.take(b.bytes());
        return Gradients{std::move(of_a), std::move(of_b)};
      },
      passes(a.bytes(), 6));
}

SizeTensor SizeOps::to(const SizeTensor& x, int width) const {
  if (x.width == width) return x;
  const std::int64_t back = x.bytes();
  return tape_.record(tape_.make(x.numel, width), {x}, false,
                      [back](SizeTape& tape, const Memory&) { return Gradients{tape.take(back)}; });
}

// Autograd has one node for all parts; here the first part's is the last to run.
std::vector<SizeTensor> SizeOps::split(const SizeTensor& x,
                                       const std::vector<std::int64_t>& parts) const {
  const auto collected = std::make_shared<std::vector<Memory>>();
  std::vector<SizeTensor> views;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool is_last_to_run = i == 0;
    views.push_back(tape_.record(
        x.as(parts[i]), {x}, false,
        [collected, is_last_to_run, bytes = x.bytes()](SizeTape& tape, const Memory& gradient) {
          collected->push_back(gradient);
          if (!is_last_to_run) return Gradients{nullptr};
          Memory whole = tape.take(bytes);
          collected->clear();
          return Gradients{std::move(whole)};
        },
        is_last_to_run ? passes(x.bytes(), 2) : Work{}));
  }
  return views;
}

SizeTensor SizeOps::narrow(const SizeTensor& x, std::int64_t numel) const {
  return tape_.record(x.as(numel), {x}, false, [bytes = x.bytes()](SizeTape& tape, const Memory&) {
    return Gradients{tape.take(bytes)};
  });
}

SizeTensor SizeOps::cat(const std::vector<SizeTensor>& parts) const {
  std::int64_t numel = 0;
  for (const SizeTensor& part : parts) numel += part.numel;
  tape_.work(passes(numel * parts.front().width, 2));
  return tape_.record(tape_.make(numel, parts.front().width), parts, false,
                      [count = parts.size()](SizeTape&, const Memory& gradient) {
                        return Gradients(count, gradient);  // views of it
                      });
}

SizeTensor SizeOps::embedding(std::int64_t rows, std::int64_t width,
                              std::int64_t table_rows) const {
  // A GPU sorts the row numbers.
  const std::int64_t sorting = device_.accelerator ? 5 * rows * kInt64 : 0;
  tape_.work(passes(rows * width * width_, 2));
  return tape_.record(
      tape_.make(rows * width, width_), {}, trains_,
      [=, own = width_](SizeTape& tape, const Memory&) {
        const Memory sorted = tape.take(sorting);
        tape.parameter_gradient(table_rows * width * own);
        return Gradients{};
      },
      passes((table_rows + 3 * rows) * width * width_, 1));
}

SizeTensor SizeOps::add_positions(const SizeTensor& x, const Positions& positions) const {
  tape_.work(passes(x.bytes(), 2));
  return tape_.record(
      tape_.make(x.numel, x.width), {x}, trains_,
      [positions, trains = trains_, width = width_](SizeTape& tape, const Memory& gradient) {
        if (trains) {
          const Memory summed = tape.take(positions.length * positions.width * width);
          tape.parameter_gradient(positions.table_rows * positions.width * width);
        }
        return Gradients{gradient};
      },
      passes(x.bytes(), 1));
}

SizeTensor SizeOps::rotate(const SizeTensor& x) const {
  const SizeTensor left = narrow(x, x.numel / 2), right = narrow(x, x.numel / 2);
  const auto turned = [&](const SizeTensor& one, const SizeTensor& other) {
    const std::int64_t bytes = one.bytes();
    tape_.work(passes(bytes, 2));
    const SizeTensor scaled = tape_.record(
        tape_.make(one.numel, one.width), {one}, false,
        [bytes](SizeTape& tape, const Memory&) { return Gradients{tape.take(bytes)}; },
        passes(bytes, 2));
    tape_.work(passes(bytes, 3));
    return tape_.record(
        tape_.make(one.numel, one.width), {scaled, other}, false,
        [bytes](SizeTape& tape, const Memory& gradient) {
          return Gradients{gradient, tape.take(bytes)};
        },
        passes(bytes, 2));
  };
  const SizeTensor first = turned(left, right);
  const SizeTensor second = turned(right, left);
  return cat({first, second});
}

// What a flash kernel keeps of a block of queries, for each thread.
std::int64_t SizeOps::attention_forward_bytes(const Heads& shape) const {
  if (device_.accelerator) return 0;
  const std::int64_t queries = shape.length >= 768 ? 256 : shape.length >= 192 ? 64 : 32;
  const std::int64_t keys = std::min<std::int64_t>(512, shape.length);
  const std::int64_t block = queries * (keys + 2 + shape.width);
  return block * (width_ < kFp32 ? kFp32 + width_ : kFp32);
}

// On a GPU the queries' gradient is added up in fp32, and heads that share a key have one each.
std::int64_t SizeOps::attention_backward_bytes(const Heads& shape) const {
  if (!device_.accelerator) return 2 * attention_forward_bytes(shape);  // scores and their gradient
  const std::int64_t rows = shape.batch * ((shape.length + 127) / 128 * 128);
  const std::int64_t all_heads = rows * shape.heads * shape.width;
  const std::int64_t expanded = shape.heads == shape.kv_heads ? 0 : 2 * all_heads * width_;
  return all_heads * kFp32 + rows * shape.heads * kFp32 + expanded;
}

SizeTensor SizeOps::attention(const SizeTensor& queries, const SizeTensor& keys,
                              const SizeTensor& values, const Heads& shape) const {
  const SizeTensor sums = tape_.make(shape.batch * shape.heads * shape.length, kFp32);
  const SizeTensor out = tape_.make(queries.numel, queries.width);
  { const Memory meanwhile = tape_.take(attention_forward_bytes(shape)); }
  // Half of all pairs of positions, in two products; backward has five.
  const double pairs = 0.5 * static_cast<double>(shape.batch * shape.heads) *
                       static_cast<double>(shape.length) * static_cast<double>(shape.length);
  const double flops = pairs * 2 * static_cast<double>(shape.width);
  tape_.work(product(2 * flops));
  return tape_.record(
      out, {queries, keys, values}, false,
      [=, bytes = attention_backward_bytes(shape)](SizeTape& tape, const Memory&) {
        const SizeTensor saved_out = out, saved_sums = sums;
        const Memory meanwhile = tape.take(bytes);
        Memory of_queries = tape.take(queries.bytes()), of_keys = tape.take(keys.bytes());
        return Gradients{std::move(of_queries), std::move(of_keys), tape.take(values.bytes())};
      },
      product(5 * flops));
}

SizeTensor SizeOps::consuming_cross_entropy(const SizeTensor& logits, std::int64_t rows) const {
  // Targets and what counts of them, and by pieces of the rows the logarithms of probabilities.
  const SizeTensor small = tape_.make(3 * rows, kInt64);
  const bool fused = device_.accelerator && logits.width < kFp32;
  const std::int64_t piece = device_.accelerator ? std::int64_t{1} << 26 : std::int64_t{1} << 20;
  const std::int64_t vocabulary = logits.numel / rows;
  const std::int64_t at_once =
      std::min(logits.numel, std::max(piece / vocabulary, std::int64_t{1}) * vocabulary);
  { const Memory meanwhile = tape_.take(fused ? rows * kFp32 : at_once * kFp32); }
  tape_.work(passes(logits.bytes(), fused ? 3 : 6));
  return tape_.record(
      tape_.make(1, kFp32), {logits}, false,
      [logits, small](SizeTape&, const Memory&) {
        return Gradients{logits.memory};  // turned into their gradient
      },
      passes(logits.bytes(), 2));
}

SizeTensor SizeOps::cross_entropy(const SizeTensor& logits) const {
  const SizeTensor logarithms = keeping_output(logits);
  tape_.work(passes(logits.bytes(), 1));
  return tape_.record(
      tape_.make(1, kFp32), {logarithms}, false,
      [bytes = logits.bytes()](SizeTape& tape, const Memory&) {
        return Gradients{tape.take(bytes)};
      },
      passes(logits.bytes(), 1));
}

}  // namespace zeroshard
