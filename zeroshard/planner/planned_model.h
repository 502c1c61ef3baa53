// A model as a plan sees it: what is laid out, and what its computation takes. The kinds of models
// are elsewhere: shapes are known to models/, of others only the size is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "zeroshard/layout/activations.h"
#include "zeroshard/layout/unit_layout.h"

namespace zeroshard {

class PlannedModel {
 public:
  virtual ~PlannedModel() = default;
  PlannedModel() = default;
  PlannedModel(const PlannedModel&) = delete;
  PlannedModel& operator=(const PlannedModel&) = delete;

  // "llama, 8.03 B parameters: 32 layers, hidden 4096, ..."
  virtual std::string description() const = 0;
  virtual std::int64_t parameters() const = 0;
  virtual ModelLayout layout(DType dtype, int ranks) const = 0;
  // Nothing where the shapes are not known.
  virtual std::optional<ModelActivations> activations(const ActivationQuery& query) const = 0;
  // What its description does not say and was taken to be so, and what of it is left out.
  virtual std::vector<std::string> assumptions() const { return {}; }
  // Tokens of a sample; 0 where it has none.
  virtual std::int64_t sequence() const = 0;

  // What makes it larger and smaller: layers, or parameters where only they are known.
  virtual std::int64_t size() const = 0;
  virtual std::unique_ptr<PlannedModel> of_size(std::int64_t size) const = 0;
  virtual std::int64_t largest_size() const = 0;
  // How exactly the largest that fits is looked for, as a share of it.
  virtual double size_tolerance() const { return 0; }
};

struct CountedModelOptions {
  int units = 32;
  // With a sequence it is taken for a transformer of that many layers, whose width then follows;
  // without one its activations are not known.
  std::int64_t sequence = 0;
  bool checkpoint_activations = false;
};

// So many parameters in equal units.
std::unique_ptr<PlannedModel> counted_model(std::int64_t parameters,
                                            const CountedModelOptions& options = {});

// A unit of a model whose parameters are known, and of its computation nothing.
struct PlannedUnit {
  std::string name;
  std::vector<ParameterShape> parameters;
  bool is_root = false;
};

// Its dtypes are those that a configuration gives. It has one size.
std::unique_ptr<PlannedModel> laid_out_model(std::vector<PlannedUnit> units);

}  // namespace zeroshard
