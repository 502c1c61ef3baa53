#include "zeroshard/checkpoint/manifest.h"

#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/error.h"
#include "zeroshard/layout/checked.h"

namespace zeroshard {

std::string_view name_of(TensorKind kind) {
  switch (kind) {
    case TensorKind::trained: return "trained";
    case TensorKind::frozen: return "frozen";
    case TensorKind::buffer: return "buffer";
  }
  return "?";
}

std::int64_t StoredTensor::numel() const {
  std::int64_t numel = 1;
  for (const std::int64_t extent : shape) numel = checked_mul(numel, extent);
  return numel;
}

void RunNumbers::set(const std::string& name, const Number& value) {
  const double* const real = std::get_if<double>(&value);
  if (real != nullptr && !std::isfinite(*real)) {
    throw ConfigError({.what = fmt::format("{} cannot be saved: it is no number", name),
                       .value = fmt::format("{}", *real),
                       .remedy = "leave it out"});
  }
  const auto* const large = std::get_if<std::uint64_t>(&value);
  const bool is_signed =
      large != nullptr && *large <= std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  numbers_[name] = is_signed ? Number(static_cast<std::int64_t>(*large)) : value;
}

std::optional<std::int64_t> RunNumbers::whole(std::string_view name) const {
  const auto found = numbers_.find(name);
  if (found == numbers_.end()) return std::nullopt;
  if (const auto* number = std::get_if<std::int64_t>(&found->second)) return *number;
  return std::nullopt;
}

std::optional<std::uint64_t> RunNumbers::unsigned_whole(std::string_view name) const {
  const auto found = numbers_.find(name);
  if (found == numbers_.end()) return std::nullopt;
  if (const auto* number = std::get_if<std::uint64_t>(&found->second)) return *number;
  const std::optional<std::int64_t> small = whole(name);
  if (!small || *small < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*small);
}

std::optional<double> RunNumbers::real(std::string_view name) const {
  const auto found = numbers_.find(name);
  if (found == numbers_.end()) return std::nullopt;
  return std::visit([](auto number) { return static_cast<double>(number); }, found->second);
}

}  // namespace zeroshard
