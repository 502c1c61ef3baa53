#include "zeroshard/monitor/monitor.h"

#include <exception>
#include <filesystem>

namespace zeroshard {
namespace {

// An empty output_path is the current folder, as in DeepSpeed.
std::string folder_of(const SinkOptions& sink) {
  return (std::filesystem::path(sink.output_path) / sink.job_name).string();
}

template <typename Sink>
void write_to(std::optional<Sink>& sink, std::int64_t step, std::span<const Scalar> scalars,
              std::exception_ptr& first_error) {
  if (!sink) return;
  try {
    sink->write(step, scalars);
  } catch (...) {
    if (!first_error) first_error = std::current_exception();
  }
}

}  // namespace

Monitor::Monitor(const MonitorOptions& options) {
  if (options.tensorboard.enabled) tensorboard_.emplace(folder_of(options.tensorboard));
  if (options.csv.enabled) csv_.emplace(folder_of(options.csv));
}

void Monitor::write(std::int64_t step, std::span<const Scalar> scalars) {
  std::exception_ptr first_error;
  write_to(tensorboard_, step, scalars, first_error);
  write_to(csv_, step, scalars, first_error);
  if (first_error) std::rethrow_exception(first_error);
}

}  // namespace zeroshard
