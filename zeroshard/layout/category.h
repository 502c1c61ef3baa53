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

}  // namespace zeroshard
