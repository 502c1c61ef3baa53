#include "zeroshard/comm/ledger.h"

#include <utility>

namespace zeroshard {
namespace {

class CountingCommunicator final : public Communicator {
 public:
  CountingCommunicator(Communicator& comm, TrafficLedger& ledger,
                       std::unique_ptr<Communicator> owned = nullptr)
      : comm_(comm), ledger_(ledger), owned_(std::move(owned)) {}

  int rank() const override { return comm_.rank(); }
  int world_size() const override { return comm_.world_size(); }
  DeviceSums device_sums() const override { return comm_.device_sums(); }

  Handle all_gather_into(const std::vector<GatherPair>& pairs, const std::string& label) override {
    ledger_.add(Operation::all_gather, label, bytes_sent(pairs, world_size()));
    return comm_.all_gather_into(pairs, label);
  }

  Handle reduce_scatter_into(const std::vector<ReducePair>& pairs, const ReduceOptions& options,
                             const std::string& label) override {
    ledger_.add(Operation::reduce_scatter, label, bytes_sent(pairs, world_size()));
    return comm_.reduce_scatter_into(pairs, options, label);
  }

  Handle all_reduce(const Piece& piece, ReduceOp op, const std::string& label) override {
    ledger_.add(Operation::all_reduce, label, piece.bytes() * (world_size() - 1));
    return comm_.all_reduce(piece, op, label);
  }

  Handle broadcast(const Piece& piece, int root, const std::string& label) override {
    const std::int64_t copies = root == rank() ? world_size() - 1 : 0;
    ledger_.add(Operation::broadcast, label, piece.bytes() * copies);
    return comm_.broadcast(piece, root, label);
  }

  Handle barrier(const std::string& label) override {
    ledger_.add(Operation::barrier, label, 0);
    return comm_.barrier(label);
  }

  std::unique_ptr<Communicator> make_sibling() override {
    auto sibling = comm_.make_sibling();
    Communicator& counted = *sibling;
    return std::make_unique<CountingCommunicator>(counted, ledger_, std::move(sibling));
  }

 private:
  Communicator& comm_;
  TrafficLedger& ledger_;
  const std::unique_ptr<Communicator> owned_;  // a sibling's
};

}  // namespace

void TrafficLedger::add(Operation operation, const std::string& label, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[{operation, label}];
  ++entry.calls;
  entry.bytes += bytes;
}

void TrafficLedger::clear() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
}

TrafficLedger::Entries TrafficLedger::entries() const {
  const std::lock_guard lock(mutex_);
  return entries_;
}

TrafficLedger::Entry TrafficLedger::entry(Operation operation, const std::string& label) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find({operation, label});
  return found == entries_.end() ? Entry{} : found->second;
}

std::int64_t TrafficLedger::bytes(Operation operation) const {
  std::int64_t sum = 0;
  for (const auto& [key, entry] : entries()) sum += key.first == operation ? entry.bytes : 0;
  return sum;
}

std::int64_t TrafficLedger::bytes() const {
  std::int64_t sum = 0;
  for (const auto& [key, entry] : entries()) sum += entry.bytes;
  return sum;
}

std::unique_ptr<Communicator> count_traffic(Communicator& comm, TrafficLedger& ledger) {
  return std::make_unique<CountingCommunicator>(comm, ledger);
}

}  // namespace zeroshard
