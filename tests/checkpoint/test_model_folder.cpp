// Models in one file or several, found by name.

#include "tests/checkpoint/checkpoint_support.h"
#include "zeroshard/checkpoint/model_folder.h"

namespace zeroshard {
namespace {

void put_tensors(const std::filesystem::path& path, const std::vector<std::string>& names) {
  std::vector<TensorEntry> entries;
  for (const std::string& name : names) {
    entries.push_back({.name = name, .dtype = DType::uint8, .shape = {8}});
  }
  SafetensorsWriter writer(path, entries, {});
  for (const std::string& name : names) {
    std::string value = name;
    value.resize(8, '.');
    writer.write(name, as_bytes(value));
  }
  writer.finish();
}

std::string value_of(const ModelFolder& model, std::string_view name) {
  std::string value(model.entry(name).bytes(), '\0');
  model.read(name, 0, std::as_writable_bytes(std::span(value)));
  return value;
}

using Lines = std::vector<std::string>;

TEST(ModelFolder, OneFile) {
  const TestFolder folder;
  put_tensors(folder / "model.safetensors", {"wte", "head"});
  const ModelFolder model = ModelFolder::open(folder.path());
  EXPECT_EQ(model.names(), (Lines{"head", "wte"}));
  EXPECT_EQ(value_of(model, "wte"), "wte.....");
}

TEST(ModelFolder, SeveralFilesByTheirIndex) {
  const TestFolder folder;
  put_tensors(folder / "model-00001-of-00002.safetensors", {"a", "c"});
  put_tensors(folder / "model-00002-of-00002.safetensors", {"b"});
  put_file(folder / "model.safetensors.index.json",
           R"({"metadata": {"total_size": 24, "list": [{"weight_map": 3}]}, "weight_map": {
               "a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors",
               "c": "model-00001-of-00002.safetensors"}})");
  const ModelFolder model = ModelFolder::open(folder.path());
  EXPECT_EQ(model.names(), (Lines{"a", "b", "c"}));
  EXPECT_EQ(model.files().size(), 2U);
  EXPECT_EQ(value_of(model, "a"), "a.......");
  EXPECT_EQ(value_of(model, "b"), "b.......");
  EXPECT_EQ(value_of(model, "c"), "c.......");
}

TEST(ModelFolder, NamesThatAreNotThere) {
  const TestFolder folder;
  put_tensors(folder / "model.safetensors", {"a"});
  const ModelFolder model = ModelFolder::open(folder.path());
  EXPECT_FALSE(model.contains("b"));
  EXPECT_TRUE(has(message_thrown<ConfigError>([&] { model.entry("b"); }), "\"b\""));
}

TEST(ModelFolder, FoldersWithoutAModelAreTheUsersMistake) {
  const TestFolder folder;
  for (const auto& path : {folder.path(), folder / "missing"}) {
    EXPECT_TRUE(has(message_thrown<ConfigError>([&] { ModelFolder::open(path); }), path.string()));
  }
}

TEST(ModelFolder, AnIndexThatDoesNotFitItsFiles) {
  const TestFolder folder;
  const auto refused = [&](std::string_view index, std::string_view says) {
    put_file(folder / "model.safetensors.index.json", index);
    EXPECT_TRUE(has(message_thrown<StorageError>([&] { ModelFolder::open(folder.path()); }), says))
        << index;
  };
  put_tensors(folder / "one.safetensors", {"a"});
  refused(R"({"weight_map": {"b": "one.safetensors"}})", "\"b\" is not in \"one.safetensors\"");
  refused(R"({"weight_map": {"a": "two.safetensors"}})", "two.safetensors (No such file");
}

TEST(ModelFolder, HostileIndexes) {
  const auto refused = [](const std::string& json, std::string_view says) {
    EXPECT_TRUE(has(message_thrown<StorageError>([&] { parse_model_index(json, "index"); }), says))
        << json.substr(0, 80);
  };
  refused("", "no JSON");
  refused("{\"weight_map\": {}", "no JSON");
  refused("[]", "no JSON object");
  refused("{}", "no weight_map");
  refused(R"({"metadata": {"weight_map": {}}})", "no weight_map");
  refused(R"({"weight_map": 5})", "weight_map is no object");
  refused(R"({"weight_map": ["a"]})", "weight_map is no object");
  refused(R"({"weight_map": {"a": 5}})", "\"a\" names no file");
  refused(R"({"weight_map": {"a": {"b": "c"}}})", "\"a\" names no file");
  refused(R"({"weight_map": {"a": ["c"]}})", "\"a\" names no file");
  refused(R"({"weight_map": {"a": "x", "a": "x"}})", "\"a\" is there twice");
  refused(R"({"weight_map": {}, "weight_map": {}})", "two weight_maps");
  for (const char* leaves : {"", ".", "..", "../x", "/etc/passwd", "a/b", "a\\u0000b"}) {
    refused(std::string(R"({"weight_map": {"a": ")") + leaves + "\"}}", "is no file of the folder");
  }
  refused("{\"x\":" + std::string(1'000'000, '['), "no JSON");
  EXPECT_TRUE(parse_model_index(R"({"a": [1, "b", {"c": null}], "weight_map": {}, "d": "e"})", "i")
                  .empty());
}

}  // namespace
}  // namespace zeroshard
