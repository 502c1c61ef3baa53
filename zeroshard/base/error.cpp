#include "zeroshard/base/error.h"

#include <algorithm>
#include <utility>

namespace zeroshard {

std::string format_fault(std::string_view area, const Fault& fault) {
  std::string text = "[" + std::string(area) + "] " + fault.what;
  if (!fault.value.empty()) text += ": " + fault.value;
  if (!fault.remedy.empty()) text += "; " + fault.remedy;
  return text;
}

Error::Error(std::string_view area, Fault fault, int exit_code)
    : std::runtime_error(format_fault(area, fault)),
      fault_(std::move(fault)),
      exit_code_(exit_code) {}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    const std::string text = known.what();
    const auto trace = std::min(text.find("\nException raised from "), text.find("\nframe #"));
    return text.substr(0, trace);
  } catch (...) {
    return "an exception of unknown type";
  }
}

}  // namespace zeroshard
