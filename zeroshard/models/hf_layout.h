// The parameters of a HuggingFace decoder, unit by unit, as the Python package finds them.
#pragma once

#include "zeroshard/layout/unit_layout.h"
#include "zeroshard/models/hf_model.h"
#include "zeroshard/models/shapes.h"

namespace zeroshard {

struct HfUnits {
  std::vector<UnitShapes> units;  // the root unit first
  std::size_t tokens = 0;         // which has the embedding's table
  std::size_t first_block = 0;
  std::size_t head = 0;  // the root where the table is tied
};

HfUnits hf_units(const TransformerShape& shape, const HfModelOptions& options, DType dtype);

}  // namespace zeroshard
