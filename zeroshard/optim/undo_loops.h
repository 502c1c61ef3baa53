// The loops of undo.h over elements, written once for all lanes.
#pragma once

#include <cstdint>

#include "zeroshard/numeric/elements.h"
#include "zeroshard/numeric/halved_master.h"
#include "zeroshard/optim/inverse_rules.h"
#include "zeroshard/optim/rules.h"
#include "zeroshard/optim/update_pointers.h"

namespace zeroshard::kernels {

// How far off a foretold word was, in a byte: -127 to 127 units in the last place. kEscape says
// that a byte is not enough.
template <typename Lanes>
struct WordDelta {
  using Bits = typename Lanes::Bits;
  static constexpr std::uint32_t kEscape = 0x80;

  // The bytes as numbers; `escapes` becomes non-zero where one is an escape.
  static Bits bytes(Bits was, Bits foretold, Bits& escapes) {
    const Bits delta = was - foretold;
    const Bits beyond = ((delta + 127U) >> 8U) | ((delta + 128U) >> 8U);  // 0 where it fits
    const Bits escaped = (beyond | (0U - beyond)) >> 31U;
    escapes = escapes | escaped;
    const Bits mask = 0U - escaped;
    return ((delta & ~mask) | (mask & kEscape)) & 0xFFU;
  }
};

template <typename Lanes, typename Coefficients, DType kGradient>
struct UndoLoops {
  using ThisRule = Rule<Lanes, Coefficients>;
  using Inverse = InverseRule<Lanes, Coefficients>;
  using Bits = typename Lanes::Bits;
  static constexpr int kMoments = ThisRule::kMoments;
  static constexpr int kWords = 1 + kMoments;

  const ThisRule rule;
  const Inverse inverse;
  const Lanes factor;
  const UpdatePointers at;
  const UndoPointers undo;

  UndoLoops(const Coefficients& c, const UpdatePointers& pointers, const UndoPointers& record)
      : rule(c),
        inverse(c),
        factor(Lanes::broadcast(c.gradient_factor)),
        at(pointers),
        undo(record) {}

  // A few elements' words and their bytes of the record, from where they are read and to where they
  // are written: the arrays themselves, or padded copies at their end.
  struct Place {
    const void* gradient;
    float* words[kWords];
    std::int8_t* deltas[kWords];
  };

  Place place_at(std::int64_t i) const {
    Place place{.gradient = element_at_gradient(i), .words = {at.master + i}, .deltas = {}};
    for (int k = 0; k < kMoments; ++k) place.words[k + 1] = at.moments[k] + i;
    for (int k = 0; k < kWords; ++k) place.deltas[k] = undo.deltas + k * undo.stride + i;
    return place;
  }
  const void* element_at_gradient(std::int64_t i) const {
    constexpr std::int64_t kSize = kGradient == DType::fp32 ? 4 : 2;
    return static_cast<const char*>(at.gradient) + i * kSize;
  }

  // The last elements of a span, with zeros behind them.
  struct PaddedPlace {
    Padded<Lanes, kGradient> gradient;
    Padded<Lanes, DType::fp32> words[kWords];
    std::int8_t deltas[kWords][Lanes::kWidth] = {};

    Place place() {
      Place place{.gradient = gradient.values, .words = {}, .deltas = {}};
      for (int k = 0; k < kWords; ++k) place.words[k] = words[k].values;
      for (int k = 0; k < kWords; ++k) place.deltas[k] = deltas[k];
      return place;
    }
  };
  void fill(PaddedPlace& padded, const Place& from, std::int64_t count) const {
    padded.gradient.copy_from(from.gradient, 0, count);
    for (int k = 0; k < kWords; ++k) {
      padded.words[k].copy_from(from.words[k], 0, count);
      for (std::int64_t i = 0; i < count; ++i) padded.deltas[k][i] = from.deltas[k][i];
    }
  }

  // --- update and record ------------------------------------------------------------------------
  // A block's new words, until it is known that its old ones can be recorded.
  struct Fresh {
    float words[kWords][kUndoBlock];
  };

  struct Recording {
    const Lanes* was;
    std::int8_t* const* deltas;
    Bits* escapes;

    Lanes operator()(int word, Lanes foretold) const {
      Lanes::store_byte(deltas[word],
                        WordDelta<Lanes>::bytes(was[word].bits(), foretold.bits(), *escapes));
      return was[word];
    }
  };

  template <bool kSettles>
  void record_lanes(const Place& from, Fresh& fresh, std::int64_t to, Bits& escapes) const {
    const Lanes g = Elements<Lanes, kGradient>::load(from.gradient, 0) * factor;
    Lanes was[kWords], now[kWords];
    for (int k = 0; k < kWords; ++k) now[k] = was[k] = Lanes::load(from.words[k]);
    rule(g, now[0], now + 1);
    for (int k = 0; k < kWords; ++k) now[k] = with_one_nan(now[k]);
    if constexpr (kSettles) now[0] = Lanes::of_bits(HalvedMaster<Lanes>::settled(now[0].bits()));
    inverse(g, now, Recording{was, from.deltas, &escapes});
    for (int k = 0; k < kWords; ++k) now[k].store(fresh.words[k] + to);
  }

  // Returns whether a byte was not enough for some element.
  template <bool kSettles>
  bool record_words(std::int64_t begin, std::int64_t count, Fresh& fresh) const {
    Bits escapes = {};
    std::int64_t i = 0;
    for (; i + Lanes::kWidth <= count; i += Lanes::kWidth) {
      record_lanes<kSettles>(place_at(begin + i), fresh, i, escapes);
    }
    if (i < count) {
      const Place rest = place_at(begin + i);
      PaddedPlace padded;
      fill(padded, rest, count - i);
      Fresh apart;
      record_lanes<kSettles>(padded.place(), apart, 0, escapes);
      for (int k = 0; k < kWords; ++k) {
        for (std::int64_t j = 0; j < count - i; ++j) {
          fresh.words[k][i + j] = apart.words[k][j];
          rest.deltas[k][j] = padded.deltas[k][j];
        }
      }
    }
    return Lanes::any(escapes);
  }

  bool escapes(const Place& block, std::int64_t i) const {
    for (int k = 0; k < kWords; ++k) {
      if (block.deltas[k][i] == -128) return true;
    }
    return false;
  }

  // The builtins, because this source shares no function with others (numeric/transfers.h).
  std::int64_t reserve(std::int64_t count) const {
    std::int64_t used = __atomic_load_n(undo.used, __ATOMIC_RELAXED);
    do {
      if (used + count > undo.capacity) return -1;
    } while (!__atomic_compare_exchange_n(undo.used, &used, used + count, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return used;
  }

  bool record_escapes(std::int64_t begin, std::int64_t count) const {
    const Place block = place_at(begin);
    std::int64_t wanted = 0;
    for (std::int64_t i = 0; i < count; ++i) wanted += escapes(block, i) ? 1 : 0;
    std::int64_t next = reserve(wanted);
    if (next < 0) return false;
    for (std::int64_t i = 0; i < count; ++i) {
      if (!escapes(block, i)) continue;
      UndoEscape& escape = undo.escapes[next++];
      escape.element = static_cast<std::uint32_t>(undo.first + begin + i);
      for (int k = 0; k < kWords; ++k) {
        __builtin_memcpy(&escape.words[k], block.words[k] + i, sizeof(float));
      }
    }
    return true;
  }

  template <bool kSettles>
  void record_block(std::int64_t begin, std::int64_t count) const {
    Fresh fresh;
    const bool leaves_out =
        record_words<kSettles>(begin, count, fresh) && !record_escapes(begin, count);
    undo.left_out[begin / kUndoAlignment] = leaves_out ? 1 : 0;
    if (leaves_out) return;
    const Place block = place_at(begin);
    for (int k = 0; k < kWords; ++k) {
      for (std::int64_t i = 0; i < count; ++i) block.words[k][i] = fresh.words[k][i];
    }
  }

  // --- take back
  // ----------------------------------------------------------------------------------
  struct Correcting {
    const std::int8_t* const* deltas;
    Lanes* was;

    Lanes operator()(int word, Lanes foretold) const {
      return was[word] = Lanes::of_bits(foretold.bits() + Lanes::load_byte(deltas[word]));
    }
  };

  void revoke_lanes(const Place& place) const {
    const Lanes g = Elements<Lanes, kGradient>::load(place.gradient, 0) * factor;
    Lanes now[kWords], was[kWords];
    for (int k = 0; k < kWords; ++k) now[k] = Lanes::load(place.words[k]);
    inverse(g, now, Correcting{place.deltas, was});
    for (int k = 0; k < kWords; ++k) was[k].store(place.words[k]);
  }

  void revoke_block(std::int64_t begin, std::int64_t count) const {
    if (undo.left_out[begin / kUndoAlignment] != 0) return;
    std::int64_t i = 0;
    for (; i + Lanes::kWidth <= count; i += Lanes::kWidth) revoke_lanes(place_at(begin + i));
    if (i == count) return;
    const Place rest = place_at(begin + i);
    PaddedPlace padded;
    fill(padded, rest, count - i);
    revoke_lanes(padded.place());
    for (int k = 0; k < kWords; ++k) padded.words[k].copy_to(rest.words[k], 0, count - i);
  }

  // --- what the tables hold: of elements `begin` to `end` of a span, `begin` at a block ---------
  template <bool kSettles>
  static void record(const Coefficients& c, const UpdatePointers& at, const UndoPointers& undo,
                     std::int64_t begin, std::int64_t end) {
    const UndoLoops loops(c, at, undo);
    for (std::int64_t i = begin; i < end; i += kUndoBlock) {
      loops.template record_block<kSettles>(i, end - i < kUndoBlock ? end - i : kUndoBlock);
    }
  }
  static void revoke(const Coefficients& c, const UpdatePointers& at, const UndoPointers& undo,
                     std::int64_t begin, std::int64_t end) {
    const UndoLoops loops(c, at, undo);
    for (std::int64_t i = begin; i < end; i += kUndoBlock) {
      loops.revoke_block(i, end - i < kUndoBlock ? end - i : kUndoBlock);
    }
  }
};

}  // namespace zeroshard::kernels
