// The units of a model and the shapes in them, before anything is allocated: what a plan needs.
//
//   for (const UnitShapes& unit : unit_shapes(options)) UnitLayout(unit.name, unit.parameters, 8);
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "zeroshard/layout/unit_layout.h"
#include "zeroshard/models/options.h"

namespace zeroshard {

struct UnitShapes {
  std::string name;
  std::vector<ParameterShape> parameters;  // full names, in the order of the module tree
};

// As the engine finds them in the built model: the root unit first, even where it is empty.
std::vector<UnitShapes> unit_shapes(const ModelOptions& options, DType dtype = DType::fp32);

std::int64_t parameter_count(const ModelOptions& options);

// As the engine will lay it out.
ModelLayout layout_of(const ModelOptions& options, DType dtype, int ranks);

// A model whose only block is unit `first`, with so many blocks like it instead.
struct EqualBlocks {
  std::size_t first = 0;
  std::int64_t count = 1;
};
ModelLayout with_blocks(const ModelLayout& shortest, const EqualBlocks& blocks);

}  // namespace zeroshard
