// What an element's words were, foretold from what the rule of rules.h has made of them. It need
// not be right, but must be the same number whenever it is asked for: a record keeps the difference
// (undo_loops.h). Numbers are foretold well unless they were far smaller than what was added to
// them.
#pragma once

#include "zeroshard/optim/coefficients.h"

namespace zeroshard::kernels {

// InverseRule<Lanes, Coefficients>: operator() takes the gradient as the rule did, the new words,
// and `correct`, which is told a word's number and what is foretold for it, and answers what it
// was. Word 0 is the master, the others are moments.
template <typename Lanes, typename Coefficients>
struct InverseRule;

template <typename Lanes>
struct InverseRule<Lanes, AdamCoefficients> {
  const bool couples, decouples;
  const Lanes gain1, per_beta1, gain2, per_beta2, root_scale, eps, step_size, coupled_decay,
      per_decoupled_decay;

  explicit InverseRule(const AdamCoefficients& c)
      : couples(c.coupled_decay != 0.0F),
        decouples(c.decoupled_decay != 0.0F),
        gain1(Lanes::broadcast(c.gain1)),
        per_beta1(Lanes::broadcast(1.0F / c.beta1)),
        gain2(Lanes::broadcast(c.gain2)),
        per_beta2(Lanes::broadcast(1.0F / c.beta2)),
        root_scale(Lanes::broadcast(c.root_scale)),
        eps(Lanes::broadcast(c.eps)),
        step_size(Lanes::broadcast(c.step_size)),
        coupled_decay(Lanes::broadcast(c.coupled_decay)),
        per_decoupled_decay(Lanes::broadcast(1.0F / (1.0F + c.decoupled_decay))) {}

  template <typename Correct>
  void operator()(Lanes g, const Lanes* words, const Correct& correct) const {
    const Lanes m = words[1], v = words[2];
    const Lanes decayed = words[0] - step_size * (m / (root_scale * sqrt(v) + eps));
    const Lanes p = correct(0, decouples ? decayed * per_decoupled_decay : decayed);
    if (couples) g = g + coupled_decay * p;
    correct(1, (m - gain1 * g) * per_beta1);
    correct(2, (v - (gain2 * g) * g) * per_beta2);
  }
};

template <typename Lanes>
struct InverseRule<Lanes, SgdCoefficients> {
  const Lanes step_size, per_decay;

  explicit InverseRule(const SgdCoefficients& c)
      : step_size(Lanes::broadcast(c.step_size)),
        per_decay(Lanes::broadcast(1.0F / (1.0F + c.step_size * c.decay))) {}

  template <typename Correct>
  void operator()(Lanes g, const Lanes* words, const Correct& correct) const {
    correct(0, (words[0] - step_size * g) * per_decay);
  }
};

template <typename Lanes>
struct InverseRule<Lanes, MomentumCoefficients> {
  const bool decays, first, nesterov;
  const Lanes step_size, decay, momentum, gain, per_momentum, per_nesterov_decay;

  explicit InverseRule(const MomentumCoefficients& c)
      : decays(c.decay != 0.0F),
        first(c.first),
        nesterov(c.nesterov),
        step_size(Lanes::broadcast(c.step_size)),
        decay(Lanes::broadcast(c.decay)),
        momentum(Lanes::broadcast(c.momentum)),
        gain(Lanes::broadcast(c.gain)),
        per_momentum(Lanes::broadcast(1.0F / c.momentum)),
        per_nesterov_decay(Lanes::broadcast(1.0F / (1.0F + c.step_size * c.decay))) {}

  template <typename Correct>
  void operator()(Lanes g, const Lanes* words, const Correct& correct) const {
    const Lanes b = words[1];
    const Lanes p =
        correct(0, nesterov ? (words[0] - step_size * (g + momentum * b)) * per_nesterov_decay
                            : words[0] - step_size * b);
    if (decays) g = g + decay * p;
    // Before the first step it was zero.
    correct(1, first ? Lanes::broadcast(0.0F) : (b - gain * g) * per_momentum);
  }
};

template <typename Lanes>
struct InverseRule<Lanes, LionCoefficients> {
  const Lanes beta1, gain1, gain2, per_beta2, lr, minus_lr, per_decay;

  explicit InverseRule(const LionCoefficients& c)
      : beta1(Lanes::broadcast(c.beta1)),
        gain1(Lanes::broadcast(c.gain1)),
        gain2(Lanes::broadcast(c.gain2)),
        per_beta2(Lanes::broadcast(1.0F / c.beta2)),
        lr(Lanes::broadcast(c.lr)),
        minus_lr(Lanes::broadcast(-c.lr)),
        per_decay(Lanes::broadcast(1.0F / (1.0F + c.decay))) {}

  template <typename Correct>
  void operator()(Lanes g, const Lanes* words, const Correct& correct) const {
    const Lanes zero = Lanes::broadcast(0.0F);
    const Lanes m = correct(1, (words[1] - gain2 * g) * per_beta2);
    const Lanes c = beta1 * m + gain1 * g;
    const Lanes moved = select(less(zero, c), lr, select(less(c, zero), minus_lr, c));
    correct(0, (words[0] + moved) * per_decay);
  }
};

template <typename Lanes>
struct InverseRule<Lanes, AdagradCoefficients> {
  const bool decays;
  const Lanes step_size, eps, decay, one;

  explicit InverseRule(const AdagradCoefficients& c)
      : decays(c.decay != 0.0F),
        step_size(Lanes::broadcast(c.step_size)),
        eps(Lanes::broadcast(c.eps)),
        decay(Lanes::broadcast(c.decay)),
        one(Lanes::broadcast(1.0F)) {}

  template <typename Correct>
  void operator()(Lanes g, const Lanes* words, const Correct& correct) const {
    const Lanes s = words[1];
    const Lanes per_root = step_size / (sqrt(s) + eps);
    const Lanes moved = words[0] - per_root * g;
    const Lanes p = correct(0, decays ? moved / (one + per_root * decay) : moved);
    if (decays) g = g + decay * p;
    correct(1, s - g * g);
  }
};

}  // namespace zeroshard::kernels
