// Whether the user holds torch below AVX-512, to have the speed or the numbers of an older CPU.
// What we choose by the CPU's abilities then follows, so that such a run is one of that CPU
// throughout.
#pragma once

namespace zeroshard {

// True where ATEN_CPU_CAPABILITY names an instruction set below AVX-512 ("default", "avx2").
bool held_below_avx512();

}  // namespace zeroshard
