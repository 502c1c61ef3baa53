// The walk over a parsed config: every member is looked up in the key table, checked and stored.
#pragma once

#include <string>

#include "zeroshard/config/config.h"
#include "zeroshard/config/key_table.h"
#include "zeroshard/config/problem.h"
#include "zeroshard/config/provenance.h"

namespace zeroshard::config {

class Walk {
 public:
  Walk(Config& config, Provenance& provenance, Report& report)
      : config_(config), provenance_(provenance), report_(report) {}

  void run(const Node& root);

 private:
  // A section on the way: its canonical path, its path as written, and the kind chosen by `type`.
  struct Place {
    std::string path;
    std::string written;
    std::string kind;
    UnknownKeys unknown_keys = UnknownKeys::warned;
    Coercion coercion() const {
      if (!kind.empty()) return Coercion::parameter;
      return unknown_keys == UnknownKeys::refused ? Coercion::typed_section : Coercion::plain;
    }
  };

  void walk_section(const Node& object, const Place& place);
  void walk_member(const Node& object, const Member& member, const Place& place);
  void enter_section(const Section& section, const Member& member, const Place& outer);
  void note_auto(const Section& section, const Member& member, const Place& outer);
  void report_section(const Section& section, const Member& member, const Place& outer);
  void enter_kind_section(const Section& section, const Node& object, const Place& place);
  const Kind* choose_kind(const Section& section, const Node& object, const Place& place);
  static Place params_of(const Kind& kind, const Place& place);
  void walk_params(const Kind* kind, const Member& member, const Place& place);
  void bare_zero_optimization(const Member& member);
  void store_key(const Key& key, const Node& object, const Member& member, const Place& place);
  bool section_spelled_twice(const Section& section, const Node& object, const Member& member,
                             const Place& place);
  bool spelled_twice(const Key& key, const Node& object, const Member& member, const Place& place);
  bool store_value(const Key& key, const Member& member, const Place& place);
  void report_effect(const Key& key, const Member& member, const Place& place);
  void report_missing(const Node& params, const Place& place);
  void unknown_member(const Member& member, const Place& place);
  void complain(Severity severity, Code code, const Member& member, const Place& place,
                std::string what, std::string remedy);

  Config& config_;
  Provenance& provenance_;
  Report& report_;
};

}  // namespace zeroshard::config
