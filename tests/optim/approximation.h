// Running error analysis: a value computed in double beside a bound on how far the same computation
// in fp32 can be from it. Each fp32 operation is off by at most half a unit in the last place,
// 2^-24 of its result, or 2^-126 where subnormals are zero; what its operands were off by adds up.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace zeroshard::testing {

inline constexpr double kUnit = 0x1p-24;
inline constexpr double kSmallest = 0x1p-126;

struct Approximation {
  double value = 0.0;
  double error = 0.0;

  static Approximation exact(float value) { return {value, 0.0}; }
  // A number that fp32 holds only after rounding, as the coefficients are.
  static Approximation rounded(double value) {
    return {value, std::abs(value) * kUnit + (value != 0.0 ? kSmallest : 0.0)};
  }
  bool covers(double other, double factor = 1.0) const {
    return std::abs(value - other) <= error * factor;
  }
};

// The result of one more operation: `error` from the operands, and this operation's own.
inline Approximation operation(double value, double error) {
  return {value, error + (std::abs(value) + error) * kUnit + kSmallest};
}

inline Approximation operator+(Approximation a, Approximation b) {
  return operation(a.value + b.value, a.error + b.error);
}
inline Approximation operator*(Approximation a, Approximation b) {
  return operation(a.value * b.value,
                   std::abs(a.value) * b.error + std::abs(b.value) * a.error + a.error * b.error);
}
// b must be farther from 0 than its error.
inline Approximation operator/(Approximation a, Approximation b) {
  const double quotient = a.value / b.value;
  const double least = std::abs(b.value) - b.error;
  if (!(least > 0.0)) return {quotient, std::numeric_limits<double>::infinity()};
  return operation(quotient, (a.error + std::abs(quotient) * b.error) / least);
}
inline Approximation sqrt(Approximation a) {
  const double root = std::sqrt(a.value);
  const double error = a.value > a.error ? a.error / root : std::sqrt(a.value + a.error);
  return operation(root, error);
}

// What the bounds are for all but one in twenty, relative to max(1, |value|). Where a gradient and
// its decay nearly cancel, the quotients of Adam and Adagrad amplify the rounding, and so the
// bound.
inline double typical_bound(const std::vector<Approximation>& all) {
  std::vector<double> bounds;
  for (const Approximation& one : all) {
    bounds.push_back(one.error / std::max(1.0, std::abs(one.value)));
  }
  const auto place = bounds.begin() + static_cast<std::ptrdiff_t>(bounds.size() * 19 / 20);
  std::nth_element(bounds.begin(), place, bounds.end());
  return *place;
}

}  // namespace zeroshard::testing
