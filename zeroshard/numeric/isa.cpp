#include "zeroshard/numeric/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "zeroshard/base/check.h"
#include "zeroshard/base/held_instructions.h"
#include "zeroshard/numeric/transfers.h"

namespace zeroshard {
namespace {

#if defined(__x86_64__)

// Clang's __builtin_cpu_supports does not know this one.
bool ask_for_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

// Asked once: in a virtual machine the instruction costs microseconds, and loops look up their
// functions for every block.
bool has_f16c() {
  static const bool has = ask_for_f16c();
  return has;
}

bool cpu_runs(Isa isa) {
  switch (isa) {
    case Isa::scalar: return true;
    case Isa::avx2: return __builtin_cpu_supports("avx2") && has_f16c();
    case Isa::avx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  }
  return false;
}

#else

bool cpu_runs(Isa isa) { return isa == Isa::scalar; }

#endif

const Transfers* built_transfers(Isa isa) {
  switch (isa) {
    case Isa::scalar: return scalar_transfers();
    case Isa::avx2: return avx2_transfers();
    case Isa::avx512: return avx512_transfers();
  }
  return nullptr;
}

}  // namespace

// The CPU is asked first: code built for one it is not must not run, not even to fetch a table.
bool is_available(Isa isa) { return cpu_runs(isa) && built_transfers(isa) != nullptr; }

Isa best_isa() {
  static const Isa best = [] {
    std::vector<Isa> isas = available_isas();
    if (held_below_avx512()) std::erase(isas, Isa::avx512);
    return isas.back();
  }();
  return best;
}

std::vector<Isa> available_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    if (is_available(isa)) isas.push_back(isa);
  }
  return isas;
}

const Transfers& transfers_of(Isa isa) {
  ZS_CHECK(is_available(isa), "no {} loops on this machine", name_of(isa));
  return *built_transfers(isa);
}

int float_index(DType dtype) {
  ZS_CHECK(dtype == DType::fp32 || dtype == DType::bf16 || dtype == DType::fp16,
           "{} is not a float", name_of(dtype));
  return static_cast<int>(dtype);
}

}  // namespace zeroshard
