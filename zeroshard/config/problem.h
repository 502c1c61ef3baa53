// What is wrong with a config, collected: a file's problems are reported all at once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "zeroshard/config/node.h"

namespace zeroshard::config {

enum class Severity {
  note,     // changes nothing: for those who ask for everything (-v)
  warning,  // something is not as the file says, or probably not as it is meant
  error,    // nothing is done with the file
};

// A stable word per kind of problem, for programs that read `--json`.
enum class Code {
  syntax,          // not JSON, nor one of the relaxed forms
  relaxed_syntax,  // one of the relaxed forms
  duplicate_key,
  unknown_key,
  wrong_type,
  out_of_range,
  missing_key,
  contradiction,
  deprecated,
  odd_value,        // a value in a form that is not its own: a number in quotes
  no_effect,        // a known key that does nothing here
  not_yet,          // a known value that a later version will carry out
  changes_results,  // carried out, and other numbers come out
  unreadable,       // no such file, or no right to read it
  unsupported,      // a known key that would change results, of a feature we do not have
};

std::string_view name_of(Severity severity);
std::string_view name_of(Code code);

struct Problem {
  Severity severity = Severity::error;
  Code code = Code::syntax;
  std::string key = {};    // dotted path as written in the file; empty for syntax
  std::string value = {};  // as written; may be empty
  Position at = {};
  std::string what;
  std::string remedy = {};
};

// `FILE:12:5: error: [config] key = value: what; remedy`
std::string format_problem(std::string_view file, const Problem& problem);
// The same without the severity, for a log that says it in front.
std::string describe_problem(std::string_view file, const Problem& problem);

class Report {
 public:
  // Strict reports turn what merely warns about an unknown key into an error.
  explicit Report(bool strict = false) : strict_(strict) {}

  void add(Problem problem);
  // The graver the later, so that what must be mended stands last on a terminal; then by position.
  void sort();
  // For a text that is nobody's file: a place in it would say nothing.
  void forget_positions();

  const std::vector<Problem>& problems() const { return problems_; }
  bool has_errors() const { return count(Severity::error) > 0; }
  std::size_t count(Severity severity) const;

 private:
  bool strict_;
  std::vector<Problem> problems_;
};

}  // namespace zeroshard::config
