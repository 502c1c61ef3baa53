#include "zeroshard/config/relaxed_syntax.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/utf8.h"

namespace zeroshard::config {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_punctuation(char c) { return std::string_view("{}[]:,").find(c) != std::string_view::npos; }

// true, false, null or the characters of a number: left as they are for the parser to judge.
bool is_plain_scalar(std::string_view word) {
  if (word == "true" || word == "false" || word == "null") return true;
  const bool starts_like_number =
      !word.empty() && (word[0] == '-' || (word[0] >= '0' && word[0] <= '9'));
  return starts_like_number && word.find_first_not_of("0123456789+-.eE") == std::string_view::npos;
}

std::string_view json_word(std::string_view python) {
  if (python == "True") return "true";
  if (python == "False") return "false";
  return python == "None" ? "null" : "";
}

bool is_python_word(std::string_view word) {
  for (const char* known : {"NaN", "nan", "Infinity", "-Infinity", "inf", "-inf"}) {
    if (word == known) return true;
  }
  return !json_word(word).empty();
}

// One pass over the source. It knows only tokens and the kind of the innermost container, which is
// enough to see where a comma or a quote is missing; whether the result is JSON is the parser's
// business.
class Rewriter {
 public:
  Rewriter(std::string_view source, const LineMap& lines, Report& report)
      : source_(source), lines_(lines), report_(report) {}

  PlainJson run() {
    skip_byte_order_mark();
    add_outer_braces_if_missing();
    while (next_ < source_.size()) step();
    if (braces_added_) emit('}', source_.size());
    return std::move(out_);
  }

 private:
  enum class Last { opening, closing, key_or_text, scalar, colon, comma };

  void step() {
    const char c = source_[next_];
    if (is_blank(c)) return blank();
    if (starts_comment()) return comment();
    if (is_punctuation(c)) return punctuation(c);
    insert_missing_comma();
    if (c == '"') return quoted('"');
    if (c == '\'') return quoted('\'');
    bare_word();
  }

  void skip_byte_order_mark() {
    if (source_.starts_with(kByteOrderMark)) next_ = kByteOrderMark.size();
  }

  void blank() {
    if (source_[next_] == '\n') line_broken_ = true;
    emit(source_[next_], next_);
    ++next_;
  }

  bool starts_comment() const {
    if (source_[next_] == '#') return true;
    const std::string_view two = source_.substr(next_, 2);
    return two == "//" || two == "/*";
  }

  void comment() {
    if (source_[next_] == '#') {
      warn(next_, "a # comment", "DeepSpeed reads it, JSON tools do not; use // or \"_comment\"");
    }
    const bool block = source_.substr(next_, 2) == "/*";
    std::size_t end = block ? source_.find("*/", next_ + 2) : source_.find('\n', next_);
    if (block && end == std::string_view::npos) out_.open_comment = next_;
    end = end == std::string_view::npos ? source_.size() : end + (block ? 2 : 0);
    for (; next_ < end; ++next_) {
      if (source_[next_] == '\n') line_broken_ = true;
      emit(source_[next_] == '\n' ? '\n' : ' ', next_);
    }
  }

  void punctuation(char c) {
    const bool opens = c == '{' || c == '[';
    if (opens) insert_missing_comma();
    if (opens) containers_.push_back(c);
    if ((c == '}' || c == ']') && !containers_.empty()) containers_.pop_back();
    emit(c, next_++);
    after(opens ? Last::opening : c == ':' ? Last::colon : c == ',' ? Last::comma : Last::closing);
  }

  // Two values, or a value and a key, with nothing but a line's end between them.
  void insert_missing_comma() {
    const bool value_ended =
        last_ == Last::closing || last_ == Last::key_or_text || last_ == Last::scalar;
    if (!value_ended || !line_broken_ || containers_.empty()) return;
    warn(last_end_, "a comma is missing at the end of this line", "add it");
    emit(',', last_end_);
    last_ = Last::comma;
  }

  void quoted(char quote) {
    const std::size_t begin = next_;
    std::size_t end = begin + 1;
    while (end < source_.size() && source_[end] != quote && source_[end] != '\n') {
      end += source_[end] == '\\' ? 2 : 1;
    }
    end = std::min(end, source_.size());
    const bool closed = end < source_.size() && source_[end] == quote;
    if (quote == '\'' && closed) {
      warn(begin, "a string in single quotes", "use double quotes");
      emit_single_quoted(begin, end);
    } else {
      // An unclosed string is copied up to the line's end and refused by the parser.
      for (std::size_t i = begin; i < end + (closed ? 1 : 0); ++i) emit(source_[i], i);
    }
    next_ = end + (closed ? 1 : 0);
    after(Last::key_or_text);
  }

  void bare_word() {
    if (expects_key()) return bare_key();
    const std::size_t end = word_end();
    const std::string_view word = source_.substr(next_, end - next_);
    if (is_plain_scalar(word) || containers_.empty() || !expects_value()) {
      for (; next_ < end; ++next_) emit(source_[next_], next_);
      return after(Last::scalar);
    }
    if (is_python_word(word) && ends_value(end)) return python_word(word);
    bare_text();
  }

  // Python's json writes NaN and Infinity, and its repr True, False and None.
  void python_word(std::string_view word) {
    const std::string_view said = json_word(word);
    if (said.empty()) {
      emit_as_text(word, next_);  // no number to JSON: whoever reads the key decides
    } else {
      warn(next_, fmt::format("{} is Python's", word), fmt::format("write {}", said));
      for (const char c : said) emit(c, next_);
    }
    next_ += word.size();
    after(Last::scalar);
  }

  // Whether nothing but a separator or the line's end follows.
  bool ends_value(std::size_t at) const {
    at = source_.find_first_not_of(" \t\r", at);
    return at == std::string_view::npos ||
           std::string_view("\n,}]").find(source_[at]) != std::string_view::npos;
  }

  // As in Hjson, an unquoted string runs to the end of its line, commas included.
  void bare_text() {
    std::size_t end = std::min(source_.find('\n', next_), source_.size());
    while (end > next_ && is_blank(source_[end - 1])) --end;
    const std::string_view text = source_.substr(next_, end - next_);
    warn(next_, fmt::format("an unquoted string, read to the line's end as \"{}\"", text),
         "put it in quotes");
    emit_as_text(text, next_);
    next_ = end;
    after(Last::key_or_text);
  }

  void bare_key() {
    std::size_t end = next_;
    while (end < source_.size() && !is_blank(source_[end]) && !is_punctuation(source_[end])) ++end;
    const std::string_view key = source_.substr(next_, end - next_);
    warn(next_, fmt::format("the key {} is not in quotes", key), "put it in double quotes");
    emit_as_text(key, next_);
    next_ = end;
    after(Last::key_or_text);
  }

  // `"key": ...` with no brace before it: the whole file is one object, as Hjson allows.
  void add_outer_braces_if_missing() {
    std::size_t first = next_;
    while (first < source_.size()) {
      if (is_blank(source_[first])) {
        ++first;
      } else if (source_[first] == '#' || source_.substr(first, 2) == "//") {
        first = std::min(source_.find('\n', first), source_.size());
      } else if (source_.substr(first, 2) == "/*") {
        const std::size_t end = source_.find("*/", first + 2);
        first = end == std::string_view::npos ? source_.size() : end + 2;
      } else {
        break;
      }
    }
    if (first == source_.size() || !starts_with_key(first)) return;
    warn(first, "the outer braces are missing", "put the file's contents in { }");
    braces_added_ = true;
    emit('{', first);
    containers_.push_back('{');
    after(Last::opening);
  }

  bool starts_with_key(std::size_t at) const {
    if (is_punctuation(source_[at])) return false;
    std::size_t end = at + 1;
    if (source_[at] == '"') end = std::min(source_.find('"', end), source_.size());
    while (end < source_.size() && source_[end] != '\n' && source_[end] != ':') ++end;
    return end < source_.size() && source_[end] == ':';
  }

  bool expects_key() const {
    return !containers_.empty() && containers_.back() == '{' &&
           (last_ == Last::opening || last_ == Last::comma);
  }

  bool expects_value() const {
    return last_ == Last::colon ||
           (containers_.back() == '[' && (last_ == Last::opening || last_ == Last::comma));
  }

  std::size_t word_end() const {
    std::size_t end = next_ + 1;
    while (end < source_.size() && !is_blank(source_[end]) && !is_punctuation(source_[end]) &&
           source_[end] != '#' && source_[end] != '"') {
      ++end;
    }
    return end;
  }

  void emit(char c, std::size_t origin) {
    out_.text += c;
    out_.origin.push_back(static_cast<std::uint32_t>(origin));
  }

  // The same escapes as in double quotes, and \' besides.
  void emit_single_quoted(std::size_t begin, std::size_t end) {
    emit('"', begin);
    for (std::size_t i = begin + 1; i < end; ++i) {
      const bool escape = source_[i] == '\\';
      if (escape) ++i;  // a closed string holds both halves of every escape
      if (escape ? source_[i] != '\'' : source_[i] == '"') emit('\\', i);
      emit(source_[i], i);
    }
    emit('"', end);
  }

  void emit_as_text(std::string_view text, std::size_t origin) {
    emit('"', origin);
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '"' || text[i] == '\\') emit('\\', origin + i);
      emit(text[i], origin + i);
    }
    emit('"', origin);
  }

  void after(Last last) {
    last_ = last;
    last_end_ = next_ > 0 ? next_ - 1 : 0;
    while (last_end_ > 0 && continues_character(source_[last_end_])) --last_end_;
    line_broken_ = false;
  }

  void warn(std::size_t offset, std::string what, std::string remedy) {
    report_.add({.severity = Severity::warning,
                 .code = Code::relaxed_syntax,
                 .at = lines_.at(offset),
                 .what = std::move(what),
                 .remedy = std::move(remedy)});
  }

  std::string_view source_;
  const LineMap& lines_;
  Report& report_;
  PlainJson out_;
  std::vector<char> containers_;
  std::size_t next_ = 0;
  std::size_t last_end_ = 0;  // where the last token ended: where a missing comma belongs
  Last last_ = Last::opening;
  bool line_broken_ = false;  // a line ended since the last token
  bool braces_added_ = false;
};

}  // namespace

LineMap::LineMap(std::string_view text) : text_(text), line_starts_{0} {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') line_starts_.push_back(i + 1);
  }
}

Position LineMap::at(std::size_t offset) const {
  offset = std::min(offset, text_.size());
  const auto after = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
  const int line = static_cast<int>(after - line_starts_.begin());
  std::size_t from = *(after - 1);
  if (from == 0 && text_.starts_with(kByteOrderMark)) from = kByteOrderMark.size();
  int column = 1;
  if (last_.line == line && last_offset_ >= from && last_offset_ <= offset) {
    from = last_offset_;
    column = last_.column;
  }
  for (std::size_t i = from; i < offset; ++i) {
    if (!continues_character(text_[i])) ++column;
  }
  last_offset_ = std::max(from, offset);
  last_ = {line, column};
  return last_;
}

PlainJson to_plain_json(std::string_view source, const LineMap& lines, Report& report) {
  return Rewriter(source, lines, report).run();
}

}  // namespace zeroshard::config
