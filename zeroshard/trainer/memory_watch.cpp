#include "zeroshard/trainer/memory_watch.h"

#include <algorithm>
#include <bit>
#include <type_traits>
#include <vector>

#include "zeroshard/device/backend.h"
#include "zeroshard/setup/rank_memory.h"

namespace zeroshard {

std::int64_t MeasuredMemory::most_on_device() const { return *std::ranges::max_element(device); }

MemoryWatch::MemoryWatch(Device device) : device_(device) {
  measured_.process_before = resident_bytes();
  take_peak();
}

std::int64_t MemoryWatch::take_peak() {
  DeviceBackend& backend = backend_of(device_.kind);
  const std::int64_t peak = backend.memory_use(device_.index).peak;
  backend.forget_memory_peak(device_.index);
  return peak;
}

void MemoryWatch::after(StepPhase phase, std::int64_t engine_bytes) {
  if (!is_watching()) return;
  std::int64_t& most = measured_.device[static_cast<std::size_t>(phase)];
  most = std::max(most, take_peak());
  if (phase != StepPhase::forward) return;
  const std::int64_t now = backend_of(device_.kind).memory_use(device_.index).now;
  measured_.kept_activations = std::max(measured_.kept_activations, now - engine_bytes);
}

void MemoryWatch::rest() {
  measured_.device[static_cast<std::size_t>(StepPhase::rest)] =
      backend_of(device_.kind).memory_use(device_.index).now;
  if (const auto there = backend_of(device_.kind).device_memory(device_.index)) {
    measured_.device_libraries = there->total - there->free - there->kept;
  }
}

MeasuredMemory MemoryWatch::measured(const MemoryLedger& ledger) const {
  MeasuredMemory measured = measured_;
  measured.process_peak = peak_resident_bytes();
  for (const Category category : kCategories) {
    measured.engine[static_cast<std::size_t>(category)] = {ledger.peak(category, Tier::device),
                                                           ledger.peak(category, Tier::host)};
  }
  return measured;
}

std::int64_t MemoryWatch::most_on_device() const {
  return std::max(measured_.most_on_device(),
                  backend_of(device_.kind).memory_use(device_.index).peak);
}

MeasuredMemory most_of_all_ranks(const MeasuredMemory& mine, Communicator& comm) {
  static_assert(std::is_trivially_copyable_v<MeasuredMemory> &&
                    sizeof(MeasuredMemory) % sizeof(std::int64_t) == 0,
                "it is sent as the numbers that it is made of");
  constexpr auto kNumbers = sizeof(MeasuredMemory) / sizeof(std::int64_t);
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(MeasuredMemory));
  using Numbers = std::array<std::int64_t, kNumbers>;
  std::vector<Numbers> all(static_cast<std::size_t>(comm.world_size()));
  comm.all_gather_into({{ConstPiece{&mine, kBytes, DType::uint8},
                         Piece{all.data(), kBytes * comm.world_size(), DType::uint8}}},
                       "memory")
      .wait();
  Numbers most = all.front();
  for (const Numbers& rank : all) {
    std::ranges::transform(most, rank, most.begin(), [](std::int64_t one, std::int64_t other) {
      return std::max(one, other);
    });
  }
  return std::bit_cast<MeasuredMemory>(most);
}

}  // namespace zeroshard
