// What `zeroshard env --measure` has found out about this machine, kept in a file.
//
//   Calibration all = Calibration::load(calibration_file());
//   all.keep({.host = "node7", .accelerator = true, .ranks = 8, .rates = rates});
//   all.save(calibration_file());
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "zeroshard/planner/rates.h"

namespace zeroshard {

// With so many ranks of one host at work at once, each with so many threads.
struct MachineMeasurement {
  std::string host;
  std::string date;  // "2026-11-18"
  bool accelerator = false;
  int ranks = 1;
  int threads = 1;
  std::int64_t device_memory_bytes = 0;  // 0: not known
  Rates rates = {};
};

class Calibration {
 public:
  // No file is an empty calibration; one that cannot be understood is, too, with a warning.
  static Calibration load(const std::filesystem::path& file);

  // In place of one of the same host, kind, ranks and threads.
  void keep(const MachineMeasurement& measurement);
  // Of this host: the one whose ranks come nearest.
  std::optional<MachineMeasurement> find(const std::string& host, bool accelerator,
                                         int ranks) const;
  // Written aside and renamed. Throws StorageError.
  void save(const std::filesystem::path& file) const;

  const std::vector<MachineMeasurement>& all() const { return all_; }

 private:
  std::vector<MachineMeasurement> all_;
};

// Where it is kept; empty where no variable says.
std::filesystem::path calibration_file();
std::string host_name();

// A rate that was measured is used in place of one that is assumed.
Rates with_measured(Rates assumed, const Rates& measured);

// The names of all rates, for tables and files.
struct NamedRate {
  std::string_view name;
  std::string_view meaning;
  std::string_view unit;  // "FLOP/s", "B/s", "s"
  Rate Rates::*member;
};
const std::vector<NamedRate>& named_rates();

}  // namespace zeroshard
