#include "zeroshard/base/check.h"

#include "zeroshard/base/error.h"
#include "zeroshard/base/rank.h"

namespace zeroshard::check_detail {

void fail(Place place, std::string_view expression, const std::string& operands,
          const std::string& message) {
  std::string value(expression);
  if (!operands.empty()) value += " (" + operands + ")";
  value += fmt::format(", rank {}, at {}:{}", current_rank(), place.file, place.line);
  throw InvariantError({.what = message.empty() ? "a check failed" : message,
                        .value = value,
                        .remedy = "this is a bug in ZeroShard, please report it with this line"});
}

}  // namespace zeroshard::check_detail
