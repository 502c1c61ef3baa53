#include "zeroshard/device/allocator_limit.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include <fmt/format.h>

#include "zeroshard/base/check.h"
#include "zeroshard/base/env.h"
#include "zeroshard/base/log.h"

namespace zeroshard {
namespace {

constexpr std::string_view kFraction = "per_process_memory_fraction:";

// As torch reads them: it skips blanks wherever they are. A comma at the end would become an empty
// setting with ours behind it.
std::string compact(std::string_view settings) {
  std::string text;
  std::ranges::copy_if(settings, std::back_inserter(text), [](char letter) {
    return std::isspace(static_cast<unsigned char>(letter)) == 0;
  });
  while (text.ends_with(',')) text.pop_back();
  return text;
}

// Of several the last one counts.
std::optional<double> own_fraction(std::string_view settings) {
  const auto at = settings.rfind(kFraction);
  if (at == settings.npos) return std::nullopt;
  const std::string_view text = settings.substr(at + kFraction.size());
  double fraction = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), fraction);
  return error == std::errc() ? std::optional(fraction) : std::nullopt;
}

// CUDA's own allocator takes no limit from the settings.
bool knows_no_limit(const std::string& settings) {
  return settings.find("backend:cudaMallocAsync") != settings.npos;
}

void extend(EnvVar variable, double fraction) {
  const std::string settings = with_memory_fraction(env_text(variable).value_or(""), fraction);
  set_env(variable, settings);
  if (!knows_no_limit(settings)) return;
  log_warning(
      "--device-memory is planned with, but nothing enforces it: the allocator that {} "
      "asks for (cudaMallocAsync) knows no limit",
      all_env_vars()[static_cast<std::size_t>(variable)].name);
}

}  // namespace

void limit_allocator(std::int64_t bytes, std::int64_t device_total) {
  const auto fraction = limiting_fraction(bytes, device_total);
  if (!fraction) return;
  // Torch's parts do not agree which name comes first where both are set.
  const bool is_old = env_exact(EnvVar::kTorchCudaAlloc).has_value();
  if (is_old) extend(EnvVar::kTorchCudaAlloc, *fraction);
  if (!is_old || env_exact(EnvVar::kTorchAllocator).has_value())
    extend(EnvVar::kTorchAllocator, *fraction);
}

std::optional<double> limiting_fraction(std::int64_t bytes, std::int64_t device_total) {
  ZS_CHECK(bytes > 0, "a limit is some bytes");
  if (bytes >= device_total) return std::nullopt;
  // Half a byte more, so that the product's rounding cannot lose one.
  return (static_cast<double>(bytes) + 0.5) / static_cast<double>(device_total);
}

std::string with_memory_fraction(std::string_view settings, double fraction) {
  const std::string text = compact(settings);
  const auto own = own_fraction(text);
  if (own && *own <= fraction) return std::string(settings);
  return fmt::format("{}{}{}{:.17g}", text, text.empty() ? "" : ",", kFraction, fraction);
}

}  // namespace zeroshard
