// The norm on a GPU gives the CPU's bits, wherever the gradients lie.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>

#include "tests/numeric/float_array.h"
#include "tests/optim_cuda/device_arrays.h"
#include "zeroshard/base/error.h"
#include "zeroshard/optim/device_norm.h"
#include "zeroshard/optim/sum_of_squares.h"

namespace zeroshard {
namespace {

using testing::DeviceBytes;
using testing::FloatArray;
using testing::kFirst;
using testing::Random;

// A span in pieces of any dtype with gaps; the same on the host, as one array of fp32.
struct SpanCase {
  NormSpan span = {};
  std::vector<float> values = {};
};

class GpuNorm : public testing::OnGpu {
 protected:
  Random random_{91};
  ThreadPool pool_{4};
  std::deque<DeviceBytes> arrays_;
  DeviceNorm norm_{kFirst};

  // Widened to fp32 an element has the same value, and a subnormal counts as zero in both.
  void add_piece(SpanCase& made, std::int64_t count, float width) {
    FloatArray array(random_.dtype(), count);
    for (std::int64_t i = 0; i < count; ++i) array.set(i, random_.normal(width));
    const std::int64_t shift = random_.between(0, 5) * bytes_of(array.dtype);
    arrays_.emplace_back(array.bytes.data(), array.bytes.size(), shift);
    made.span.pieces.push_back(
        {arrays_.back().data(), array.dtype, count, static_cast<std::int64_t>(made.values.size())});
    for (std::int64_t i = 0; i < count; ++i) made.values.push_back(array.get(i));
  }

  SpanCase random_span(std::int64_t pieces, std::int64_t longest) {
    SpanCase made;
    const float width = std::ldexp(1.0F, static_cast<int>(random_.between(-60, 60)));
    for (std::int64_t i = 0; i < pieces; ++i) {
      const std::int64_t gap = random_.between(0, 1) * random_.between(0, 6000);
      made.values.resize(made.values.size() + static_cast<std::size_t>(gap), 0.0F);
      add_piece(made, random_.between(0, longest), width);
    }
    made.values.resize(made.values.size() + static_cast<std::size_t>(random_.between(0, 50)), 0.0F);
    made.span.count = static_cast<std::int64_t>(made.values.size());
    return made;
  }

  double on_gpu(const std::vector<NormSpan>& spans) {
    std::vector<std::int64_t> counts;
    for (const NormSpan& span : spans) counts.push_back(span.count);
    const Buffer scratch(kFirst, norm_scratch_bytes(counts));
    norm_.start(spans, scratch.data());
    return norm_.finish();
  }

  double on_cpu(const std::vector<SpanCase>& all) {
    double sum = 0.0;
    for (const SpanCase& one : all) {
      sum += sum_of_squares(one.values.data(), DType::fp32, one.span.count, pool_);
    }
    return sum;
  }

  void expect_same_bits(const std::vector<SpanCase>& all) {
    std::vector<NormSpan> spans;
    for (const SpanCase& one : all) spans.push_back(one.span);
    const double gpu = on_gpu(spans), cpu = on_cpu(all);
    ASSERT_EQ(std::memcmp(&gpu, &cpu, sizeof(gpu)), 0) << gpu << " and " << cpu;
    arrays_.clear();
  }
};

TEST_F(GpuNorm, SpansOfManyPieces) {
  for (int i = 0; i < 150; ++i) {
    std::vector<SpanCase> all;
    const std::int64_t spans = random_.between(0, 4);
    for (std::int64_t k = 0; k < spans; ++k) {
      all.push_back(random_span(random_.between(0, 12), i % 3 == 0 ? 20 : 9000));
    }
    expect_same_bits(all);
  }
}

TEST_F(GpuNorm, OneLongPiecePerDtype) {
  for (int i = 0; i < 6; ++i) expect_same_bits({random_span(1, 2'000'000)});
}

TEST_F(GpuNorm, NonFiniteElementsShow) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    std::vector<float> values(100'000, 1.0F);
    values[77'777] = bad;
    const DeviceBytes there = testing::on_device(values);
    const NormSpan span{{{there.data(), DType::fp32, 100'000, 0}}, 100'000};
    const double gpu = on_gpu({span});
    const double cpu = sum_of_squares(values.data(), DType::fp32, 100'000, pool_);
    EXPECT_EQ(std::memcmp(&gpu, &cpu, sizeof(gpu)), 0) << gpu << " and " << cpu;
  }
}

// Several batches, and more elements than 31 bits count. The CPU's sum is of a small repeated part:
// every block of this span has the same sum.
TEST_F(GpuNorm, MoreThan31BitsOfElements) {
  const std::int64_t count = (std::int64_t{1} << 31) + 3 * kNormBlock;
  std::vector<std::uint16_t> block(static_cast<std::size_t>(kNormBlock));
  for (auto& bits : block) bits = fp32_to_bf16(random_.normal(1.0F));
  const double of_block = sum_of_squares(block.data(), DType::bf16, kNormBlock, pool_);
  try {
    const Buffer memory(kFirst, count * 2);
    const Stream stream = Stream::current(kFirst);
    auto* const bytes = static_cast<std::byte*>(memory.data());
    copy_bytes(stream, bytes, kFirst, block.data(), kCpu, kNormBlock * 2);
    for (std::int64_t done = kNormBlock * 2; done < count * 2; done *= 2) {
      copy_bytes(stream, bytes + done, kFirst, bytes, kFirst, std::min(done, count * 2 - done));
    }
    const double gpu = on_gpu({{{{memory.data(), DType::bf16, count, 0}}, count}});
    double expected = 0.0;
    for (std::int64_t first = 0; first < norm_blocks(count); first += kBlocksInBatch) {
      double batch = 0.0;
      const std::int64_t end = std::min(first + kBlocksInBatch, norm_blocks(count));
      for (std::int64_t i = first; i < end; ++i) batch += of_block;
      expected += batch;
    }
    EXPECT_EQ(gpu, expected);
  } catch (const StorageError& error) {
    GTEST_SKIP() << error.what();
  }
}

}  // namespace
}  // namespace zeroshard
