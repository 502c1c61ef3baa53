// Ranks that do something together tell each other how it went, so that all go on or all stop, with
// the same words.
//
//   const std::vector<std::string> words = all_say(comm, [&] { return write_my_part(); }, "save");
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "zeroshard/comm/communicator.h"

namespace zeroshard {

// Runs `act` and tells every rank what it returned. Where it threw on some rank, the error of the
// first of them is thrown on all, with its type (ConfigError, else StorageError) and the rank's
// number; an error of the communication is thrown as it is. Collective. Each rank holds all words
// at once, each as long as the longest.
std::vector<std::string> all_say(Communicator& comm, const std::function<std::string()>& act,
                                 const std::string& label);

// The same where there is nothing to tell.
void all_do(Communicator& comm, const std::function<void()>& act, const std::string& label);

// Only rank 0 acts; the answer is its word, on all ranks.
std::string first_says(Communicator& comm, const std::function<std::string()>& act,
                       const std::string& label);

}  // namespace zeroshard
