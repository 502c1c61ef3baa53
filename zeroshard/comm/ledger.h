// An exact account of what a rank sends: bytes by operation and label.
//
//   TrafficLedger ledger;
//   auto counted = count_traffic(comm, ledger);
//   ... use *counted instead of comm ...
//   ledger.bytes(Operation::all_gather, "block.3");
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "zeroshard/comm/communicator.h"

namespace zeroshard {

// May be read while operations run; it counts when an operation is called.
class TrafficLedger {
 public:
  struct Entry {
    std::int64_t calls = 0;
    std::int64_t bytes = 0;
    bool operator==(const Entry&) const = default;
  };
  using Entries = std::map<std::pair<Operation, std::string>, Entry>;

  void add(Operation operation, const std::string& label, std::int64_t bytes);
  void clear();

  Entries entries() const;
  Entry entry(Operation operation, const std::string& label) const;
  std::int64_t bytes(Operation operation) const;
  std::int64_t bytes() const;

 private:
  mutable std::mutex mutex_;
  Entries entries_;
};

// Makes a communicator that passes everything on to `comm` and counts it. Both must outlive it.
std::unique_ptr<Communicator> count_traffic(Communicator& comm, TrafficLedger& ledger);

}  // namespace zeroshard
