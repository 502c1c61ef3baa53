// The number below which a share `p` of a normal distribution with mean 0 and deviation 1 lies.
//
// Wichura's rational approximations (Applied Statistics 37, algorithm AS 241, the single precision
// ones): right to 1 in 10^7. Only the tails, one number in seven, need a logarithm.
#pragma once

namespace zeroshard {

// For 0 < p < 1.
double normal_quantile(double p);

}  // namespace zeroshard
