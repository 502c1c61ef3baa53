// On which tier of a rank a state lives.
#pragma once

namespace zeroshard {

enum class Tier { device, host, disk };

struct OffloadOptions {
  Tier optimizer = Tier::device;     // master, moments and reduced gradients
  bool pin_optimizer_memory = true;  // page-locked arena
  double optimizer_ratio = 1.0;      // share of the optimizer states that leaves the device
  Tier parameters = Tier::device;    // the sharded parameters; only where they are sharded
  bool pin_parameter_memory = true;
};

}  // namespace zeroshard
