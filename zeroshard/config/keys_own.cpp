// The "zeroshard" section: all keys of our own, and nowhere else.
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/base/error.h"
#include "zeroshard/config/key_table.h"

namespace zeroshard::config {
namespace {

// "10GiB" where that is exact, else the bytes: what is shown can be written back.
std::string exact_size(std::int64_t bytes) {
  for (const auto& [unit, shift] : {std::pair{"GiB", 30}, {"MiB", 20}, {"KiB", 10}}) {
    const std::int64_t scale = std::int64_t{1} << shift;
    if (bytes > 0 && bytes % scale == 0) return fmt::format("\"{}{}\"", bytes / scale, unit);
  }
  return fmt::format("\"{}\"", bytes);
}

Key budget(const char* name, std::optional<std::int64_t> ZeroOptions::*bytes, const char* meaning) {
  Key key{.path = std::string("zeroshard.") + name, .type = "size", .meaning = meaning};
  key.store = [bytes](const Node& node, Coercion, Config& config) -> Stored {
    const bool sizelike = node.is(Node::Kind::text) || node.is(Node::Kind::number);
    try {
      if (sizelike) {
        config.zero.*bytes = parse_bytes(node.text);
        return {};
      }
    } catch (const ConfigError&) {
      // Reported by the caller, with the key and the place.
    }
    return reject(Code::wrong_type, "a size such as \"10GiB\"");
  };
  key.show = [bytes](const Config& config) {
    const auto& value = config.zero.*bytes;
    return value ? exact_size(*value) : "null";
  };
  return key;
}

}  // namespace

void add_own_keys(KeyTable& table) {
  table.add(Section{.path = "zeroshard",
                    .meaning = "ZeroShard's own keys",
                    .unknown_keys = UnknownKeys::refused});
  table.add(option("zeroshard.deterministic", ZS_FIELD(zero.deterministic),
                   "our reductions on NCCL, and torch's deterministic algorithms"));
  table.add(
      option("zeroshard.halved_masters", ZS_FIELD(zero.halved_masters),
             "of an fp32 master only the 16 bits that its bf16 parameter lacks, where both lie "
             "on one tier; same results"));
  table.add(budget(
      "device_budget", &ZeroOptions::device_budget_bytes,
      "what a rank's states may take of the device: units' optimizer states spill to the host"));
  table.add(budget("host_budget", &ZeroOptions::host_budget_bytes,
                   "what a rank's states may take of the host; a plan that needs more is refused"));
  table.add(option("zeroshard.speculative_update", ZS_FIELD(zero.speculative_update),
                   "start host updates before the norm is known; same results"));
  table.add(option("zeroshard.delayed_update", ZS_FIELD(zero.delayed_update),
                   "updates on the host go on during the next step, which computes with the values "
                   "of the update before; changes results"));
  table.add(option("zeroshard.comm_timeout", ZS_FIELD(comm.timeout),
                   "after which a stuck peer is an error"));
  table.add(option("zeroshard.debug_poison", ZS_FIELD(zero.debug_poison),
                   "released memory reads as NaN or faults"));
}

}  // namespace zeroshard::config
