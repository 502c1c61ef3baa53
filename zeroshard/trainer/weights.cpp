#include "zeroshard/trainer/weights.h"

#include <memory>
#include <optional>
#include <vector>

#include "zeroshard/checkpoint/float_values.h"
#include "zeroshard/checkpoint/model_folder.h"
#include "zeroshard/checkpoint/write_folder.h"
#include "zeroshard/engine/tensors.h"
#include "zeroshard/models/spec.h"

namespace zeroshard {
namespace {

std::vector<TensorEntry> entries_of(const Core& core) {
  std::vector<TensorEntry> entries;
  for (std::size_t i = 0; i < core.units(); ++i) {
    for (const NamedParameter& parameter : core.unit(i).parameters()) {
      entries.push_back({.name = parameter.name,
                         .dtype = dtype_of(parameter.tensor, parameter.name),
                         .shape = parameter.tensor.sizes().vec()});
    }
  }
  return entries;
}

// What rank 0 writes into; the others only take part in the gathers.
struct Output {
  Output(const std::string& folder, const Core& core)
      : whole(folder), tensors(whole.folder() / kModelFile, entries_of(core), {{"format", "pt"}}) {}

  void write(const std::string& name, const at::Tensor& full) {
    const at::Tensor values = full.to(at::kCPU).contiguous();
    tensors.write(name, {static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()});
  }

  FolderWriter whole;
  SafetensorsWriter tensors;
};

}  // namespace

void write_weights(Engine& engine, Communicator& comm, const ModelOptions& model,
                   const std::string& folder) {
  std::optional<Output> output;
  if (comm.rank() == 0) output.emplace(folder, engine.core());
  engine.visit_parameters([&](const std::string& name, const at::Tensor& full) {
    if (output) output->write(name, full);
  });
  if (!output) return;
  output->tensors.finish();
  write_text_file(output->whole.folder() / "config.json", to_json(model));
  output->whole.finish();
}

ParameterFiller weights_from(const StateFiles& files) {
  const auto reader = std::make_shared<RangeReader>(files.reader());
  return [&files, reader](const std::string& name, const Span& elements, float* values) {
    const StoredState& stored = files.find(name)->states.find(kValueState)->second;
    reader->read({{&stored, elements}}, [&](std::size_t, const Span& part, auto bytes) {
      float* const into = values + (part.begin() - elements.begin());
      for (std::size_t i = 0; i < static_cast<std::size_t>(part.size()); ++i) {
        into[i] = float_at(bytes.data() + i * stored.element_bytes(), *stored.dtype.dtype());
      }
    });
  };
}

}  // namespace zeroshard
