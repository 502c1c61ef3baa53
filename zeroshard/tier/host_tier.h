// The host tier: one arena of the size that the plan says, and mappings of their own for what goes
// beyond it and for rings. With the CPU as device it is memory apart from the device tier's all the
// same, so that every copy between tiers is a real one.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "zeroshard/tier/host_arena.h"
#include "zeroshard/tier/host_mapping.h"
#include "zeroshard/tier/tier_memory.h"

namespace zeroshard {

struct HostMemoryOptions {
  // Registered with the accelerator's driver, where the system allows it: see pinned() in
  // tier_memory.h. Elsewhere there is one warning.
  bool pin = true;
  int threads = 0;  // that touch the arena first; 0: as many as this process has CPUs
  // Where /proc and /sys say how much memory there is; tests bring their own.
  std::filesystem::path limits = "/";
};

class HostTier final : public TierMemory {
 public:
  HostTier(Device device, HostMemoryOptions options);

  // Maps the arena, once. What was allocated before has mappings of its own. Throws StorageError
  // where the host has not that much memory, before anything is mapped.
  void reserve(std::int64_t bytes);
  TierBuffer allocate(std::int64_t bytes) override;
  // Beside the arena: a mapping of its own, pinned or not as is said.
  TierBuffer allocate_apart(std::int64_t bytes, bool pin);
  // Throws StorageError where the host has not that much memory.
  void refuse_too_much(std::int64_t bytes) const;
  // A mapping of its own that is pinned whatever the options say, if that can be done: for rings,
  // which are small and serve memory that is not.
  TierBuffer allocate_ring(std::int64_t bytes);

 private:
  // Whatever was taken from it keeps it.
  struct Reserved {
    Reserved(std::int64_t bytes, int threads) : mapping(bytes, threads), arena(bytes) {}
    HostMapping mapping;
    HostArena arena;
    bool pinned = false;
  };

  // Whether copies may go straight from and to the mapping.
  bool pin(HostMapping& mapping);
  void report_unpinned(std::int64_t bytes, const std::string& why_not);
  int threads() const;
  using PinMapping = std::function<bool(HostMapping&)>;
  TierBuffer map_alone(std::int64_t bytes, const PinMapping& pin_it);

  const Device device_;
  const HostMemoryOptions options_;
  std::shared_ptr<Reserved> reserved_;
  bool pinning_failed_ = false;  // it is tried and reported once
};

}  // namespace zeroshard
