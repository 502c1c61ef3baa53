// Sixteen floats of AVX-512; lanes_scalar.h says what the members promise.
#pragma once

#include <cstdint>

#include <immintrin.h>

namespace zeroshard::kernels {

struct Avx512Lanes {
  static constexpr std::int64_t kWidth = 16;
  using Mask = __mmask16;
  using Bits = std::uint32_t __attribute__((vector_size(64)));

  __m512 value;

  static Avx512Lanes broadcast(float value) { return {_mm512_set1_ps(value)}; }
  static Avx512Lanes load(const float* from) { return {_mm512_loadu_ps(from)}; }
  static Avx512Lanes load_bf16(const std::uint16_t* from) {
    const __m512i wide = _mm512_cvtepu16_epi32(bits_at(from));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
  }
  static Avx512Lanes load_fp16(const std::uint16_t* from) {
    return {_mm512_cvtph_ps(bits_at(from))};
  }

  void store(float* to) const { _mm512_storeu_ps(to, value); }
  void store_bf16(std::uint16_t* to) const { put_bits(to, bf16_bits()); }
  void store_fp16(std::uint16_t* to) const {
    put_bits(to, _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }

  static Avx512Lanes of_bits(Bits bits) { return {reinterpret_cast<__m512>(bits)}; }
  Bits bits() const { return reinterpret_cast<Bits>(value); }
  static Bits load_half(const std::uint16_t* from) {
    return reinterpret_cast<Bits>(_mm512_cvtepu16_epi32(bits_at(from)));
  }
  static void store_half(std::uint16_t* to, Bits bits) {
    put_bits(to, _mm512_cvtepi32_epi16(reinterpret_cast<__m512i>(bits)));
  }

  static void store_byte(std::int8_t* to, Bits bits) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm512_cvtepi32_epi8(reinterpret_cast<__m512i>(bits)));
  }
  static Bits load_byte(const std::int8_t* from) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return reinterpret_cast<Bits>(_mm512_cvtepi8_epi32(bytes));
  }
  static bool any(Bits bits) {
    const auto all = reinterpret_cast<__m512i>(bits);
    return _mm512_test_epi32_mask(all, all) != 0;
  }

  static void stream_line(std::uint16_t* to, const std::uint16_t* line) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to),
                        _mm512_load_si512(reinterpret_cast<const __m512i*>(line)));
  }
  static void end_streaming() { _mm_sfence(); }

  struct Squares {
    __m512d low = _mm512_setzero_pd();
    __m512d high = _mm512_setzero_pd();

    void add(Avx512Lanes lanes) {
      const __m512d wide_low = _mm512_cvtps_pd(_mm512_castps512_ps256(lanes.value));
      const __m512d wide_high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(lanes.value, 1));
      low = _mm512_add_pd(low, _mm512_mul_pd(wide_low, wide_low));
      high = _mm512_add_pd(high, _mm512_mul_pd(wide_high, wide_high));
    }
    void store(double* to) const {
      _mm512_storeu_pd(to, low);
      _mm512_storeu_pd(to + 8, high);
    }
  };

 private:
  static __m256i bits_at(const std::uint16_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  static void put_bits(std::uint16_t* to, __m256i bits) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bits);
  }

  // base/half.h's fp32_to_bf16, sixteen at once.
  __m256i bf16_bits() const {
    const __m512i bits = _mm512_castps_si512(value);
    const __m512i high = _mm512_srli_epi32(bits, 16);
    const __m512i tie_to_even = _mm512_and_si512(high, _mm512_set1_epi32(1));
    const __m512i half = _mm512_add_epi32(tie_to_even, _mm512_set1_epi32(0x7FFF));
    const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
    const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(
        _mm512_mask_or_epi32(rounded, nan, high, _mm512_set1_epi32(0x0040)));
  }
};

inline Avx512Lanes operator+(Avx512Lanes a, Avx512Lanes b) {
  return {_mm512_add_ps(a.value, b.value)};
}
inline Avx512Lanes operator-(Avx512Lanes a, Avx512Lanes b) {
  return {_mm512_sub_ps(a.value, b.value)};
}
inline Avx512Lanes operator*(Avx512Lanes a, Avx512Lanes b) {
  return {_mm512_mul_ps(a.value, b.value)};
}
inline Avx512Lanes operator/(Avx512Lanes a, Avx512Lanes b) {
  return {_mm512_div_ps(a.value, b.value)};
}
inline Avx512Lanes sqrt(Avx512Lanes a) { return {_mm512_sqrt_ps(a.value)}; }
inline Avx512Lanes abs(Avx512Lanes a) { return {_mm512_abs_ps(a.value)}; }

inline __mmask16 less(Avx512Lanes a, Avx512Lanes b) {
  return _mm512_cmp_ps_mask(a.value, b.value, _CMP_LT_OQ);
}
inline __mmask16 is_nan(Avx512Lanes a) {
  return _mm512_cmp_ps_mask(a.value, a.value, _CMP_UNORD_Q);
}
inline Avx512Lanes select(__mmask16 mask, Avx512Lanes yes, Avx512Lanes no) {
  return {_mm512_mask_blend_ps(mask, no.value, yes.value)};
}

}  // namespace zeroshard::kernels
