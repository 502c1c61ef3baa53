// The configuration that a plan ends with.
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/plan_report.h"
#include "zeroshard/base/bytes.h"

namespace zeroshard::cli {
namespace {

using config::Member;
using config::Node;

Node number(std::int64_t value) {
  return {.kind = Node::Kind::number, .text = fmt::format("{}", value)};
}
Node text(std::string value) { return {.kind = Node::Kind::text, .text = std::move(value)}; }
Node boolean(bool value) { return {.kind = Node::Kind::boolean, .boolean = value}; }
Node object() { return {.kind = Node::Kind::object}; }

Node& member(Node& parent, const std::string& key) {
  if (!parent.is(Node::Kind::object)) parent = object();
  for (Member& each : parent.members) {
    if (each.key == key) return each.value;
  }
  parent.members.push_back({.key = key, .value = object()});
  return parent.members.back().value;
}

void remove(Node& parent, const std::string& key) {
  std::erase_if(parent.members, [&](const Member& each) { return each.key == key; });
}

// Where an offload section says more than its device, the rest stays. What said the same in older
// files would say it still.
void set_offload(Node& zero, const std::string& key, const std::string& old_key, bool on_host) {
  remove(zero, old_key);
  if (!on_host) return remove(zero, key);
  member(member(zero, key), "device") = text("cpu");
}

void write(const Node& node, const std::string& indent, std::string& out) {
  const std::string inner = indent + "  ";
  switch (node.kind) {
    case Node::Kind::null: out += "null"; return;
    case Node::Kind::boolean: out += node.boolean ? "true" : "false"; return;
    case Node::Kind::number: out += node.text; return;
    case Node::Kind::text: out += config::json_string(node.text); return;
    case Node::Kind::list:
      out += "[";
      for (std::size_t i = 0; i < node.items.size(); ++i) {
        if (i > 0) out += ", ";
        write(node.items[i], inner, out);
      }
      out += "]";
      return;
    case Node::Kind::object: break;
  }
  out += "{";
  for (std::size_t i = 0; i < node.members.size(); ++i) {
    out += (i > 0 ? ",\n" : "\n") + inner + config::json_string(node.members[i].key) + ": ";
    write(node.members[i].value, inner, out);
  }
  out += node.members.empty() ? "}" : "\n" + indent + "}";
}

}  // namespace

std::string config_to_use(const config::ParsedConfig& given, const Variant& chosen,
                          const ChosenSettings& settings) {
  Node root = given.root.value_or(object());
  member(root, "train_micro_batch_size_per_gpu") = number(settings.micro_batch);
  Node& zero = member(root, "zero_optimization");
  if (!zero.is(Node::Kind::object)) zero = object();  // `true` was a way to say stage 1
  member(zero, "stage") = number(chosen.stage);
  set_offload(zero, "offload_optimizer", "cpu_offload", chosen.optimizer_on_host);
  set_offload(zero, "offload_param", "cpu_offload_param", chosen.parameters_on_host);
  remove(zero, "cpu_offload_use_pin_memory");
  if (settings.device_budget) {
    const std::int64_t size = (*settings.device_budget + kMiB - 1) / kMiB;
    member(member(root, "zeroshard"), "device_budget") = text(fmt::format("{}MiB", size));
  }
  if (settings.whole_masters) {
    member(member(root, "zeroshard"), "halved_masters") = boolean(false);
  }
  std::string out;
  write(root, "", out);
  return out + "\n";
}

}  // namespace zeroshard::cli
