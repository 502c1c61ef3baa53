// Saves states of a given size, or loads them, on the ranks that it was started on, and prints what
// it took as one line of JSON. bench/checkpoint_vs_peers.py runs it.
//
//   checkpoint_io save FOLDER BYTES        until all is on the disk and `latest` names it
//   checkpoint_io load FOLDER BYTES        into memory that is there; then every value is checked
//   checkpoint_io copy FOLDER BYTES        what a copy in memory of a rank's part takes
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "zeroshard/base/mix64.h"
#include "zeroshard/checkpoint/checkpoint_save.h"
#include "zeroshard/checkpoint/state_files.h"
#include "zeroshard/comm/join.h"

namespace zeroshard {
namespace {

using Clock = std::chrono::steady_clock;

// As a model of 48 layers with one large weight each: what a weight's states are is no matter.
constexpr int kTensors = 48;
const std::vector<std::string> kStates{"value", "exp_avg", "exp_avg_sq"};

struct Part {
  std::string tensor;
  std::string state;
  Span elements;
  std::vector<float> values = {};
};

float value_of(std::uint64_t state, std::int64_t element) {
  return static_cast<float>(mix64(state << 40U ^ static_cast<std::uint64_t>(element)) >> 40U);
}

std::vector<Part> parts_of(std::int64_t bytes, const Communicator& comm) {
  const std::int64_t numel =
      bytes / static_cast<std::int64_t>(sizeof(float) * kTensors * kStates.size());
  const std::int64_t cut = numel / comm.world_size() / 64 * 64;
  const bool is_last = comm.rank() + 1 == comm.world_size();
  const Span own(cut * comm.rank(), is_last ? numel : cut * (comm.rank() + 1));
  std::vector<Part> parts;
  for (int tensor = 0; tensor < kTensors; ++tensor) {
    for (const std::string& state : kStates) {
      parts.push_back({fmt::format("layers.{}.weight", tensor), state, own});
    }
  }
  return parts;
}

void fill(std::vector<Part>& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i].values.resize(static_cast<std::size_t>(parts[i].elements.size()));
    for (std::size_t k = 0; k < parts[i].values.size(); ++k) {
      parts[i].values[k] = value_of(i, parts[i].elements.begin() + static_cast<std::int64_t>(k));
    }
  }
}

// From a moment that all ranks have come to, to the last rank's end.
template <typename Act>
double seconds_of(Communicator& comm, const Act& act) {
  comm.barrier("begin").wait();
  const auto begin = Clock::now();
  act();
  comm.barrier("end").wait();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

SaveContents contents_of_parts(const std::vector<Part>& parts, std::int64_t bytes) {
  const std::int64_t numel =
      bytes / static_cast<std::int64_t>(sizeof(float) * kTensors * kStates.size());
  SaveContents contents;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i % kStates.size() == 0) {
      contents.tensors.push_back({.name = parts[i].tensor, .dtype = DType::fp32, .shape = {numel}});
    }
    contents.states.push_back({.tensor = contents.tensors.size() - 1,
                               .state = parts[i].state,
                               .dtype = DType::fp32,
                               .elements = parts[i].elements});
  }
  return contents;
}

double save(Communicator& comm, const std::string& root, std::int64_t bytes) {
  std::vector<Part> parts = parts_of(bytes, comm);
  fill(parts);
  SaveFolder folder(comm, root, {.keep = 1});
  const SaveStaging staging;
  const SaveContents contents = contents_of_parts(parts, bytes);
  return seconds_of(comm, [&] {
    CheckpointSave to(folder, {.tag = "bench"}, contents, comm);
    const auto copy = [&](std::size_t number, const Span& elements, std::byte* into) {
      const Part& part = parts[number];
      std::memcpy(into, part.values.data() + (elements.begin() - part.elements.begin()),
                  static_cast<std::size_t>(elements.size()) * sizeof(float));
    };
    to.run(copy, staging, comm);
  });
}

bool is_right(const std::vector<Part>& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (std::size_t k = 0; k < parts[i].values.size(); ++k) {
      const std::int64_t element = parts[i].elements.begin() + static_cast<std::int64_t>(k);
      if (parts[i].values[k] != value_of(i, element)) return false;
    }
  }
  return true;
}

double load(Communicator& comm, const std::string& root, std::int64_t bytes) {
  std::vector<Part> parts = parts_of(bytes, comm);
  for (Part& part : parts) part.values.resize(static_cast<std::size_t>(part.elements.size()));
  const SaveStaging staging;  // a run that saves has it, and lends it
  const double seconds = seconds_of(comm, [&] {
    const StateFiles files = StateFiles::open(root);
    RangeReader reader = files.reader({.memory = staging.slot(0), .past_cache = true});
    std::vector<RangeRequest> requests;
    for (const Part& part : parts) {
      requests.push_back({&files.find(part.tensor)->states.at(part.state), part.elements});
    }
    reader.read(requests, [&](std::size_t request, const Span& elements, auto read) {
      Part& part = parts[request];
      std::memcpy(part.values.data() + (elements.begin() - part.elements.begin()), read.data(),
                  read.size());
    });
  });
  if (is_right(parts)) return seconds;
  fmt::print(stderr, "rank {} has loaded other values than were saved\n", comm.rank());
  std::exit(1);
}

double copy(Communicator& comm, std::int64_t bytes) {
  std::vector<Part> parts = parts_of(bytes, comm);
  fill(parts);
  std::vector<float> snapshot(parts.size() * parts.front().values.size());
  return seconds_of(comm, [&] {
    float* to = snapshot.data();
    for (const Part& part : parts) {
      std::memcpy(to, part.values.data(), part.values.size() * sizeof(float));
      to += part.values.size();
    }
  });
}

int run(int argc, char** argv) {
  if (argc != 4) return 2;
  const auto comm = join_ranks({});
  const std::string what = argv[1];
  const std::int64_t bytes = std::atoll(argv[3]);
  const double seconds = what == "save"   ? save(*comm, argv[2], bytes)
                         : what == "load" ? load(*comm, argv[2], bytes)
                                          : copy(*comm, bytes);
  if (comm->rank() == 0)
    fmt::print("RESULT {{\"seconds\": {}, \"ranks\": {}}}\n", seconds, comm->world_size());
  return 0;
}

}  // namespace
}  // namespace zeroshard

int main(int argc, char** argv) {
  return zeroshard::rank_main([&] { return zeroshard::run(argc, argv); });
}
