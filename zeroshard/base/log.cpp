#include "zeroshard/base/log.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <mutex>
#include <optional>
#include <string>

#include <unistd.h>

#include "zeroshard/base/env.h"
#include "zeroshard/base/error.h"
#include "zeroshard/base/rank.h"

namespace zeroshard {
namespace {

constexpr std::array<std::string_view, 5> kLevelNames{"debug", "info", "warning", "error", "off"};

LogSettings env_settings_or_default() noexcept {
  try {
    return log_settings_from_env();
  } catch (...) {
    return {};
  }
}

std::atomic<LogSettings>& shared_settings() {
  static std::atomic<LogSettings> settings{env_settings_or_default()};
  return settings;
}

struct SharedSink {
  std::mutex mutex;
  LogSink sink;  // guarded by mutex; empty: stderr
};

// Never destroyed, so that destructors of other statics may still log.
SharedSink& shared_sink() {
  static SharedSink& sink = *new SharedSink;
  return sink;
}

std::optional<LogLevel> level_named(std::string_view name) {
  for (std::size_t i = 0; i < kLevelNames.size(); ++i) {
    if (kLevelNames[i] == name) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

std::optional<int> log_rank_named(std::string_view text) {
  if (text == "all") return LogSettings::kAllRanks;
  int rank = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, rank);
  if (error != std::errc{} || stop != end || rank < 0) return std::nullopt;
  return rank;
}

std::optional<LogSettings> read_log_settings(std::string_view text) {
  const auto colon = text.find(':');
  const auto level = level_named(text.substr(0, colon));
  const auto rank =
      colon == text.npos ? LogSettings{}.rank : log_rank_named(text.substr(colon + 1));
  if (!level || !rank) return std::nullopt;
  return LogSettings{.level = *level, .rank = *rank};
}

// One write for the whole line, so that lines of several processes do not mix.
void write_to_stderr(std::string line) {
  line += '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    const auto written = ::write(STDERR_FILENO, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // nowhere left to complain to
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

LogSink exchange_sink(LogSink sink) {
  std::lock_guard lock(shared_sink().mutex);
  return std::exchange(shared_sink().sink, std::move(sink));
}

}  // namespace

std::string_view name_of(LogLevel level) { return kLevelNames[static_cast<std::size_t>(level)]; }

LogSettings parse_log_settings(std::string_view text, std::string_view option) {
  if (const auto settings = read_log_settings(text)) return *settings;
  throw ConfigError({.what = fmt::format("{} is not understood", option),
                     .value = fmt::format("'{}'", text),
                     .remedy =
                         "write debug, info, warning, error or off, and if you like the ranks "
                         "that log: debug:all, warning:3"});
}

LogSettings log_settings_from_env() {
  const auto text = env_text(EnvVar::kLog);
  return text ? parse_log_settings(*text, "ZEROSHARD_LOG") : LogSettings{};
}

LogSettings log_settings() { return shared_settings().load(); }

void set_log_settings(LogSettings settings) { shared_settings().store(settings); }

void set_log_level(LogLevel level) {
  LogSettings settings = shared_settings().load();
  settings.level = level;
  shared_settings().store(settings);
}

bool log_enabled(LogLevel level) {
  const LogSettings settings = log_settings();
  if (level < settings.level || level == LogLevel::off) return false;
  return settings.rank == LogSettings::kAllRanks || settings.rank == current_rank();
}

void write_log(LogLevel level, std::string_view text) {
  std::string line = fmt::format("zeroshard[{}]: {}: {}", current_rank(), name_of(level), text);
  {
    std::lock_guard lock(shared_sink().mutex);
    if (shared_sink().sink) return shared_sink().sink(level, line);
  }
  write_to_stderr(std::move(line));
}

LogScope::LogScope(LogSettings settings, LogSink sink)
    : outer_settings_(log_settings()), outer_sink_(exchange_sink(std::move(sink))) {
  set_log_settings(settings);
}

LogScope::~LogScope() {
  set_log_settings(outer_settings_);
  exchange_sink(std::move(outer_sink_));
}

}  // namespace zeroshard
