#include "zeroshard/trainer/out_of_memory.h"

#include <algorithm>
#include <charconv>
#include <new>
#include <string_view>
#include <utility>
#include <variant>

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "zeroshard/base/bytes.h"
#include "zeroshard/planner/overheads.h"
#include "zeroshard/trainer/run_plan.h"

namespace zeroshard {
namespace {

// "... tried to allocate 4096 bytes. Error code ..." on a CPU, "... Tried to allocate 2.00 GiB. GPU
// 0 has ..." on a GPU.
std::string size_in(std::string_view text) {
  constexpr std::string_view kBefore = "ried to allocate ";
  const auto found = text.find(kBefore);
  if (found == text.npos) return "more";
  text.remove_prefix(found + kBefore.size());
  std::int64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (error == std::errc() && unit.starts_with(" bytes")) return human_bytes(bytes);
  return std::string(text.substr(0, text.find(". ")));
}

std::string activation_remedy(const RunSettings& run) {
  std::string remedy = run.batch.micro_per_rank > 1
                           ? fmt::format("make train_micro_batch_size_per_gpu smaller (it is {})",
                                         run.batch.micro_per_rank)
                           : std::string("give each rank more memory");
  const auto* gpt = std::get_if<GptOptions>(&run.model);
  if (gpt == nullptr) return remedy;
  if (!gpt->checkpoint_activations) remedy += ", or add checkpoint=true to --model";
  return remedy + fmt::format(", or shorten seq (it is {})", gpt->sequence);
}

// Whatever was thought to be there: this much was had, and more was not. Of a plan's libraries
// those come on top that are there before training; an allocator gives out the rest.
std::string what_would_fit(const RunSettings& run, const RunFacts& facts, Tier tier,
                           std::int64_t had) {
  const ProcessOverheads libraries = process_overheads({.accelerator = facts.has_accelerator,
                                                        .ranks = facts.world_size,
                                                        .ranks_on_host = facts.ranks_on_host,
                                                        .dtype = run.config.precision.model()});
  const bool on_device = tier == Tier::device;
  const std::int64_t most =
      had + (on_device ? libraries.at_start.device_bytes : libraries.all().host_bytes);
  MemoryLimits limits = facts.memory;
  std::optional<std::int64_t>& limit = on_device ? limits.device : limits.host;
  limit = std::min(limit.value_or(most), most);
  const std::string fits = what_fits(run, facts, limits);
  return fits.empty() ? "" : fmt::format("by the plan {} would fit; or ", fits);
}

std::string row(std::string_view name, std::int64_t bytes, const std::string& behind) {
  return fmt::format("{:<12}{:>14}{}\n", name, human_bytes(bytes), behind);
}

}  // namespace

std::optional<std::string> refused_memory(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const c10::OutOfMemoryError& refused) {
    return size_in(refused.what_without_backtrace());
  } catch (const c10::Error& other) {
    const std::string_view text = other.what_without_backtrace();
    const auto says = [&](std::string_view words) { return text.find(words) != text.npos; };
    if (!says("DefaultCPUAllocator") && !says("not enough memory")) return std::nullopt;
    return size_in(text);
  } catch (const std::bad_alloc&) {
    return "more";
  } catch (...) {
    return std::nullopt;
  }
}

StorageError out_of_memory(const std::string& refused, const std::string& where,
                           const RunSettings& run, const RunFacts& facts, std::int64_t had) {
  return StorageError(
      {.what = "out of memory for activations in " + where,
       .value = refused + " was asked for in vain",
       .remedy = what_would_fit(run, facts, Tier::device, had) + activation_remedy(run)});
}

StorageError out_of_memory_at_start(const std::string& refused, const RunSettings& run,
                                    const RunFacts& facts, std::int64_t had) {
  return StorageError({.what = "out of memory before the first step",
                       .value = refused + " was asked for in vain",
                       .remedy = what_would_fit(run, facts, Tier::device, had) +
                                 "give each rank more memory, or take more ranks"});
}

// What was had when the first states were refused says little: then it is what they would have
// taken.
StorageError with_plan(const StateMemoryError& error, const RunSettings& run,
                       const RunFacts& facts) {
  Fault fault = error.fault();
  std::string planned = what_would_fit(run, facts, error.tier, error.held_bytes);
  if (planned.empty()) {
    const std::int64_t most = error.held_bytes + error.asked_bytes - 1;
    planned = what_would_fit(run, facts, error.tier, most);
  }
  fault.remedy = planned + fault.remedy;
  return StorageError(std::move(fault));
}

std::string held_table(const MemoryLedger& ledger) {
  const bool has_host = ledger.total(Tier::host) > 0;
  const auto on_host = [&](std::int64_t bytes) {
    return has_host ? fmt::format("{:>14}", human_bytes(bytes)) : "";
  };
  std::string table =
      fmt::format("{:<12}{:>14}{}\n", "this rank", has_host ? "on the device" : "holds",
                  has_host ? fmt::format("{:>14}", "on the host") : "");
  for (const Category category : kCategories) {
    table += row(name_of(category), ledger.bytes(category, Tier::device),
                 on_host(ledger.bytes(category, Tier::host)));
  }
  return table + row("in all", ledger.total(Tier::device), on_host(ledger.total(Tier::host)));
}

}  // namespace zeroshard
