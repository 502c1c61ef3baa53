// What a configuration can ask for and this version does not do yet: the rows of the key table that
// are marked so. Every door reports them in the same words, and none of them changes results.
#pragma once

#include <string>
#include <vector>

#include "zeroshard/config/config.h"
#include "zeroshard/config/key.h"

namespace zeroshard::config {

inline constexpr const char* kNotYet = "not in this version yet";

std::vector<const Key*> keys_not_yet();

// "key = value: not in this version yet; what happens instead", for each that the config asks for.
std::vector<std::string> asked_but_not_yet(const Config& config);

// Gives all of these keys their defaults: what is left is what a run will do.
void leave_out_what_is_not_yet(Config& config);

}  // namespace zeroshard::config
