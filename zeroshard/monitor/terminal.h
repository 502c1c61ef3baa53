// How wide the terminal is that shows a run, now: people change their windows while it trains.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>

namespace zeroshard {

// The columns of the terminal that a descriptor is, less one: where the last column is filled, some
// terminals go to the next line. Nothing where it is none, or does not tell.
std::optional<std::size_t> usable_columns(int descriptor);

// The same for a rank whose standard error is mpirun's pipe: a function that asks the terminal of
// its session. On another host there is none, and the width is the one that `zeroshard train` has
// told at the start (ZEROSHARD_TERMINAL_COLUMNS). Empty where no terminal shows the run.
std::function<std::size_t()> columns_behind_pipe();

}  // namespace zeroshard
