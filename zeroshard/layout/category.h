// What memory is held for: the planner's columns and the ledger's accounts.
#pragma once

#include <array>
#include <string_view>

namespace zeroshard {

enum class Category { parameters, gradients, master, moments, buffers };

inline constexpr std::array<Category, 5> kCategories{Category::parameters, Category::gradients,
                                                     Category::master, Category::moments,
                                                     Category::buffers};

constexpr std::string_view name_of(Category category) {
  switch (category) {
    case Category::parameters: return "parameters";
    case Category::gradients: return "gradients";
    case Category::master: return "master";
    case Category::moments: return "moments";
    case Category::buffers: return "buffers";
  }
  return "?";
}

// What the buffers are for.
enum class BufferUse { gather_pool, buckets, staging, undo, snapshot, norm, sums };

inline constexpr std::array<BufferUse, 7> kBufferUses{
    BufferUse::gather_pool, BufferUse::buckets, BufferUse::staging, BufferUse::undo,
    BufferUse::snapshot,    BufferUse::norm,    BufferUse::sums};

constexpr std::string_view name_of(BufferUse use) {
  switch (use) {
    case BufferUse::gather_pool: return "gather pool";
    case BufferUse::buckets: return "reduce buckets";
    case BufferUse::staging: return "staging";
    case BufferUse::undo: return "undo records";
    case BufferUse::snapshot: return "copy for saves";
    case BufferUse::norm: return "norm";
    case BufferUse::sums: return "sums";
  }
  return "?";
}

}  // namespace zeroshard
