#include "zeroshard/numeric/float_environment.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace zeroshard {

#if defined(__x86_64__)

namespace {

// Of the control register: nearest rounding, all exceptions masked; and the two bits that make
// results and operands zero.
constexpr unsigned kDefault = 0x1F80U;
constexpr unsigned kSubnormalsAreZero = 0x8040U;

}  // namespace

FloatEnvironment::FloatEnvironment(Subnormals subnormals) : saved_(_mm_getcsr()) {
  _mm_setcsr(subnormals == Subnormals::zero ? kDefault | kSubnormalsAreZero : kDefault);
}
FloatEnvironment::~FloatEnvironment() { _mm_setcsr(saved_); }

#else

FloatEnvironment::FloatEnvironment(Subnormals) : saved_(static_cast<unsigned>(std::fegetround())) {
  std::fesetround(FE_TONEAREST);
}
FloatEnvironment::~FloatEnvironment() { std::fesetround(static_cast<int>(saved_)); }

#endif

}  // namespace zeroshard
