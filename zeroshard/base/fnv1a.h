// FNV-1a: tells values apart, and the same on every machine, which std::hash need not be.
#pragma once

#include <cstdint>
#include <string_view>

namespace zeroshard {

class Fnv1a {
 public:
  Fnv1a& add_byte(unsigned char byte) {
    value_ = (value_ ^ byte) * 0x100000001B3U;
    return *this;
  }
  Fnv1a& add(std::uint64_t number) {
    for (unsigned shift = 0; shift < 64; shift += 8) {
      add_byte(static_cast<unsigned char>((number >> shift) & 0xFFU));
    }
    return *this;
  }
  Fnv1a& add(std::string_view text) {
    for (const char c : text) add_byte(static_cast<unsigned char>(c));
    return *this;
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325U;
};

}  // namespace zeroshard
