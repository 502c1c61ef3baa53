// A page about a run, made of its log: loss, learning rate, speed, memory beside the plan, and
// where the time of a step goes.
#pragma once

#include <string>
#include <string_view>

namespace zeroshard {

// `log`: the lines of `train --log`. Half a line, as a crash leaves it, is passed over. A run that
// was resumed into the same file goes on where it was resumed; of other runs in one file the last
// one counts. Throws ConfigError where there is no step in it.
std::string report_page(std::string_view log);

}  // namespace zeroshard
