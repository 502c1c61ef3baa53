// Updates on a GPU give the CPU's bits: every optimizer and dtype, any cut, any place, any numbers.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "tests/optim/optim_support.h"
#include "tests/optim_cuda/device_arrays.h"
#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

using testing::all_optimizers;
using testing::DeviceBytes;
using testing::kFirst;
using testing::on_device;
using testing::Random;
using testing::States;

using Shifts = std::array<std::int64_t, 6>;

// States of a span on the device. Every array lies a few elements behind a boundary.
struct DeviceStates {
  DType gradient_dtype, parameter_dtype;
  bool halved;
  DeviceBytes gradient, master, first, second, parameter, low;

  DeviceStates(const States& states, Shifts shifts)
      : gradient_dtype(states.gradient_dtype),
        parameter_dtype(states.parameter_dtype),
        halved(!states.low.empty()),
        gradient(states.gradient_dtype == DType::fp32 ? on_device(states.gradient32, shifts[0])
                                                      : on_device(states.gradient16, shifts[0])),
        master(on_device(states.master, shifts[1])),
        first(on_device(states.first, shifts[2])),
        second(on_device(states.second, shifts[3])),
        parameter(on_device(states.parameter, shifts[4])),
        low(on_device(states.low, shifts[5])) {}

  UpdateSpan span(std::int64_t begin, std::int64_t end) const {
    const auto floats = [&](const DeviceBytes& array) {
      return static_cast<float*>(array.data()) + begin;
    };
    const bool alone = parameter_dtype == DType::fp32;
    return {.gradient = element_at(gradient.data(), begin, gradient_dtype),
            .gradient_dtype = gradient_dtype,
            .master = halved ? nullptr : floats(master),
            .master_low = halved ? static_cast<std::uint16_t*>(low.data()) + begin : nullptr,
            .moments = {floats(first), floats(second)},
            .parameter = alone ? nullptr : element_at(parameter.data(), begin, parameter_dtype),
            .parameter_dtype = alone ? DType::bf16 : parameter_dtype,
            .count = end - begin};
  }

  void copy_to(States& states) const {
    master.copy_to(states.master.data());
    first.copy_to(states.first.data());
    second.copy_to(states.second.data());
    parameter.copy_to(states.parameter.data());
    if (halved) low.copy_to(states.low.data());
  }
};

class GpuUpdate : public testing::OnGpu {
 protected:
  Random random_{81};
  ThreadPool pool_{4};

  // All arrays alike (so that elements go by fours), or each somewhere else.
  Shifts any_shifts() {
    const bool alike = random_.between(0, 2) > 0;
    const std::int64_t all = random_.between(0, 5);
    Shifts shifts{};
    for (std::int64_t& shift : shifts) shift = alike ? all : random_.between(0, 5);
    return shifts;
  }

  // With whole masters, and with halved ones where there may be such.
  void expect_same_bits(const OptimizerOptions& options, const States& start, std::int64_t most) {
    expect_same_bits_of(options, start, most);
    if (start.parameter_dtype == DType::bf16) {
      expect_same_bits_of(options, in_halves(start), most);
    }
  }

  // Cuts the span at random, updates all segments by one call, and compares with the CPU.
  void expect_same_bits_of(const OptimizerOptions& options, const States& start,
                           std::int64_t most) {
    const StepScalars scalars{.gradient_factor = 0.37F, .step = random_.between(1, 4)};
    States expected = start, result = start;
    update_span(options, expected.span(0, expected.count()), scalars, pool_);
    const DeviceStates on_gpu(start, any_shifts());
    std::vector<SegmentUpdate> segments;
    for (std::int64_t begin = 0; begin < start.count();) {
      const std::int64_t end = std::min(start.count(), begin + random_.between(0, most));
      segments.push_back({&options, on_gpu.span(begin, end), scalars});
      begin = end;
    }
    update_on(kFirst, segments);
    on_gpu.copy_to(result);
    ASSERT_EQ(difference(result, expected), "")
        << "optimizer " << options.index() << ", gradient " << name_of(start.gradient_dtype)
        << ", parameter " << name_of(start.parameter_dtype) << ", step " << scalars.step
        << (start.low.empty() ? "" : ", in halves");
  }
};

TEST_F(GpuUpdate, EveryOptimizerAndDtype) {
  for (const OptimizerOptions& options : all_optimizers()) {
    for (const DType gradient : testing::kFloats) {
      for (const DType parameter : testing::kFloats) {
        expect_same_bits(options, plausible_states(random_, 40'003, gradient, parameter), 30'000);
        expect_same_bits(options, wild_states(random_, 20'001, gradient, parameter), 3'000);
        expect_same_bits(options, wild_states(random_, 301, gradient, parameter), 9);
      }
    }
  }
}

// Scales from the smallest to the largest, with zeros, subnormals and infinities among them.
TEST_F(GpuUpdate, EveryScale) {
  for (const float scale : {1.0F, 1e-3F, 1e-12F, 1e-19F, 1e-30F, 1e-38F, 1e10F, 1e19F}) {
    for (const OptimizerOptions& options : all_optimizers()) {
      States states = plausible_states(random_, 60'000, random_.dtype(), random_.dtype());
      for (std::size_t i = 0; i < states.master.size(); ++i) {
        states.gradient32[i] *= scale;
        states.gradient16[i] = states.gradient_dtype == DType::fp16
                                   ? fp32_to_fp16(states.gradient32[i])
                                   : fp32_to_bf16(states.gradient32[i]);
        states.first[i] *= scale;
        states.second[i] *= scale * scale;
        if (i % 97 == 0) states.gradient32[i] = 0.0F, states.gradient16[i] = 0;
        if (i % 101 == 0) states.first[i] = 0.0F;
        if (i % 103 == 0) states.second[i] = 0.0F;
        if (i % 10'007 == 0) states.master[i] = std::numeric_limits<float>::infinity();
        if (i % 10'009 == 0) states.first[i] = 1e-41F;
      }
      expect_same_bits(options, states, 50'000);
    }
  }
}

// Products just below the smallest normal number, which devices might take for it before or after
// rounding: (1 + 2^-k) (1 - 2^-k) 2^-126 and their neighbours.
TEST_F(GpuUpdate, ProductsAtTheEdgeOfSubnormals) {
  for (int k = 1; k < 24; ++k) {
    for (const float a : {1.0F - std::ldexp(1.0F, -k), 1.0F - std::ldexp(1.0F, -24)}) {
      States states{};
      for (std::uint32_t step = 0; step < 4000; ++step) {
        const float near_one = std::bit_cast<float>(0x3F800000U - 2000U + step);
        const float sum = 1.0F + std::ldexp(1.0F, -k);
        push_gradient(states, (step % 2 == 0 ? near_one : sum) * 0x1p-63F);
        states.master.push_back(0.0F);
        states.first.push_back(0.0F);
        states.second.push_back(near_one * 0x1p-126F);
        states.parameter.push_back(0);
      }
      const OptimizerOptions plain = SgdOptions{.lr = -1.0};
      States expected = states, result = states;
      const StepScalars scalars{.gradient_factor = a * 0x1p-63F, .step = 1};
      update_span(plain, expected.span(0, 4000), scalars, pool_);
      const DeviceStates on_gpu(states, {});
      update_on(kFirst, {{&plain, on_gpu.span(0, 4000), scalars}});
      on_gpu.copy_to(result);
      ASSERT_EQ(difference(result, expected), "") << "k " << k << ", factor " << a;
      expect_same_bits(AdamOptions{.betas = {0.9, static_cast<double>(a)}}, states, 4000);
    }
  }
}

// More segments than fit anywhere but in a table, of all rules at once, call after call without a
// wait between: tables must not be overwritten while a launch still reads them.
TEST_F(GpuUpdate, ManyCallsInARow) {
  const std::vector<OptimizerOptions> optimizers = all_optimizers();
  const std::int64_t each = 700;
  States start = plausible_states(random_, each * 500, DType::bf16, DType::bf16);
  States expected = start, result = start;
  const DeviceStates on_gpu(start, {});
  for (std::int64_t step = 1; step <= 20; ++step) {
    std::vector<SegmentUpdate> segments;
    for (std::int64_t i = 0; i < 500; ++i) {
      const OptimizerOptions& options = optimizers[static_cast<std::size_t>(i) % optimizers.size()];
      const StepScalars scalars{.gradient_factor = 1.0F / static_cast<float>(i + step),
                                .step = step};
      segments.push_back({&options, on_gpu.span(i * each, (i + 1) * each), scalars});
      update_span(options, expected.span(i * each, (i + 1) * each), scalars, pool_);
    }
    update_on(kFirst, segments);
  }
  on_gpu.copy_to(result);
  EXPECT_EQ(difference(result, expected), "");
}

// One segment of more than 2^31 elements: its end is updated, and as the CPU does it.
TEST_F(GpuUpdate, MoreThan31BitsOfElements) {
  const std::int64_t count = (std::int64_t{1} << 31) + 70'001, tail = 100'000;
  const States last = plausible_states(random_, tail, DType::bf16, DType::bf16);
  try {
    const Buffer gradient(kFirst, count * 2), master(kFirst, count * 4),
        parameter(kFirst, count * 2);
    const Stream stream = Stream::current(kFirst);
    const auto put = [&](const Buffer& to, const void* from, std::int64_t size) {
      copy_bytes(stream, static_cast<std::byte*>(to.data()) + (count - tail) * size, kFirst, from,
                 kCpu, tail * size);
    };
    put(gradient, last.gradient16.data(), 2);
    put(master, last.master.data(), 4);
    const OptimizerOptions options = SgdOptions{.lr = 0.1, .weight_decay = 0.01};
    const StepScalars scalars{.gradient_factor = 0.5F, .step = 1};
    update_on(kFirst, {{&options,
                        {.gradient = gradient.data(),
                         .gradient_dtype = DType::bf16,
                         .master = static_cast<float*>(master.data()),
                         .parameter = parameter.data(),
                         .count = count},
                        scalars}});
    States expected = last, result = last;
    update_span(options, expected.span(0, tail), scalars, pool_);
    copy_bytes(stream, result.master.data(), kCpu,
               static_cast<float*>(master.data()) + (count - tail), kFirst, tail * 4);
    copy_bytes(stream, result.parameter.data(), kCpu,
               static_cast<std::uint16_t*>(parameter.data()) + (count - tail), kFirst, tail * 2);
    stream.synchronize();
    EXPECT_EQ(difference(result, expected), "");
  } catch (const StorageError& error) {
    GTEST_SKIP() << error.what();
  }
}

}  // namespace
}  // namespace zeroshard
