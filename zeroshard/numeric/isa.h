// The instruction sets our kernels exist for. All of them give the same bits; they differ in speed.
#pragma once

#include <string_view>
#include <vector>

namespace zeroshard {

enum class Isa { scalar, avx2, avx512 };

constexpr std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::scalar: return "scalar";
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
  }
  return "?";
}

// Whether this build has the kernels and this CPU runs them.
bool is_available(Isa isa);

// The fastest available one; AVX-512 only where torch is not held below it
// (base/held_instructions.h). Everything that takes an Isa takes this one unless told otherwise.
Isa best_isa();

// All available ones, slowest first; `scalar` always is.
std::vector<Isa> available_isas();

}  // namespace zeroshard
