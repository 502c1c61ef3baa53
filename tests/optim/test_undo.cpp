// An update that can be taken back does what update_span() does, and taken back leaves every bit as
// it was: for every optimizer, dtype and instruction set, from plausible states and from any bits.
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "tests/optim/optim_support.h"
#include "zeroshard/optim/undo.h"

namespace zeroshard {
namespace {

using testing::all_optimizers;
using testing::difference;
using testing::Random;
using testing::States;

class Undo : public ::testing::Test {
 protected:
  static UndoRecord record_over(std::unique_ptr<std::byte[]>& memory, std::int64_t numel,
                                int words) {
    memory =
        std::make_unique<std::byte[]>(static_cast<std::size_t>(undo_layout(numel, words).bytes));
    std::fill_n(memory.get(), undo_layout(numel, words).bytes, std::byte{0x55});
    return UndoRecord::over(memory.get(), numel, words);
  }

  // In spans that are cut at random multiples of the alignment.
  std::vector<std::pair<std::int64_t, std::int64_t>> cuts(std::int64_t count) {
    std::vector<std::pair<std::int64_t, std::int64_t>> all;
    for (std::int64_t begin = 0; begin < count;) {
      const std::int64_t end = std::min(count, begin + kUndoAlignment * random_.between(1, 40));
      all.emplace_back(begin, end);
      begin = end;
    }
    return all;
  }

  // Whether the update, all of it, was done and taken back; and done again.
  void expect_revocable(const OptimizerOptions& options, const States& start, std::int64_t step,
                        Isa isa) {
    SCOPED_TRACE(::testing::Message()
                 << name_of(isa) << ", optimizer " << options.index() << ", step " << step
                 << ", gradient " << name_of(start.gradient_dtype) << ", parameter "
                 << name_of(start.parameter_dtype) << ", " << start.count() << " elements");
    const StepScalars scalars{.gradient_factor = 0.37F, .step = step};
    States expected = start, states = start;
    update_span(options, expected.span(0, start.count()), scalars, pool_, isa);
    expected.parameter = start.parameter;  // nobody may see them yet
    std::unique_ptr<std::byte[]> memory;
    const UndoRecord undo = record_over(memory, start.count(), words_per_parameter(options));
    for (int round = 0; round < 2; ++round) {
      undo.begin();
      const auto spans = cuts(start.count());
      for (const auto& [begin, end] : spans) {
        update_revocably(options, states.span(begin, end), scalars, undo.at(begin), pool_, isa);
      }
      States whole = states;
      for (const auto& [begin, end] : spans) {
        update_left_out(options, whole.span(begin, end), scalars, undo.at(begin), pool_, isa);
      }
      ASSERT_EQ(difference(whole, expected), "");
      for (const auto& [begin, end] : spans) {
        revoke_update(options, states.span(begin, end), scalars, undo.at(begin), pool_, isa);
      }
      ASSERT_EQ(difference(states, start), "");
    }
  }

  Random random_{31};
  ThreadPool pool_{3};
};

TEST_F(Undo, EveryOptimizerAndDtype) {
  for (const OptimizerOptions& options : all_optimizers()) {
    for (const DType gradient : testing::kFloats) {
      for (const DType parameter : testing::kFloats) {
        for (const Isa isa : available_isas()) {
          const std::int64_t count = random_.between(1, 40'000);
          expect_revocable(options, plausible_states(random_, count, gradient, parameter),
                           random_.between(1, 3), isa);
        }
      }
    }
  }
}

TEST_F(Undo, AnyBitsAtEverySize) {
  for (std::int64_t count = 1; count <= 200; ++count) {
    for (const OptimizerOptions& options : all_optimizers()) {
      const auto isas = available_isas();
      const Isa isa = isas[static_cast<std::size_t>(random_.between(0, std::ssize(isas) - 1))];
      expect_revocable(options, wild_states(random_, count, random_.dtype(), random_.dtype()), 2,
                       isa);
    }
  }
}

// More escapes than there is room for: blocks are left out, and nothing else changes.
TEST_F(Undo, WhatTheRecordHasNoRoomForIsLeftOut) {
  for (const OptimizerOptions& options : all_optimizers()) {
    const States start = wild_states(random_, 60'000, DType::bf16, DType::bf16);
    expect_revocable(options, start, 5, best_isa());
    std::unique_ptr<std::byte[]> memory;
    const UndoRecord undo = record_over(memory, start.count(), words_per_parameter(options));
    States states = start;
    update_revocably(options, states.span(0, start.count()), {.step = 5}, undo.at(0), pool_);
    const UndoPointers all = undo.at(0);
    std::int64_t left_out = 0;
    for (std::int64_t i = 0; i < start.count(); i += kUndoBlock) {
      left_out += all.left_out[i / kUndoAlignment];
    }
    EXPECT_GT(left_out, 0) << options.index();
    EXPECT_LE(*all.used, all.capacity);
  }
}

// In training nearly everything fits into bytes, once the moments are more than one gradient: in
// Adam's second step a word may be far smaller than what is added to it.
TEST_F(Undo, TrainingNeedsFewEscapes) {
  constexpr std::int64_t kCount = 100'000;
  for (const OptimizerOptions& options : all_optimizers()) {
    States states = plausible_states(random_, kCount, DType::bf16, DType::bf16);
    for (float& master : states.master) master *= 0.2F;
    std::fill(states.first.begin(), states.first.end(), 0.0F);
    std::fill(states.second.begin(), states.second.end(), 0.0F);
    std::unique_ptr<std::byte[]> memory;
    const UndoRecord undo = record_over(memory, kCount, words_per_parameter(options));
    const UndoPointers all = undo.at(0);
    for (std::int64_t step = 1; step <= 12; ++step) {
      undo.begin();
      update_revocably(options, states.span(0, kCount), {.step = step}, all, pool_);
      if (step != 2) {
        EXPECT_LT(*all.used, kCount / 128) << options.index() << ", step " << step;
        for (std::int64_t i = 0; i < kCount; i += kUndoBlock) {
          ASSERT_EQ(all.left_out[i / kUndoAlignment], 0) << options.index() << ", step " << step;
        }
      }
      update_left_out(options, states.span(0, kCount), {.step = step}, all, pool_);
      for (std::uint16_t& gradient : states.gradient16) {
        gradient = fp32_to_bf16(random_.normal(0.1F));
      }
    }
  }
}

TEST_F(Undo, ARecordHasTheBytesThatItsLayoutSays) {
  for (const std::int64_t numel : {1, 63, 64, 65, 513, 100'000, 10'000'000}) {
    for (const int words : {1, 2, 3}) {
      const UndoLayout layout = undo_layout(numel, words);
      EXPECT_EQ(layout.bytes % kUndoAlignment, 0);
      EXPECT_GE(layout.stride, numel);
      EXPECT_LE(layout.escapes + layout.escape_capacity * 16, layout.deltas);
      EXPECT_EQ(layout.left_out, layout.deltas + words * layout.stride);
      // A byte per word, and less than a sixth of a byte beside it.
      EXPECT_LE(layout.bytes, words * numel + numel / 6 + 1600);
    }
  }
  EXPECT_TRUE(can_be_undone(4'294'967'295));
  EXPECT_FALSE(can_be_undone(4'294'967'296));
}

}  // namespace
}  // namespace zeroshard
