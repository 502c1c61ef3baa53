// A checkpoint becomes a model as HuggingFace lays it out, whatever ranks have saved it.

#include <cstring>

#include "tests/checkpoint/saved_model.h"
#include "zeroshard/base/half.h"
#include "zeroshard/checkpoint/compare.h"
#include "zeroshard/checkpoint/export_config.h"
#include "zeroshard/checkpoint/export_model.h"
#include "zeroshard/checkpoint/model_folder.h"
#include "zeroshard/comm/thread.h"

namespace zeroshard {
namespace {

namespace fs = std::filesystem;

// Parameters whose values are numbers: bytes at random are mostly no weights.
struct Weights {
  std::vector<TensorToSave> tensors;

  static float value(std::size_t tensor, std::int64_t element) {
    const std::uint64_t bits = mix64(tensor * 1'000'003 + static_cast<std::uint64_t>(element));
    return static_cast<float>(static_cast<double>(bits >> 40U) / 16'777'216.0 - 0.5);
  }
};

Weights some_weights() {
  Weights weights;
  const auto add = [&](const char* name, TensorKind kind, StoredDType dtype,
                       std::vector<std::int64_t> shape) {
    weights.tensors.push_back(
        {.name = name, .kind = kind, .dtype = dtype, .shape = std::move(shape)});
  };
  add("wte.weight", TensorKind::trained, DType::bf16, {300, 64});
  add("h.0.bias", TensorKind::trained, DType::bf16, {7});
  add("h.0.frozen", TensorKind::frozen, DType::fp32, {1000});
  add("h.0.position_ids", TensorKind::buffer, *StoredDType::of("I64"), {5});
  add("h.0.scale", TensorKind::trained, DType::fp32, {});
  add("h.0.none", TensorKind::trained, DType::bf16, {0, 4});
  add("head.weight", TensorKind::trained, DType::fp16, {64, 300});
  return weights;
}

void save_weights(const fs::path& folder, const Weights& weights, int ranks) {
  run_ranks(ranks, {}, [&](Communicator& comm) {
    SaveContents contents = SavedModel{.tensors = weights.tensors}.contents(comm.rank(), ranks);
    contents.documents["config.json"] = R"({"model_type": "gpt2", "torch_dtype": "bfloat16"})";
    SaveFolder to(comm, folder);
    CheckpointSave save(to, {.tag = "step"}, contents, comm);
    const auto copy = [&](std::size_t number, const Span& elements, std::byte* into) {
      const StateToSave& state = contents.states[number];
      for (std::int64_t i = elements.begin(); i < elements.end(); ++i) {
        const float value = Weights::value(state.tensor, i);
        std::memset(into, 0, state.dtype.bytes());
        std::memcpy(into, &value, std::min<std::size_t>(sizeof(value), state.dtype.bytes()));
        into += state.dtype.bytes();
      }
    };
    save.run(copy, SaveStaging(), comm);
  });
}

// What the exported tensor should be, rounded once from the master.
std::string expected(const Weights& weights, std::size_t tensor, DType dtype) {
  std::string bytes;
  for (std::int64_t i = 0; i < numel_of(weights.tensors[tensor]); ++i) {
    const float value = Weights::value(tensor, i);
    if (dtype == DType::fp32) {
      bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
    } else {
      const std::uint16_t bits = dtype == DType::bf16 ? fp32_to_bf16(value) : fp32_to_fp16(value);
      bytes.append(reinterpret_cast<const char*>(&bits), sizeof(bits));
    }
  }
  return bytes;
}

std::string value_in(const ModelFolder& model, const std::string& name) {
  std::string value(model.entry(name).bytes(), '\0');
  model.read(name, 0, std::as_writable_bytes(std::span(value)));
  return value;
}

void expect_weights(const ModelFolder& model, const Weights& weights, std::optional<DType> dtype) {
  for (std::size_t i = 0; i < weights.tensors.size(); ++i) {
    const TensorToSave& tensor = weights.tensors[i];
    if (tensor.kind == TensorKind::buffer) continue;
    const DType wanted = dtype.value_or(*tensor.dtype.dtype());
    EXPECT_EQ(model.entry(tensor.name).dtype, StoredDType(wanted)) << tensor.name;
    EXPECT_EQ(model.entry(tensor.name).shape, tensor.shape);
    EXPECT_EQ(value_in(model, tensor.name), expected(weights, i, wanted)) << tensor.name;
  }
}

TEST(Export, WritesOneFileEachWeightAsTheModelComputesWithIt) {
  const TestFolder folder;
  const Weights weights = some_weights();
  save_weights(folder / "runs", weights, 3);
  const Exported exported = export_model(StateFiles::open(folder / "runs"), folder / "out");
  EXPECT_EQ(exported.files, std::vector<std::string>{"model.safetensors"});
  EXPECT_EQ(exported.tensors, 7U);
  EXPECT_TRUE(exported.has_config);
  const ModelFolder model = ModelFolder::open(folder / "out");
  expect_weights(model, weights, std::nullopt);
  ASSERT_EQ(model.files()[0].unreadable().size(), 1U) << "the buffer of I64 is there as it is";
  EXPECT_EQ(model.files()[0].metadata().at("format"), "pt");
  EXPECT_TRUE(has(bytes_of_file(folder / "out/config.json"), "bfloat16"));
  EXPECT_FALSE(fs::exists(folder / "out/tied.weight"));
}

TEST(Export, InAnyDtype) {
  const TestFolder folder;
  const Weights weights = some_weights();
  save_weights(folder / "runs", weights, 2);
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    export_model(StateFiles::open(folder / "runs"), folder / "out", {.dtype = dtype});
    expect_weights(ModelFolder::open(folder / "out"), weights, dtype);
  }
  EXPECT_TRUE(has(bytes_of_file(folder / "out/config.json"), "\"torch_dtype\": \"float16\""));
}

TEST(Export, CutsFilesAndWritesTheirIndex) {
  const TestFolder folder;
  const Weights weights = some_weights();
  save_weights(folder / "runs", weights, 4);
  const Exported exported =
      export_model(StateFiles::open(folder / "runs"), folder / "out", {.max_shard_bytes = 20'000});
  EXPECT_EQ(exported.files, (std::vector<std::string>{"model-00001-of-00003.safetensors",
                                                      "model-00002-of-00003.safetensors",
                                                      "model-00003-of-00003.safetensors"}));
  EXPECT_FALSE(fs::exists(folder / "out/model.safetensors"));
  expect_weights(ModelFolder::open(folder / "out"), weights, std::nullopt);
  EXPECT_TRUE(has(bytes_of_file(folder / "out/model.safetensors.index.json"),
                  "\"total_size\": " + std::to_string(exported.bytes)));
}

TEST(Export, CountsWhatDoesNotFitInFp16) {
  const TestFolder folder;
  const std::vector<float> values{1e6F, -1e6F, 65504.0F, 1.0F,
                                  std::numeric_limits<float>::infinity()};
  run_ranks(1, {}, [&](Communicator& comm) {
    SaveContents contents{.tensors = {{.name = "a", .dtype = DType::fp32, .shape = {5}}},
                          .states = {{.state = "value", .elements = Span(0, 5)}}};
    SaveFolder to(comm, folder / "runs");
    CheckpointSave save(to, {.tag = "1"}, contents, comm);
    save.run(
        [&](std::size_t, const Span&, std::byte* into) { std::memcpy(into, values.data(), 20); },
        SaveStaging(), comm);
  });
  const StateFiles files = StateFiles::open(folder / "runs");
  EXPECT_EQ(export_model(files, folder / "a", {.dtype = DType::fp16}).overflowed, 2U);
  EXPECT_EQ(export_model(files, folder / "b", {.dtype = DType::bf16}).overflowed, 0U);
  EXPECT_FALSE(export_model(files, folder / "c").has_config);
}

TEST(Export, OfADamagedCheckpointLeavesNothing) {
  const TestFolder folder;
  save_weights(folder / "runs", some_weights(), 2);
  const fs::path file = folder / "runs/step/rank_00001.safetensors";
  std::string bytes = bytes_of_file(file);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  put_file(file, bytes);
  const StateFiles files = StateFiles::open(folder / "runs");
  EXPECT_THROW(export_model(files, folder / "out"), StorageError);
  EXPECT_FALSE(fs::exists(folder / "out"));
}

TEST(Export, TheConfigNamesTheDtype) {
  EXPECT_EQ(with_dtype("{\"a\": 1e-06}", DType::bf16), "{\"a\": 1e-06}") << "it names none";
  EXPECT_EQ(with_dtype("no JSON", DType::bf16), "no JSON");
  EXPECT_EQ(with_dtype("{\"dtype\": \"float32\"}", std::nullopt), "{\"dtype\": \"float32\"}");
  EXPECT_EQ(with_dtype("{\"dtype\":\"float32\",\"eps\":1e-06}", DType::bf16),
            "{\n  \"dtype\": \"bfloat16\",\n  \"eps\": 1e-06\n}\n");
}

TEST(Compare, FindsWhatDiffers) {
  const TestFolder folder;
  const auto save_one = [&](const char* name, int ranks, const SavedModel& model) {
    run_ranks(ranks, {}, [&](Communicator& comm) {
      SaveFolder to(comm, folder / name);
      save(to, {.tag = "step"}, model, comm);
    });
    return StateFiles::open(folder / name);
  };
  SavedModel model = SavedModel::random(31, 12, 700'000);
  const StateFiles one = save_one("one", 2, model);
  const StateFiles same = save_one("same", 5, model);
  const Comparison equal = compare(one, same);
  EXPECT_TRUE(equal.same_states());
  EXPECT_GT(equal.equal_states, 15U);
  EXPECT_TRUE(equal.numbers.empty());

  model.tensors.back().name = "renamed";
  const StateFiles renamed = save_one("renamed", 1, model);
  EXPECT_EQ(compare(one, renamed).only_in_first, std::vector<std::string>{"layers.11.weight"});
  EXPECT_EQ(compare(one, renamed).only_in_second, std::vector<std::string>{"renamed"});

  model.seed += 1;
  const Comparison other = compare(one, save_one("other", 3, model));
  EXPECT_GT(other.differences.size(), 15U);
  EXPECT_FALSE(other.same_states());
}

// A matrix too large to be turned round at once, cut over ranks; and some rows of it.
TEST(Export, TurnsMatricesRoundAndTakesRowsOfThem) {
  const TestFolder folder;
  constexpr std::int64_t kRows = 3000, kColumns = 2000;
  static_assert(kRows * kColumns * 4 > kTransposedBytes);
  SavedModel model;
  model.tensors = {{.name = "a", .dtype = stored_as("F32"), .shape = {kRows, kColumns}}};
  run_ranks(3, {}, [&](Communicator& comm) {
    SaveFolder to(comm, folder / "saved");
    save(to, {.tag = "1"}, model, comm);
  });
  const ExportLayout layout{
      .tensors = {{.name = "turned", .from = "a", .shape = {kColumns, kRows}, .transposed = true},
                  {.name = "rows", .from = "a", .shape = {2, kColumns}, .first_row = 999}},
      .config = "{\"model_type\": \"turned\", \"torch_dtype\": \"float32\"}"};
  export_model(StateFiles::open(folder / "saved"), folder / "out", {.layout = layout});
  const SafetensorsReader file(folder / "out/model.safetensors");
  const std::string text = bytes_of_file(folder / "out/model.safetensors");
  const auto data_of = [&](const char* name) {
    for (const TensorEntry& entry : file.entries()) {
      if (entry.name != name) continue;
      return std::string_view(text).substr(file.data_begin() + entry.begin, entry.bytes());
    }
    return std::string_view();
  };
  const std::string all = model.bytes("a", "value", Span(0, kRows * kColumns), 4);
  EXPECT_EQ(data_of("rows"), std::string_view(all).substr(999 * kColumns * 4, 2 * kColumns * 4));
  const std::string_view turned = data_of("turned");
  ASSERT_EQ(turned.size(), all.size());
  bool equal = true;
  for (std::int64_t i = 0; i < kRows * kColumns; ++i) {
    const std::int64_t to = i % kColumns * kRows + i / kColumns;
    equal = equal && std::memcmp(turned.data() + to * 4, all.data() + i * 4, 4) == 0;
  }
  EXPECT_TRUE(equal);
  EXPECT_TRUE(has(bytes_of_file(folder / "out/config.json"), "turned"));
}

TEST(Compare, SaysHowFarValuesAreApart) {
  const TestFolder folder;
  const auto save_one = [&](const char* name, const std::vector<float>& values, double step) {
    run_ranks(1, {}, [&](Communicator& comm) {
      const Span all(0, std::ssize(values));
      SaveContents contents{.tensors = {{.name = "a", .shape = {all.size()}}},
                            .states = {{.state = "value", .elements = all}}};
      contents.run.set("step", step);
      SaveFolder to(comm, folder / name);
      CheckpointSave save(to, {.tag = "1"}, contents, comm);
      const auto copy = [&](std::size_t, const Span& elements, std::byte* into) {
        std::memcpy(into, values.data() + elements.begin(),
                    static_cast<std::size_t>(elements.size()) * 4);
      };
      save.run(copy, SaveStaging(), comm);
    });
    return StateFiles::open(folder / name);
  };
  std::vector<float> values(600'000, 1.0F);
  const StateFiles one = save_one("one", values, 1);
  values[300'001] = 1.25F;
  values[599'999] = -1.0F;
  const Comparison comparison = compare(one, save_one("other", values, 2));
  ASSERT_EQ(comparison.differences.size(), 1U);
  EXPECT_EQ(comparison.differences[0].elements, 2);
  EXPECT_EQ(comparison.differences[0].first, 300'001);
  EXPECT_EQ(comparison.differences[0].largest, 2.0);
  EXPECT_EQ(comparison.numbers, std::vector<std::string>{"step: 1 and 2"});
}

}  // namespace
}  // namespace zeroshard
