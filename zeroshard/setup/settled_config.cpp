#include "zeroshard/setup/settled_config.h"

namespace zeroshard {

SettledConfig settle_config(const config::ReadResult& read, const Surroundings& surroundings) {
  SettledConfig settled{.config = read.config};
  Config& config = settled.config;
  if (surroundings.stage) config.zero.stage = *surroundings.stage;
  if (surroundings.on_accelerator) {
    settled.chosen_precision =
        choose_precision(config.precision, read.provenance, *surroundings.on_accelerator);
  }
  settled.chosen_communication =
      choose_communication(config.zero, open_choices(read.provenance), surroundings.communication,
                           config.precision.communication());
  return settled;
}

}  // namespace zeroshard
