// The pages of `zeroshard env`.
#pragma once

#include <string>

#include "cli/env_report.h"

namespace zeroshard::cli {

std::string env_text_page(const EnvReport& report);

// Sizes in bytes; a limit that does not exist and a value that is not known have no key.
std::string env_json(const EnvReport& report);

}  // namespace zeroshard::cli
