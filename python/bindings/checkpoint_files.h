// Checkpoints on the disk, for Python: states by name and element range, read and written through a
// few megabytes.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <pybind11/pybind11.h>

#include "python/bindings/engine_core.h"
#include "zeroshard/checkpoint/save_contents.h"
#include "zeroshard/checkpoint/state_files.h"

namespace zeroshard::python {

namespace py = pybind11;

// A checkpoint of ours that is there.
class CheckpointReader {
 public:
  CheckpointReader(const std::string& folder, const std::string& tag);

  const StateFiles& files() const { return files_; }
  RangeReader& reader() { return *reader_; }
  // From here on it reads ahead, in an engine's staging, which must outlive its last read.
  void read_ahead(EngineCore& engine);
  // Throws ConfigError where there is none.
  const StoredState& state(const std::string& name, const std::string& state) const;

 private:
  StateFiles files_;
  std::optional<RangeReader> reader_;
};

// States that a Python function copies. What it raises is kept as it is, since ranks that agree on
// an error pass on only its words.
class PythonCopy {
 public:
  PythonCopy(const SaveContents& contents, py::function copy);

  void operator()(std::size_t state, const Span& elements, std::byte* into);
  void rethrow() const;

 private:
  std::vector<std::uint64_t> widths_;  // bytes of an element, of each state
  py::function copy_;
  std::exception_ptr raised_;
};

void bind_checkpoint_reader(py::module_& module);
void bind_checkpoint_writer(py::module_& module);
void bind_safetensors_file(py::module_& module);
// What an engine has, into a checkpoint and out of one.
void bind_engine_checkpoint(py::module_& module, py::class_<EngineCore>& type);

}  // namespace zeroshard::python
