#include "zeroshard/config/walk.h"

#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/nearest.h"
#include "zeroshard/base/utf8.h"
#include "zeroshard/config/placeholder.h"
#include "zeroshard/config/remedy.h"

namespace zeroshard::config {
namespace {

std::string list_names(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

constexpr const char* kChangesResults = "this changes results and ZeroShard does not have it";

bool is_comment_key(const std::string& key) { return key.starts_with('_'); }

}  // namespace

void Walk::run(const Node& root) { walk_section(root, Place{}); }

void Walk::walk_section(const Node& object, const Place& place) {
  for (const Member& member : object.members) walk_member(object, member, place);
}

void Walk::walk_member(const Node& object, const Member& member, const Place& place) {
  if (is_comment_key(member.key)) return;
  // Paths are joined by dots; a dot inside a name must not lead anywhere.
  if (member.key.find('.') != std::string::npos) return unknown_member(member, place);
  const std::string path = join_path(place.path, member.key);
  if (const Section* section = key_table().find_section(path)) {
    if (section_spelled_twice(*section, object, member, place)) return;
    return enter_section(*section, member, place);
  }
  if (const Key* key = key_table().find_key(path, place.kind)) {
    return store_key(*key, object, member, place);
  }
  unknown_member(member, place);
}

void Walk::enter_section(const Section& section, const Member& member, const Place& outer) {
  // DeepSpeed drops "auto" where it checks types, so a section inside such a section may be it.
  const bool dropped = member.value.is_auto() && outer.unknown_keys == UnknownKeys::refused;
  if (dropped) note_auto(section, member, outer);
  if (member.value.is(Node::Kind::null) || dropped) return;
  if (section.path == "zero_optimization" && member.value.is(Node::Kind::boolean)) {
    return bare_zero_optimization(member);
  }
  if (!member.value.is(Node::Kind::object)) {
    return complain(Severity::error, Code::wrong_type, member, outer, "expected a section",
                    fmt::format("write \"{}\": {{ ... }}", member.key));
  }
  Place place{.path = section.path,
              .written = join_path(outer.written, member.key),
              .kind = {},
              .unknown_keys = section.unknown_keys};
  if (place.path != join_path(outer.path, member.key)) {
    complain(Severity::warning, Code::deprecated, member, outer, "an old spelling",
             fmt::format("write \"{}\"", leaf_of(section.path)));
  }
  if (section.effect != Effect::supported && !member.value.members.empty()) {
    report_section(section, member, outer);
    if (section.effect == Effect::changes_results) return;
  }
  const bool has_kinds = !key_table().kind_names(section.path, false).empty();
  if (has_kinds) return enter_kind_section(section, member.value, place);
  walk_section(member.value, place);
}

// Of a section that is "auto" the question is its device.
void Walk::note_auto(const Section& section, const Member& member, const Place& outer) {
  const std::string device = section.path + ".device";
  if (key_table().find_key(device) == nullptr) return;
  provenance_[device] = {Source::automatic, member.value.at, join_path(outer.written, member.key),
                         spelling(member.value)};
}

void Walk::report_section(const Section& section, const Member& member, const Place& outer) {
  if (section.effect == Effect::changes_results) {
    return complain(Severity::error, Code::unsupported, member, outer, kChangesResults,
                    section.instead);
  }
  const bool tunes = section.effect == Effect::tuning;
  complain(tunes ? Severity::note : Severity::warning, Code::no_effect, member, outer,
           "no effect here", section.instead);
}

// `type` decides what `params` may hold, wherever in the section it stands.
void Walk::enter_kind_section(const Section& section, const Node& object, const Place& place) {
  const Kind* kind = choose_kind(section, object, place);
  const Member* type = object.find("type");
  const Member* params = object.find("params");
  for (const Member& member : object.members) {
    if (&member == params) {
      walk_params(kind, member, place);
    } else if (member.key == "type") {
      // Of a type given twice, which is reported, the first counts; a bad one is reported above.
      if (&member == type && kind != nullptr) walk_member(object, member, place);
    } else if (member.key != "params") {
      walk_member(object, member, place);
    }
  }
  const bool none = params == nullptr || params->value.is(Node::Kind::null);
  if (kind != nullptr && none) report_missing(object, params_of(*kind, place));
}

const Kind* Walk::choose_kind(const Section& section, const Node& object, const Place& place) {
  const Member* type = object.find("type");
  const auto names = key_table().kind_names(section.path, true);
  const std::string choose = "choose " + list_names(names);
  if (type == nullptr || type->value.is(Node::Kind::null)) {
    report_.add({.severity = Severity::error,
                 .code = Code::missing_key,
                 .key = join_path(place.written, "type"),
                 .at = object.at,
                 .what = "the section has no type",
                 .remedy = choose});
    return nullptr;
  }
  if (!type->value.is(Node::Kind::text)) {
    complain(Severity::error, Code::wrong_type, *type, place, "expected a string", choose);
    return nullptr;
  }
  const Kind* kind = key_table().find_kind(section.path, type->value.text);
  if (kind == nullptr || !kind->install) {
    const auto near = nearest(type->value.text, names);
    complain(Severity::error, Code::unsupported, *type, place,
             fmt::format("ZeroShard has no such {}", section.path),
             near ? fmt::format("did you mean \"{}\"?", *near) : choose);
    return nullptr;
  }
  kind->install(config_);
  return kind;
}

Walk::Place Walk::params_of(const Kind& kind, const Place& place) {
  return {.path = join_path(place.path, "params"),
          .written = join_path(place.written, "params"),
          .kind = kind.name,
          .unknown_keys = UnknownKeys::refused};
}

void Walk::walk_params(const Kind* kind, const Member& member, const Place& place) {
  if (kind == nullptr || member.value.is(Node::Kind::null)) return;
  if (!member.value.is(Node::Kind::object)) {
    return complain(Severity::error, Code::wrong_type, member, place, "expected a section",
                    "write \"params\": { ... }");
  }
  const Place params = params_of(*kind, place);
  walk_section(member.value, params);
  report_missing(member.value, params);
}

// Before the section there was a switch: true meant stage 1.
void Walk::bare_zero_optimization(const Member& member) {
  const int stage = member.value.boolean ? 1 : 0;
  config_.zero.stage = stage;
  provenance_["zero_optimization.stage"] = {Source::file, member.value.at, member.key,
                                            spelling(member.value)};
  complain(Severity::warning, Code::deprecated, member, Place{}, "an old form",
           fmt::format("write \"zero_optimization\": {{\"stage\": {}}}", stage));
}

void Walk::store_key(const Key& key, const Node& object, const Member& member, const Place& place) {
  if (member.value.is(Node::Kind::null)) return;
  if (spelled_twice(key, object, member, place)) return;
  if (key.is_old_spelling(member.key)) {
    complain(Severity::warning, Code::deprecated, member, place, "an old spelling",
             remedy_for_old(key, member.value));
  }
  Origin origin{Source::file, member.value.at, join_path(place.written, member.key),
                spelling(member.value)};
  if (member.value.is_auto()) {
    origin.source = Source::automatic;
  } else if (!store_value(key, member, place)) {
    return;
  }
  provenance_[key.path] = std::move(origin);
}

// False where the value was refused.
bool Walk::store_value(const Key& key, const Member& member, const Place& place) {
  const bool infinite = !key.infinity.empty() && spells_infinity(member.value);
  Node value = member.value;
  if (infinite) value = {.kind = Node::Kind::number, .at = member.value.at, .text = key.infinity};
  const Stored stored = key.store(value, place.coercion(), config_);
  if (stored.rejected) {
    const bool placeholder = is_placeholder(member.value.text);
    complain(Severity::error, stored.rejected->code, member, place,
             placeholder ? kPlaceholder : "expected " + stored.rejected->expected,
             placeholder ? kFillTemplate : remedy_for_value(key, member.value));
    return false;
  }
  if (!stored.odd.empty()) {
    complain(Severity::warning, Code::odd_value, member, place, stored.odd,
             remedy_for_odd(key, member.value));
  }
  report_effect(key, member, place);
  return true;
}

// A section's old spelling beside the section itself: the new one wins, as in DeepSpeed.
bool Walk::section_spelled_twice(const Section& section, const Node& object, const Member& member,
                                 const Place& place) {
  const std::string name(leaf_of(section.path));
  if (member.key == name || object.find(name) == nullptr) return false;
  complain(Severity::warning, Code::deprecated, member, place,
           fmt::format("ignored, because \"{}\" is given too", name), "remove it");
  return true;
}

// An alias or an old spelling beside the key itself, or an old key beside its successor.
bool Walk::spelled_twice(const Key& key, const Node& object, const Member& member,
                         const Place& place) {
  std::vector<std::string> twins;
  if (member.key != key.name()) twins.push_back(key.name());
  if (key.is_old_spelling(member.key)) {
    twins.insert(twins.end(), key.aliases.begin(), key.aliases.end());
    twins.push_back(key.successor);
  }
  for (const std::string& twin : twins) {
    const Member* other = object.find(twin);
    if (other == nullptr || other->value.is(Node::Kind::null)) continue;
    complain(Severity::error, Code::contradiction, member, place,
             fmt::format("\"{}\" says the same", twin), "keep one of the two");
    return true;
  }
  return false;
}

void Walk::report_effect(const Key& key, const Member& member, const Place& place) {
  if (!is_reported(key.effect) || key.harmless(member.value, place.coercion())) return;
  const bool unchanged = key.effect == Effect::tuning ||
                         (key.at_default && key.at_default(member.value, place.coercion()));
  switch (key.effect) {
    case Effect::changes_results:
      return complain(Severity::error, Code::unsupported, member, place, kChangesResults,
                      key.instead);
    default:
      return complain(unchanged ? Severity::note : Severity::warning, Code::no_effect, member,
                      place, "no effect here", key.instead);
  }
}

void Walk::report_missing(const Node& params, const Place& place) {
  for (const Key& key : key_table().keys()) {
    const bool here = parent_of(key.path) == place.path && key.applies_to(place.kind);
    const Member* member = params.find(key.name());
    const bool absent = member == nullptr || member->value.is(Node::Kind::null);
    if (!here || !key.required || !absent) continue;
    report_.add({.severity = Severity::error,
                 .code = Code::missing_key,
                 .key = join_path(place.written, key.name()),
                 .at = params.at,
                 .what = fmt::format("{} needs it", place.kind),
                 .remedy = fmt::format("add \"{}\": {}", key.name(), key.meaning)});
  }
}

void Walk::unknown_member(const Member& member, const Place& place) {
  const auto names = key_table().names_in(place.path, place.kind);
  if (const auto near = nearest(member.key, names)) {
    return complain(Severity::error, Code::unknown_key, member, place, "unknown key",
                    fmt::format("did you mean \"{}\"?", *near));
  }
  if (place.unknown_keys == UnknownKeys::free) return;
  const bool refused = place.unknown_keys == UnknownKeys::refused;
  const std::string what = !place.kind.empty() ? place.kind + " has no such parameter"
                           : refused           ? "unknown key"
                                               : "unknown key, ignored";
  complain(refused ? Severity::error : Severity::warning, Code::unknown_key, member, place, what,
           remedy_for_unknown(member, place.path, place.kind));
}

void Walk::complain(Severity severity, Code code, const Member& member, const Place& place,
                    std::string what, std::string remedy) {
  const bool about_key =
      code == Code::unknown_key || code == Code::deprecated || code == Code::contradiction;
  constexpr std::size_t kLongestName = 80;
  const std::string name = member.key.empty() ? "\"\"" : shortened(member.key, kLongestName);
  report_.add({.severity = severity,
               .code = code,
               .key = join_path(place.written, name),
               .value = spelling(member.value),
               .at = about_key ? member.at : member.value.at,
               .what = std::move(what),
               .remedy = std::move(remedy)});
}

}  // namespace zeroshard::config
