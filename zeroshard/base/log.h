// Messages to people, one line each on stderr: `zeroshard[rank]: warning: text`.
//
//   log_info("loaded {} parameters", human_count(count));
//
// By default rank 0 logs from `info` up. ZEROSHARD_LOG changes that (`debug`, `debug:all`,
// `warning:3`), and a program may override it with set_log_level. Logging is safe from any thread.
// A disabled call formats nothing.
#pragma once

#include <functional>
#include <string_view>
#include <utility>

#include <fmt/core.h>

namespace zeroshard {

enum class LogLevel { debug, info, warning, error, off };

std::string_view name_of(LogLevel level);

// Aligned so that Clang, too, reads and writes all of it in one instruction.
struct alignas(8) LogSettings {
  static constexpr int kAllRanks = -1;

  LogLevel level = LogLevel::info;  // the least serious level that is written
  int rank = 0;                     // the only rank that writes, or kAllRanks

  bool operator==(const LogSettings&) const = default;
};

// Reads `level`, `level:all` or `level:rank`. Bad text throws ConfigError; `option` is what the
// message says was wrong.
LogSettings parse_log_settings(std::string_view text, std::string_view option = "the log level");

// ZEROSHARD_LOG, or the defaults where it is unset. Bad text throws ConfigError, so programs call
// this first thing; a log call that finds bad text there uses the defaults instead of throwing.
LogSettings log_settings_from_env();

LogSettings log_settings();
void set_log_settings(LogSettings settings);

// Changes the level and leaves alone which ranks write.
void set_log_level(LogLevel level);

// Whether a message of this level from the calling thread's rank would be written.
bool log_enabled(LogLevel level);

// Writes one line, whatever the settings; the functions below ask them first.
void write_log(LogLevel level, std::string_view text);

// Receives whole lines without the newline, one call at a time. It must not log itself.
using LogSink = std::function<void(LogLevel level, std::string_view line)>;

// While it lives, all lines go to `sink` instead of stderr, under `settings`. For tests and
// bindings.
class LogScope {
 public:
  LogScope(LogSettings settings, LogSink sink);
  ~LogScope();
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;

 private:
  LogSettings outer_settings_;
  LogSink outer_sink_;
};

template <typename... Args>
void log_at(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) write_log(level, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::debug, format, std::forward<Args>(args)...);
}

template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::info, format, std::forward<Args>(args)...);
}

template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::warning, format, std::forward<Args>(args)...);
}

template <typename... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_at(LogLevel::error, format, std::forward<Args>(args)...);
}

}  // namespace zeroshard
