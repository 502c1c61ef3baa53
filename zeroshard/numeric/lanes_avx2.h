// Eight floats of AVX2 and F16C; lanes_scalar.h says what the members promise.
#pragma once

#include <cstdint>

#include <immintrin.h>

namespace zeroshard::kernels {

struct Avx2Lanes {
  static constexpr std::int64_t kWidth = 8;
  using Mask = __m256;
  using Bits = std::uint32_t __attribute__((vector_size(32)));

  __m256 value;

  static Avx2Lanes broadcast(float value) { return {_mm256_set1_ps(value)}; }
  static Avx2Lanes load(const float* from) { return {_mm256_loadu_ps(from)}; }
  static Avx2Lanes load_bf16(const std::uint16_t* from) {
    const __m256i wide = _mm256_cvtepu16_epi32(bits_at(from));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(wide, 16))};
  }
  static Avx2Lanes load_fp16(const std::uint16_t* from) { return {_mm256_cvtph_ps(bits_at(from))}; }

  void store(float* to) const { _mm256_storeu_ps(to, value); }
  void store_bf16(std::uint16_t* to) const { put_bits(to, bf16_bits()); }
  void store_fp16(std::uint16_t* to) const {
    put_bits(to, _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }

  static Avx2Lanes of_bits(Bits bits) { return {reinterpret_cast<__m256>(bits)}; }
  Bits bits() const { return reinterpret_cast<Bits>(value); }
  static Bits load_half(const std::uint16_t* from) {
    return reinterpret_cast<Bits>(_mm256_cvtepu16_epi32(bits_at(from)));
  }
  static void store_half(std::uint16_t* to, Bits bits) {
    put_bits(to, narrowed(reinterpret_cast<__m256i>(bits)));
  }

  static void store_byte(std::int8_t* to, Bits bits) {
    const __m128i halves = narrowed(reinterpret_cast<__m256i>(bits & 0xFFU));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(halves, halves));
  }
  static Bits load_byte(const std::int8_t* from) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
    return reinterpret_cast<Bits>(_mm256_cvtepi8_epi32(bytes));
  }
  static bool any(Bits bits) {
    const auto all = reinterpret_cast<__m256i>(bits);
    return _mm256_testz_si256(all, all) == 0;
  }

  static void stream_line(std::uint16_t* to, const std::uint16_t* line) {
    for (int half = 0; half < 2; ++half) {
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to) + half,
                          _mm256_load_si256(reinterpret_cast<const __m256i*>(line) + half));
    }
  }
  static void end_streaming() { _mm_sfence(); }

  struct Squares {
    __m256d low = _mm256_setzero_pd();
    __m256d high = _mm256_setzero_pd();

    void add(Avx2Lanes lanes) {
      const __m256d wide_low = _mm256_cvtps_pd(_mm256_castps256_ps128(lanes.value));
      const __m256d wide_high = _mm256_cvtps_pd(_mm256_extractf128_ps(lanes.value, 1));
      low = _mm256_add_pd(low, _mm256_mul_pd(wide_low, wide_low));
      high = _mm256_add_pd(high, _mm256_mul_pd(wide_high, wide_high));
    }
    void store(double* to) const {
      _mm256_storeu_pd(to, low);
      _mm256_storeu_pd(to + 4, high);
    }
  };

 private:
  static __m128i bits_at(const std::uint16_t* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  }
  static void put_bits(std::uint16_t* to, __m128i bits) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bits);
  }

  // base/half.h's fp32_to_bf16, eight at once.
  __m128i bf16_bits() const {
    const __m256i bits = _mm256_castps_si256(value);
    const __m256i high = _mm256_srli_epi32(bits, 16);
    const __m256i tie_to_even = _mm256_and_si256(high, _mm256_set1_epi32(1));
    const __m256i half = _mm256_add_epi32(tie_to_even, _mm256_set1_epi32(0x7FFF));
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
    const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x0040));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    return narrowed(_mm256_blendv_epi8(rounded, quiet, nan));
  }

  // Eight numbers of 16 bits each. Packing works within each half of the register; the permutation
  // brings the halves together.
  static __m128i narrowed(__m256i wide) {
    const __m256i packed = _mm256_packus_epi32(wide, wide);
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
  }
};

inline Avx2Lanes operator+(Avx2Lanes a, Avx2Lanes b) { return {_mm256_add_ps(a.value, b.value)}; }
inline Avx2Lanes operator-(Avx2Lanes a, Avx2Lanes b) { return {_mm256_sub_ps(a.value, b.value)}; }
inline Avx2Lanes operator*(Avx2Lanes a, Avx2Lanes b) { return {_mm256_mul_ps(a.value, b.value)}; }
inline Avx2Lanes operator/(Avx2Lanes a, Avx2Lanes b) { return {_mm256_div_ps(a.value, b.value)}; }
inline Avx2Lanes sqrt(Avx2Lanes a) { return {_mm256_sqrt_ps(a.value)}; }
inline Avx2Lanes abs(Avx2Lanes a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0F), a.value)}; }

inline __m256 less(Avx2Lanes a, Avx2Lanes b) { return _mm256_cmp_ps(a.value, b.value, _CMP_LT_OQ); }
inline __m256 is_nan(Avx2Lanes a) { return _mm256_cmp_ps(a.value, a.value, _CMP_UNORD_Q); }
inline Avx2Lanes select(__m256 mask, Avx2Lanes yes, Avx2Lanes no) {
  return {_mm256_blendv_ps(no.value, yes.value, mask)};
}

}  // namespace zeroshard::kernels
