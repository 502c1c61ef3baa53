// What any number of ranks has saved, any other number reads, to the byte and by ranges.

#include <algorithm>
#include <stdexcept>

#include "tests/checkpoint/saved_model.h"
#include "zeroshard/checkpoint/checkpoint_folder.h"
#include "zeroshard/checkpoint/safetensors.h"
#include "zeroshard/comm/thread.h"

namespace zeroshard {
namespace {

// Every chunk of a file: what a whole read must not exceed.
std::uint64_t file_bytes(const Manifest& manifest) {
  std::uint64_t bytes = 0;
  for (const StoredFile& file : manifest.files) bytes += file.bytes;
  return bytes;
}

void save_by(int ranks, const TestFolder& folder, const SavedModel& model) {
  run_ranks(ranks, {}, [&](Communicator& comm) {
    SaveFolder to(comm, folder.path());
    save(to, {.tag = "step"}, model, comm);
  });
}

struct Wanted {
  std::vector<RangeRequest> requests;
  std::vector<std::string> bytes;
};

// What one of `ranks` would want: its pieces of all states.
Wanted wanted_by(int rank, int ranks, const SavedModel& model, const StateFiles& files) {
  Wanted wanted;
  const SaveContents contents = model.contents(rank, ranks);
  for (const StateToSave& state : contents.states) {
    const TensorToSave& tensor = model.tensors[state.tensor];
    const StoredState& stored = files.find(tensor.name)->states.at(state.state);
    wanted.requests.push_back({&stored, state.elements});
    wanted.bytes.push_back(
        model.bytes(tensor.name, state.state, state.elements, stored.element_bytes()));
  }
  return wanted;
}

std::vector<std::string> read(RangeReader& reader, const Wanted& wanted) {
  std::vector<std::string> bytes;
  for (const std::string& each : wanted.bytes) bytes.emplace_back(each.size(), '\0');
  reader.read(wanted.requests, [&](std::size_t request, const Span& elements, auto part) {
    const RangeRequest& of = wanted.requests[request];
    const auto at = static_cast<std::size_t>(elements.begin() - of.elements.begin());
    EXPECT_EQ(part.size(), static_cast<std::size_t>(elements.size()) * of.state->element_bytes());
    std::memcpy(bytes[request].data() + at * of.state->element_bytes(), part.data(), part.size());
  });
  return bytes;
}

std::uint64_t wanted_bytes(const Wanted& wanted) {
  std::uint64_t bytes = 0;
  for (const std::string& each : wanted.bytes) bytes += each.size();
  return bytes;
}

// How many runs of neighbouring elements the requests are in the files.
std::uint64_t spans_in_files(const Wanted& wanted) {
  std::uint64_t spans = 0;
  for (const RangeRequest& request : wanted.requests) {
    for (const StoredPiece& piece : request.state->pieces) {
      spans += piece.elements.intersect(request.elements).empty() ? 0U : 1U;
    }
  }
  return spans;
}

TEST(SaveAndLoad, AnyNumberOfRanksReadsWhatAnyOtherHasSaved) {
  for (const auto& [from, to] :
       std::vector<std::pair<int, int>>{{1, 1}, {1, 3}, {2, 2}, {2, 5}, {3, 1}, {4, 2}, {5, 4}}) {
    const TestFolder folder;
    const auto seed = static_cast<std::uint64_t>(from * 10 + to);
    const SavedModel model = SavedModel::random(seed, 25, 5000);
    save_by(from, folder, model);
    const StateFiles files = StateFiles::open(folder.path());
    EXPECT_EQ(files.manifest().ranks, from);
    EXPECT_EQ(difference(files, model), "");
    const SaveStaging lent;
    for (int rank = 0; rank < to; ++rank) {
      const Wanted wanted = wanted_by(rank, to, model, files);
      for (const bool ahead : {false, true}) {
        RangeReader reader =
            files.reader({.memory = ahead ? lent.slot(0) : nullptr, .past_cache = rank % 2 == 0});
        EXPECT_EQ(read(reader, wanted), wanted.bytes) << from << " to " << to << ", rank " << rank;
      }
    }
  }
}

TEST(SaveAndLoad, ReadsAtMostTwoChunksPerSpanMoreThanIsWanted) {
  const TestFolder folder;
  const SavedModel model = SavedModel::random(7, 12, 4'000'000);
  save_by(3, folder, model);
  const StateFiles files = StateFiles::open(folder.path());
  EXPECT_GT(file_bytes(files.manifest()), 20 * kChunkBytes);
  for (const int ranks : {2, 7}) {
    for (int rank = 0; rank < ranks; ++rank) {
      RangeReader reader = files.reader();
      const Wanted wanted = wanted_by(rank, ranks, model, files);
      EXPECT_EQ(read(reader, wanted), wanted.bytes);
      EXPECT_LE(reader.bytes_read(),
                wanted_bytes(wanted) + 2 * kChunkBytes * spans_in_files(wanted));
    }
  }
}

TEST(SaveAndLoad, ReadsEveryChunkOnceWhereAllIsWanted) {
  const TestFolder folder;
  const SavedModel model = SavedModel::random(3, 200, 3000);
  save_by(2, folder, model);
  const StateFiles files = StateFiles::open(folder.path());
  RangeReader reader = files.reader();
  const Wanted wanted = wanted_by(0, 1, model, files);
  EXPECT_EQ(read(reader, wanted), wanted.bytes);
  EXPECT_EQ(reader.bytes_read(), file_bytes(files.manifest()));
}

// The same elements twice, one range in another, and none at all.
TEST(SaveAndLoad, RequestsMayLieOverEachOther) {
  const TestFolder folder;
  const SavedModel model = SavedModel::random(13, 6, 3'000'000);
  save_by(2, folder, model);
  const StateFiles files = StateFiles::open(folder.path());
  std::mt19937_64 random(2);
  Wanted wanted;
  for (int i = 0; i < 40; ++i) {
    const TensorToSave& tensor = model.tensors[random() % model.tensors.size()];
    const auto numel = static_cast<std::uint64_t>(numel_of(tensor));
    const auto begin = static_cast<std::int64_t>(random() % (numel + 1));
    const auto count = static_cast<std::int64_t>(random() % (numel + 1));
    const Span span(begin, std::min(begin + count, static_cast<std::int64_t>(numel)));
    const StoredState& stored = files.find(tensor.name)->states.at("value");
    wanted.requests.push_back({&stored, span});
    wanted.bytes.push_back(model.bytes(tensor.name, "value", span, stored.element_bytes()));
  }
  const SaveStaging lent;
  for (std::byte* const memory : {static_cast<std::byte*>(nullptr), lent.slot(0)}) {
    RangeReader reader = files.reader({.memory = memory});
    EXPECT_EQ(read(reader, wanted), wanted.bytes);
    EXPECT_LE(reader.bytes_read(), file_bytes(files.manifest()));
  }
}

// Whoever takes what is read may fail, and so may the disk, while more is read ahead.
TEST(SaveAndLoad, AReadAheadEndsWithItsReader) {
  const TestFolder folder;
  const SavedModel model = SavedModel::random(7, 12, 4'000'000);
  save_by(2, folder, model);
  const StateFiles files = StateFiles::open(folder.path());
  const Wanted wanted = wanted_by(0, 1, model, files);
  const SaveStaging lent;
  RangeReader reader = files.reader({.memory = lent.slot(0)});
  int taken = 0;
  const auto fail = [&](std::size_t, const Span&, std::span<const std::byte>) {
    if (++taken == 3) throw std::logic_error("enough");
  };
  EXPECT_THROW(reader.read(wanted.requests, fail), std::logic_error);
  EXPECT_EQ(read(reader, wanted), wanted.bytes) << "and it can be asked again";
  std::filesystem::resize_file(folder / "step/rank_00001.safetensors", 5'000'000);
  EXPECT_THROW(read(reader, wanted), StorageError);
}

TEST(SaveAndLoad, KeepsWhatIsSaidAboutTheRun) {
  const TestFolder folder;
  const SavedModel model = SavedModel::random(5, 4, 100);
  save_by(2, folder, model);
  const StateFiles files = StateFiles::open(folder.path());
  const Manifest& manifest = files.manifest();
  EXPECT_EQ(manifest.tag, "step");
  EXPECT_EQ(manifest.run.whole("step"), 200);
  EXPECT_EQ(manifest.run.unsigned_whole("data_seed"), ~std::uint64_t{0});
  EXPECT_EQ(manifest.run.real("loss_scale"), 65536.0);
  EXPECT_EQ(manifest.run.whole("missing"), std::nullopt);
  EXPECT_EQ(manifest.documents.at("config.json"), "{\"model_type\": \"none\"}\n");
  EXPECT_EQ(files.find("tied.weight"), files.find(model.tensors.front().name));
  EXPECT_EQ(files.find("layers.1.weight")->updates, model.tensors[1].updates);
  EXPECT_EQ(files.find("layers.99.weight"), nullptr);
  EXPECT_EQ(files.reader().read_blob("client_state.json"), "{\"epoch\": 3}");
  EXPECT_EQ(files.reader().read_blob("rng.cpu", 1), "random state of rank 1");
  EXPECT_EQ(files.reader().read_blob("rng.cpu", 2), std::nullopt);
  EXPECT_EQ(files.reader().read_blob("rng.cpu"), std::nullopt);
}

TEST(SaveAndLoad, ReadsPartsOfAHuggingFaceModel) {
  const TestFolder folder;
  const std::string text = "0123456789abcdef";
  for (const char* name : {"model-1.safetensors", "model-2.safetensors"}) {
    SafetensorsWriter writer(folder / name,
                             {{.name = name, .dtype = DType::bf16, .shape = {2, 4}},
                              {.name = "in both", .dtype = DType::uint8, .shape = {16}}},
                             {});
    writer.write(0, as_bytes(text));
    writer.write(1,
                 as_bytes(name == std::string("model-1.safetensors") ? text : "not this one..  "));
    writer.finish();
  }
  put_file(folder / "model.safetensors.index.json",
           R"({"weight_map": {"model-1.safetensors": "model-1.safetensors",
               "model-2.safetensors": "model-2.safetensors", "in both": "model-1.safetensors"}})");
  const StateFiles files = StateFiles::open(folder.path());
  EXPECT_FALSE(files.is_checkpoint());
  EXPECT_EQ(files.manifest().tensors.size(), 3U);
  RangeReader reader = files.reader();
  reader.check_files();
  std::string bytes;
  const auto take = [&](std::size_t, const Span&, auto part) {
    bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
  };
  reader.read({{&files.find("model-2.safetensors")->states.at("value"), Span(3, 6)}}, take);
  EXPECT_EQ(bytes, "6789ab");
  EXPECT_EQ(reader.bytes_read(), 6U) << "no more than what is wanted";
  bytes.clear();
  reader.read({{&files.find("in both")->states.at("value"), Span(0, 16)}}, take);
  EXPECT_EQ(bytes, text);
}

TEST(SaveAndLoad, RefusesWhatCannotBeSavedOnAllRanksAlike) {
  const TestFolder folder;
  run_ranks(2, {}, [&](Communicator& comm) {
    SaveFolder to(comm, folder.path());
    SavedModel model = SavedModel::random(1, 3, 100);
    EXPECT_THROW(save(to, {.tag = "a/b"}, model, comm), ConfigError);
    EXPECT_THROW(save(to, {.tag = "x.partial-12"}, model, comm), ConfigError);
    model.tensors[1].name = "\xff";
    const std::string message =
        message_thrown<ConfigError>([&] { save(to, {.tag = "a"}, model, comm); });
    EXPECT_TRUE(has(message, "rank "));
    model.tensors[1].name = comm.rank() == 0 ? "one" : "another";
    model.tensors[1].shape = {5000};
    model.tensors[1].kind = TensorKind::trained;
    EXPECT_TRUE(has(message_thrown<StorageError>([&] { save(to, {.tag = "a"}, model, comm); }),
                    "do not save the same model"));
  });
  EXPECT_TRUE(tags_in(folder.path()).empty());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "nothing is left";
}

}  // namespace
}  // namespace zeroshard
