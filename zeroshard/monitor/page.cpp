#include "zeroshard/monitor/page.h"

#include <algorithm>

#include <fmt/format.h>

namespace zeroshard {
namespace {

// Colours that people with any kind of sight tell apart (Okabe and Ito, 2008, a little softened),
// and their counterparts on a dark ground.
constexpr const char* kColours = R"css(
:root { --ground: #ffffff; --ink: #1c2024; --soft: #5b646d; --line: #d5dae0; --panel: #f5f7f9;
  --s0: #3b76b8; --s1: #e6a028; --s2: #35997c; --s3: #8a72b8; --s4: #cf6a3d; --s5: #e3b9a0; --s6: #a3abb4;
  --limit: #c2273d; --good: #1e7f4f; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #14171a; --ink: #e6e9ec; --soft: #9aa4ae; --line: #363d44; --panel: #1d2226;
    --s0: #5b9ae0; --s1: #e9b152; --s2: #4fb798; --s3: #a692d4; --s4: #e58a5e; --s5: #8d6b59; --s6: #717b85;
    --limit: #f2637a; --good: #5cc28f; }
}
)css";

constexpr const char* kPictures = R"css(
svg text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: var(--ink); }
svg .soft { fill: var(--soft); font-size: 12px; }
svg .strong { font-weight: 600; }
svg .over, svg .under { paint-order: stroke; stroke: var(--ground); stroke-width: 4px; }
svg .over { fill: var(--limit); }
svg .under { fill: var(--good); }
svg .s0 { fill: var(--s0); } svg .s1 { fill: var(--s1); } svg .s2 { fill: var(--s2); }
svg .s3 { fill: var(--s3); } svg .s4 { fill: var(--s4); } svg .s5 { fill: var(--s5); }
svg .s6 { fill: var(--s6); }
svg .axis { stroke: var(--line); stroke-width: 1; }
svg .limit { stroke: var(--limit); stroke-width: 2; stroke-dasharray: 5 3; }
svg .curve { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
svg .c0 { stroke: var(--s0); } svg .c1 { stroke: var(--s4); } svg .c2 { stroke: var(--s2); }
svg .faint { opacity: 0.3; }
svg .ground { fill: var(--ground); }
)css";

constexpr const char* kPage = R"css(
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1.25rem 4rem; max-width: 68rem; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
p { margin: .4rem 0; } .soft { color: var(--soft); }
svg { display: block; width: 100%; height: auto; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1.25rem; }
figure { margin: 0; } figcaption { color: var(--soft); font-size: .9rem; margin-bottom: .25rem; }
.scroll { overflow-x: auto; } .scroll > svg { min-width: 46rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; width: 100%; }
th, td { padding: .28rem .6rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--soft); font-weight: 500; } th:first-child, td:first-child { text-align: left; }
tr.marked td { background: var(--panel); font-weight: 600; }
pre { background: var(--panel); padding: .8rem 1rem; overflow-x: auto; border-radius: 6px; font-size: .85rem; }
ul { margin: .3rem 0; padding-left: 1.2rem; } li { margin: .15rem 0; }
.facts { display: flex; flex-wrap: wrap; gap: .4rem 1.6rem; margin: .8rem 0; }
.facts div { min-width: 7rem; } .facts b { display: block; font-size: 1.15rem; } .facts span { color: var(--soft); font-size: .85rem; }
@media (max-width: 34rem) {
  th, td { padding: .28rem .3rem; font-size: .8rem; } td:first-child { white-space: normal; }
  figure svg .soft { font-size: 15px; }
}
)css";

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string page(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<title>{}</title>\n<style>{}{}{}</style>\n</head>\n<body>\n{}\n</body>\n</html>\n",
      escaped(title), kColours, kPage, kPictures, body);
}

std::string table(const PageTable& content) {
  std::string out = "<div class=\"scroll\"><table>\n";
  for (std::size_t row = 0; row < content.rows.size(); ++row) {
    const bool marked = std::ranges::find(content.marked, row) != content.marked.end();
    out += marked ? "<tr class=\"marked\">" : "<tr>";
    const char* const cell = row == 0 ? "th" : "td";
    for (const std::string& text : content.rows[row]) {
      out += fmt::format("<{0}>{1}</{0}>", cell, escaped(text));
    }
    out += "</tr>\n";
  }
  return out + "</table></div>\n";
}

std::string picture_style() { return std::string(kColours) + kPictures; }

}  // namespace zeroshard
