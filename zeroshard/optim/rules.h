// The optimizers' arithmetic on a few elements at once, written once for all lanes of the host and
// for the threads of accelerators.
// coefficients.h says what each coefficient does.
#pragma once

#include "zeroshard/base/host_device.h"
#include "zeroshard/optim/coefficients.h"

namespace zeroshard::kernels {

// Rule<Lanes, Coefficients>: kMoments moments per parameter; operator() takes the gradient, already
// multiplied by gradient_factor, and moves the parameter `p` and its moments.
template <typename Lanes, typename Coefficients>
struct Rule;

template <typename Lanes>
struct Rule<Lanes, AdamCoefficients> {
  static constexpr int kMoments = 2;

  const bool couples, decouples;
  const Lanes beta1, gain1, beta2, gain2, root_scale, eps, step_size, coupled_decay,
      decoupled_decay;

  ZS_HOST_DEVICE explicit Rule(const AdamCoefficients& c)
      : couples(c.coupled_decay != 0.0F),
        decouples(c.decoupled_decay != 0.0F),
        beta1(Lanes::broadcast(c.beta1)),
        gain1(Lanes::broadcast(c.gain1)),
        beta2(Lanes::broadcast(c.beta2)),
        gain2(Lanes::broadcast(c.gain2)),
        root_scale(Lanes::broadcast(c.root_scale)),
        eps(Lanes::broadcast(c.eps)),
        step_size(Lanes::broadcast(c.step_size)),
        coupled_decay(Lanes::broadcast(c.coupled_decay)),
        decoupled_decay(Lanes::broadcast(c.decoupled_decay)) {}

  ZS_HOST_DEVICE void operator()(Lanes g, Lanes& p, Lanes* moments) const {
    if (couples) g = g + coupled_decay * p;
    const Lanes m = beta1 * moments[0] + gain1 * g;
    const Lanes v = beta2 * moments[1] + (gain2 * g) * g;
    if (decouples) p = p + decoupled_decay * p;
    p = p + step_size * (m / (root_scale * sqrt(v) + eps));
    moments[0] = m;
    moments[1] = v;
  }
};

template <typename Lanes>
struct Rule<Lanes, SgdCoefficients> {
  static constexpr int kMoments = 0;

  const bool decays;
  const Lanes step_size, decay;

  ZS_HOST_DEVICE explicit Rule(const SgdCoefficients& c)
      : decays(c.decay != 0.0F),
        step_size(Lanes::broadcast(c.step_size)),
        decay(Lanes::broadcast(c.decay)) {}

  ZS_HOST_DEVICE void operator()(Lanes g, Lanes& p, Lanes*) const {
    if (decays) g = g + decay * p;
    p = p + step_size * g;
  }
};

template <typename Lanes>
struct Rule<Lanes, MomentumCoefficients> {
  static constexpr int kMoments = 1;

  const bool decays, first, nesterov;
  const Lanes step_size, decay, momentum, gain;

  ZS_HOST_DEVICE explicit Rule(const MomentumCoefficients& c)
      : decays(c.decay != 0.0F),
        first(c.first),
        nesterov(c.nesterov),
        step_size(Lanes::broadcast(c.step_size)),
        decay(Lanes::broadcast(c.decay)),
        momentum(Lanes::broadcast(c.momentum)),
        gain(Lanes::broadcast(c.gain)) {}

  ZS_HOST_DEVICE void operator()(Lanes g, Lanes& p, Lanes* moments) const {
    if (decays) g = g + decay * p;
    const Lanes b = first ? g : momentum * moments[0] + gain * g;
    p = p + step_size * (nesterov ? g + momentum * b : b);
    moments[0] = b;
  }
};

template <typename Lanes>
struct Rule<Lanes, LionCoefficients> {
  static constexpr int kMoments = 1;

  const bool decays;
  const Lanes beta1, gain1, beta2, gain2, lr, minus_lr, decay;

  ZS_HOST_DEVICE explicit Rule(const LionCoefficients& c)
      : decays(c.decay != 0.0F),
        beta1(Lanes::broadcast(c.beta1)),
        gain1(Lanes::broadcast(c.gain1)),
        beta2(Lanes::broadcast(c.beta2)),
        gain2(Lanes::broadcast(c.gain2)),
        lr(Lanes::broadcast(c.lr)),
        minus_lr(Lanes::broadcast(-c.lr)),
        decay(Lanes::broadcast(c.decay)) {}

  ZS_HOST_DEVICE void operator()(Lanes g, Lanes& p, Lanes* moments) const {
    const Lanes zero = Lanes::broadcast(0.0F);
    const Lanes c = beta1 * moments[0] + gain1 * g;
    if (decays) p = p + decay * p;
    // Zero and NaN are their own sign: a zero moves nothing, a NaN does not get lost.
    p = p - select(less(zero, c), lr, select(less(c, zero), minus_lr, c));
    moments[0] = beta2 * moments[0] + gain2 * g;
  }
};

template <typename Lanes>
struct Rule<Lanes, AdagradCoefficients> {
  static constexpr int kMoments = 1;

  const bool decays;
  const Lanes step_size, eps, decay;

  ZS_HOST_DEVICE explicit Rule(const AdagradCoefficients& c)
      : decays(c.decay != 0.0F),
        step_size(Lanes::broadcast(c.step_size)),
        eps(Lanes::broadcast(c.eps)),
        decay(Lanes::broadcast(c.decay)) {}

  ZS_HOST_DEVICE void operator()(Lanes g, Lanes& p, Lanes* moments) const {
    if (decays) g = g + decay * p;
    const Lanes s = moments[0] + g * g;
    p = p + step_size * (g / (sqrt(s) + eps));
    moments[0] = s;
  }
};

}  // namespace zeroshard::kernels
