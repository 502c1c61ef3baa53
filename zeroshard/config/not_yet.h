// What a configuration can ask for and this version does not do yet: the rows of the key table that
// are marked so. This is the only list of them, and every door reports them in the same words. Most
// change no results and are left out with a warning; what changes them is refused.
#pragma once

#include <string>
#include <vector>

#include "zeroshard/config/config.h"
#include "zeroshard/config/key.h"

namespace zeroshard::config {

inline constexpr const char* kNotYet = "not in this version yet";

// Those that can be left out, and those that cannot.
std::vector<const Key*> keys_not_yet();
std::vector<const Key*> refused_keys_not_yet();

// "key = value: not in this version yet; what happens instead", for each that the config asks for
// and that can be left out.
std::vector<std::string> asked_but_not_yet(const Config& config);
// Throws ConfigError where the config asks for one that cannot: a file that does is refused when it
// is read, and a Config that somebody has made himself is refused here.
void refuse_what_is_not_yet(const Config& config);

// Gives the keys that can be left out their defaults: what stays is what a run will do.
void leave_out_what_is_not_yet(Config& config);

}  // namespace zeroshard::config
