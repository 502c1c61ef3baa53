// States of a span and random optimizers for the property tests.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include <fmt/core.h>

#include "zeroshard/base/half.h"
#include "zeroshard/base/thread_pool.h"
#include "zeroshard/numeric/masters.h"
#include "zeroshard/optim/update.h"

namespace zeroshard::testing {

inline constexpr DType kFloats[] = {DType::fp32, DType::bf16, DType::fp16};

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  std::int64_t between(std::int64_t low, std::int64_t high) {  // both ends included
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  float normal(float width) { return std::normal_distribution<float>(0.0F, width)(engine_); }
  DType dtype() { return kFloats[between(0, 2)]; }
  std::uint32_t bits() { return static_cast<std::uint32_t>(engine_()); }

 private:
  std::mt19937_64 engine_;
};

// A float out of all: each bit pattern as likely as another, or one of the famous ones.
inline float any_float(Random& random) {
  static constexpr std::uint32_t kFamous[] = {0x00000000, 0x80000000, 0x7F800000, 0xFF800000,
                                              0x7FC00000, 0xFFC12345, 0x7F800001, 0x00000001,
                                              0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0x33800000};
  const bool famous = random.between(0, 1) == 1;
  return std::bit_cast<float>(famous ? kFamous[random.between(0, 11)] : random.bits());
}

inline std::vector<OptimizerOptions> all_optimizers() {
  return {AdamOptions{},
          AdamOptions{.lr = 3e-4, .betas = {0.8, 0.95}, .weight_decay = 0.1},
          AdamOptions{.weight_decay = 0.02, .decoupled_decay = false},
          AdamOptions{.eps = 1e-6, .weight_decay = 0.01, .bias_correction = false},
          SgdOptions{},
          SgdOptions{.lr = 0.1, .weight_decay = 0.01},
          SgdOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.01},
          SgdOptions{.lr = 0.01, .momentum = 0.8, .nesterov = true},
          LionOptions{},
          LionOptions{.lr = 1e-4, .betas = {0.95, 0.98}, .weight_decay = 0.5},
          AdagradOptions{},
          AdagradOptions{.lr = 0.05, .weight_decay = 0.03}};
}

// All arrays of a span. `parameter_dtype` fp32: the master is the parameter.
struct States {
  DType gradient_dtype = DType::fp32;
  DType parameter_dtype = DType::fp32;
  std::vector<float> gradient32{}, master{}, first{}, second{};
  std::vector<std::uint16_t> gradient16{}, parameter{};
  std::vector<std::uint16_t> low{};  // where the masters are in two halves: in_halves()

  std::int64_t count() const { return static_cast<std::int64_t>(master.size()); }
  float gradient(std::size_t i) const {
    if (gradient_dtype == DType::fp32) return gradient32[i];
    return gradient_dtype == DType::bf16 ? bf16_to_fp32(gradient16[i])
                                         : fp16_to_fp32(gradient16[i]);
  }

  UpdateSpan span(std::int64_t begin, std::int64_t end) {
    const bool wide = gradient_dtype == DType::fp32;
    const bool alone = parameter_dtype == DType::fp32;
    const bool halved = !low.empty();
    return {.gradient = wide ? static_cast<const void*>(gradient32.data() + begin)
                             : static_cast<const void*>(gradient16.data() + begin),
            .gradient_dtype = gradient_dtype,
            .master = halved ? nullptr : master.data() + begin,
            .master_low = halved ? low.data() + begin : nullptr,
            .moments = {first.data() + begin, second.data() + begin},
            .parameter = alone ? nullptr : parameter.data() + begin,
            .parameter_dtype = alone ? DType::bf16 : parameter_dtype,
            .count = end - begin};
  }
};

// The same with masters in two halves. Their ties are settled, which those of `whole` must be.
inline States in_halves(const States& whole) {
  States states = whole;
  states.low.resize(whole.master.size());
  halve_masters(kCpu, {states.parameter.data(), states.low.data()}, whole.master.data(),
                whole.count());
  std::fill(states.master.begin(), states.master.end(), -7.0F);  // nobody reads them
  return states;
}

inline States made_whole(States states) {
  join_masters(kCpu, states.master.data(), {states.parameter.data(), states.low.data()},
               states.count());
  states.low.clear();
  return states;
}

// As after an update: masters settled, parameters rounded from them.
inline States settled(States states) {
  settle_masters(kCpu, states.master.data(), states.count());
  for (std::size_t i = 0; i < states.master.size(); ++i) {
    states.parameter[i] = fp32_to_bf16(states.master[i]);
  }
  return states;
}

inline void push_gradient(States& states, float value) {
  states.gradient32.push_back(value);
  states.gradient16.push_back(states.gradient_dtype == DType::fp16 ? fp32_to_fp16(value)
                                                                   : fp32_to_bf16(value));
}

// States as training has them: gradients and moments of one size, second moments positive.
inline States plausible_states(Random& random, std::int64_t count, DType gradient,
                               DType parameter) {
  States states{.gradient_dtype = gradient, .parameter_dtype = parameter};
  for (std::int64_t i = 0; i < count; ++i) {
    push_gradient(states, random.normal(0.1F));
    states.master.push_back(random.normal(1.0F));
    states.first.push_back(random.normal(0.05F));
    const float root = random.normal(0.1F);
    states.second.push_back(root * root);
    states.parameter.push_back(0x1234);
  }
  return states;
}

// Anything at all, NaNs, infinities and subnormals included.
inline States wild_states(Random& random, std::int64_t count, DType gradient, DType parameter) {
  States states{.gradient_dtype = gradient, .parameter_dtype = parameter};
  for (std::int64_t i = 0; i < count; ++i) {
    push_gradient(states, any_float(random));
    states.gradient16.back() = static_cast<std::uint16_t>(random.bits());
    states.master.push_back(any_float(random));
    states.first.push_back(any_float(random));
    states.second.push_back(any_float(random));
    states.parameter.push_back(0x1234);
  }
  return states;
}

// The place of the first array whose bits differ, or nothing.
inline std::string difference(const States& a, const States& b) {
  const auto compare = [](const char* name, const auto& x, const auto& y) -> std::string {
    using Value = typename std::decay_t<decltype(x)>::value_type;
    using Bits = std::conditional_t<sizeof(Value) == 4, std::uint32_t, std::uint16_t>;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto left = std::bit_cast<Bits>(x[i]), right = std::bit_cast<Bits>(y[i]);
      if (left != right) return fmt::format("{}[{}]: {:#x} and {:#x}", name, i, left, right);
    }
    return {};
  };
  std::string text = compare("master", a.master, b.master);
  if (text.empty()) text = compare("first", a.first, b.first);
  if (text.empty()) text = compare("second", a.second, b.second);
  if (text.empty()) text = compare("parameter", a.parameter, b.parameter);
  if (text.empty()) text = compare("low", a.low, b.low);
  return text;
}

}  // namespace zeroshard::testing
