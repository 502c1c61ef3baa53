#include "zeroshard/base/normal_quantile.h"

#include <cmath>

namespace zeroshard {
namespace {

// Where |p - 1/2| is at most this, a function of its square.
constexpr double kCentre = 0.425;
// Else a function of sqrt(-log(distance to the nearer end)): near the end from here on.
constexpr double kFarTail = 5.0;

double centre(double q) {
  const double r = kCentre * kCentre - q * q;
  const double above = ((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179;
  const double below = ((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1.0;
  return q * above / below;
}

double near_tail(double r) {
  r -= 1.6;
  const double above = ((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777;
  return above / ((0.12021132975 * r + 0.73700164250) * r + 1.0);
}

double far_tail(double r) {
  r -= kFarTail;
  const double above = ((0.017337203997 * r + 0.42868294337) * r + 3.0812263860) * r + 6.6579051150;
  return above / ((0.012258202635 * r + 0.24197894225) * r + 1.0);
}

}  // namespace

double normal_quantile(double p) {
  const double q = p - 0.5;
  if (std::abs(q) <= kCentre) return centre(q);
  const double r = std::sqrt(-std::log(q < 0 ? p : 1.0 - p));
  return std::copysign(r <= kFarTail ? near_tail(r) : far_tail(r), q);
}

}  // namespace zeroshard
