// The text of a manifest: what is written is read, what is later is refused, what is unknown is
// passed over.

#include <chrono>

#include "tests/checkpoint/saved_model.h"
#include "zeroshard/checkpoint/manifest_checksum.h"

namespace zeroshard {
namespace {

Manifest small_manifest() {
  Manifest manifest{.tag = "global_step7", .saved_at_ms = 1'764'000'000'123, .ranks = 2};
  manifest.files = {{"rank_00000.safetensors", 5000, {1}},
                    {"rank_00001.safetensors", 1'048'577, {2, ~0ULL}}};
  StoredTensor weight{
      .name = "h.0.\"weight\"\n", .dtype = stored_as("BF16"), .shape = {3, 4}, .updates = 7};
  weight.scalars["step"] = 7;
  weight.states["exp_avg"] = {stored_as("F32"),
                              {{0, Span(0, 5), 128}, {1, Span(5, 12), 1'048'548}}};
  weight.states["value"] = {stored_as("F32"), {{0, Span(0, 5), 148}, {1, Span(5, 12), 1'048'520}}};
  StoredTensor empty{
      .name = "empty", .kind = TensorKind::buffer, .dtype = stored_as("I64"), .shape = {0, 7}};
  empty.states["value"] = {stored_as("I64"), {}};
  manifest.tensors = {weight, empty};
  manifest.aliases["tied"] = "empty";
  manifest.blobs = {{"rng.cpu", 1, 1, 0, 17}, {"client", std::nullopt, 0, 5000, 0}};
  manifest.run.set("step", std::int64_t{-1});
  manifest.run.set("seed", ~std::uint64_t{0});
  manifest.run.set("small_seed", std::uint64_t{3});
  manifest.run.set("scale", 65536.0);
  manifest.run.set("loss", 0.1);
  manifest.documents["config.json"] = "{\n}";
  manifest.written_by["zeroshard"] = "0.1.0";
  return manifest;
}

// The manifest's text with one part exchanged, and a checksum that fits again.
std::string changed(std::string_view from, std::string_view to) {
  std::string text = format_manifest(small_manifest());
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  return with_checksum(text.substr(0, text.rfind(",\n\"checksum\"")));
}

std::string refusal_of(const std::string& text) {
  return message_thrown<StorageError>([&] { parse_manifest(text, "DIR/manifest.json"); });
}

TEST(Manifest, ReadsWhatWasWritten) {
  const Manifest manifest = small_manifest();
  const std::string text = format_manifest(manifest);
  EXPECT_TRUE(parse_manifest(text, "file") == manifest) << text;
  EXPECT_EQ(format_manifest(parse_manifest(text, "file")), text);
}

TEST(Manifest, PassesOverWhatItDoesNotKnow) {
  const std::string text = changed("\"needs\":[]", "\"needs\":[],\"colour\":{\"a\":[1,{}]}");
  EXPECT_TRUE(parse_manifest(text, "file") == small_manifest());
  const std::string inside = changed("\"kind\":\"trained\"", "\"kind\":\"trained\",\"new\":null");
  EXPECT_TRUE(parse_manifest(inside, "file") == small_manifest());
  EXPECT_EQ(parse_manifest(changed("\"trained\"", "\"frobbed\""), "file").tensors[0].kind,
            TensorKind::buffer);
}

TEST(Manifest, RefusesWhatComesFromTheFuture) {
  const std::string later = refusal_of(changed("\"version\":1", "\"version\":2"));
  EXPECT_TRUE(has(later, "version 2"));
  EXPECT_TRUE(has(later, "DIR/manifest.json"));
  EXPECT_TRUE(has(later, "newer"));
  EXPECT_TRUE(has(refusal_of(changed("\"needs\":[]", "\"needs\":[\"zstd\"]")), "needs \"zstd\""));
  EXPECT_TRUE(
      has(refusal_of(changed("zeroshard.checkpoint", "others.checkpoint")), "another format"));
}

struct Change {
  const char* from;
  const char* to;
  const char* said;
};

class ManifestDamage : public testing::TestWithParam<Change> {};

TEST_P(ManifestDamage, IsRefusedWithItsPlace) {
  const auto& [from, to, said] = GetParam();
  EXPECT_TRUE(has(refusal_of(changed(from, to)), said));
}

INSTANTIATE_TEST_SUITE_P(
    Each, ManifestDamage,
    testing::Values(Change{"\"rank_00000.safetensors\"", "\"../secret\"",
                           "files[0].name is no file of the folder"},
                    Change{"\"rank_00000.safetensors\"", "\"rank_00001.safetensors\"",
                           "is there twice"},
                    Change{"\"bytes\":5000", "\"bytes\":-5", "no whole number"},
                    Change{"\"bytes\":5000", "\"bytes\":9223372036854775807",
                           "not one checksum for each chunk"},
                    Change{"\"bytes\":5000", "\"bytes\":\"5000\"", "no whole number"},
                    Change{"0000000000000001", "000000000000000g", "not one checksum"},
                    Change{"\"chunk_bytes\":1048576", "\"chunk_bytes\":1048577", "no power of two"},
                    Change{"\"chunk_bytes\":1048576", "\"chunk_bytes\":0", "no power of two"},
                    Change{"\"chunk_bytes\":1048576", "\"chunk_bytes\":2097152", "no power of two"},
                    Change{"\"shape\":[3,4]", "\"shape\":[9223372036854775807,9]", "does not fit"},
                    Change{"\"shape\":[3,4]", "\"shape\":[3,-4]", "no whole number"},
                    Change{"\"shape\":[3,4]", "\"shape\":[3,5]", "lacks elements of exp_avg"},
                    Change{"\"shape\":[3,4]", "\"shape\":{}", "is no list"},
                    Change{"\"dtype\":\"F32\"", "\"dtype\":\"F4\"", "no dtype that can be stored"},
                    Change{"[0,0,5,128]", "[0,0,5,128,1]", "is not [file, begin, end, offset]"},
                    Change{"[0,0,5,128]", "[2,0,5,128]", "not listed"},
                    Change{"[0,0,5,128]", "[0,0,5,4984]", "lies outside its file"},
                    Change{"[0,0,5,128]", "[0,0,5,9223372036854775807]", "lies outside its file"},
                    Change{"[0,0,5,128]", "[0,0,5,129]", "does not begin at a whole element"},
                    Change{"[0,0,5,128]", "[0,0,6,128]", "overlaps"},
                    Change{"[0,0,5,128]", "[0,0,4,128]", "lacks elements"},
                    Change{"[0,0,5,128]", "[0,5,5,128]", "elements that the tensor has not"},
                    Change{"\"value\":{", "\"valve\":{", "lacks elements of value"},
                    Change{"\"exp_avg\":{", "\"value\":{", "twice"},
                    Change{"\"name\":\"empty\"", "\"name\":\"tied\"", "no tensor"},
                    Change{"{\"tied\"", "{\"empty\"", "is a tensor itself"},
                    Change{"\"file\":1", "\"file\":2", "not below 2"},
                    Change{"\"bytes\":17", "\"bytes\":1048578", "lies outside its file"},
                    Change{"\"bytes\":17", "\"bytes\":1048577", "that others describe too"},
                    Change{"\"step\":-1", "\"step\":true", "is no number"},
                    Change{"{\"tied\"", "{\"\\udd00\"", "no JSON"},
                    Change{"\"documents\":{", "\"documents\":[", "no JSON"},
                    Change{"\"tensors\"", "\"censors\"", "lacks \"tensors\""}));

// A file that is nothing but a hole, and a manifest that has it read a thousand times over.
TEST(Manifest, RefusesToReadAFileManyTimes) {
  Manifest manifest;
  manifest.files = {{"hole", kChunkBytes, {1}}};
  for (int i = 0; i < 1000; ++i) {
    StoredTensor tensor{.name = "t" + std::to_string(i), .dtype = stored_as("U8")};
    tensor.shape = {std::int64_t{kChunkBytes}};
    tensor.states["value"] = {tensor.dtype, {{0, Span(0, tensor.shape[0]), 0}}};
    manifest.tensors.push_back(tensor);
  }
  EXPECT_TRUE(has(refusal_of(format_manifest(manifest)), "that others describe too"));
  manifest.tensors.resize(1);
  EXPECT_TRUE(parse_manifest(format_manifest(manifest), "file") == manifest);
}

TEST(Manifest, RefusesTheSameBlobTwice) {
  EXPECT_TRUE(has(refusal_of(changed("\"name\":\"rng.cpu\",\"rank\":1", "\"name\":\"client\"")),
                  "is there twice"));
}

TEST(Manifest, NoticesEveryFlippedBit) {
  const std::string sound = format_manifest(small_manifest());
  for (std::size_t bit = 0; bit < sound.size() * 8; ++bit) {
    std::string damaged = sound;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    EXPECT_THROW(parse_manifest(damaged, "file"), StorageError) << "bit " << bit;
  }
  for (std::size_t bytes = 0; bytes < sound.size(); ++bytes) {
    EXPECT_THROW(parse_manifest(sound.substr(0, bytes), "file"), StorageError);
  }
  EXPECT_THROW(parse_manifest(sound + "\n", "file"), StorageError);
}

// A billion is 1e9 parameters here, cut as the engine would: 32 blocks of 9 tensors over 64 ranks.
TEST(Manifest, OfSevenBillionParametersOnSixtyFourRanksHasAFewMegabytes) {
  constexpr int kRanks = 64;
  constexpr std::int64_t kHidden = 4096, kMlp = 11008;
  Manifest manifest{.ranks = kRanks};
  manifest.files.resize(kRanks);
  for (int rank = 0; rank < kRanks; ++rank)
    manifest.files[static_cast<std::size_t>(rank)].name = "rank_" + std::to_string(rank);
  std::int64_t parameters = 0;
  const auto add_unit = [&](const std::string& unit, const std::vector<std::int64_t>& numels) {
    const FlatLayout layout(numels, kRanks);
    for (std::size_t i = 0; i < numels.size(); ++i) {
      StoredTensor tensor{.name = unit + ".tensor_" + std::to_string(i),
                          .dtype = stored_as("BF16"),
                          .shape = {numels[i]}};
      for (const char* name : {"value", "exp_avg", "exp_avg_sq"}) {
        StoredState& state = tensor.states[name];
        state.dtype = stored_as("F32");
        for (int rank = 0; rank < kRanks; ++rank) {
          const Span own = layout.piece(i, rank).within_parameter;
          if (own.empty()) continue;
          StoredFile& file = manifest.files[static_cast<std::size_t>(rank)];
          state.pieces.push_back({static_cast<std::size_t>(rank), own, file.bytes});
          file.bytes += static_cast<std::uint64_t>(own.size()) * 4;
        }
      }
      parameters += numels[i];
      manifest.tensors.push_back(std::move(tensor));
    }
  };
  add_unit("embedding", {32000 * kHidden});
  for (int block = 0; block < 32; ++block) {
    add_unit("model.layers." + std::to_string(block),
             {kHidden, kHidden * kHidden, kHidden * kHidden, kHidden * kHidden, kHidden * kHidden,
              kHidden, kHidden * kMlp, kHidden * kMlp, kHidden * kMlp});
  }
  add_unit("head", {32000 * kHidden});
  EXPECT_GT(parameters, 6'700'000'000);
  for (StoredFile& file : manifest.files)
    file.chunks.resize((file.bytes + kChunkBytes - 1) / kChunkBytes, ~0ULL);
  const std::string text = format_manifest(manifest);
  EXPECT_LT(text.size(), 3'000'000U);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(parse_manifest(text, "file") == manifest);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5))
      << "it is not linear";
}

TEST(Manifest, OfANumberThatIsNoneIsNotWritten) {
  RunNumbers run;
  EXPECT_THROW(run.set("loss", std::numeric_limits<double>::infinity()), ConfigError);
  run.set("whole", 3.0);
  EXPECT_EQ(run.whole("whole"), std::nullopt);
  EXPECT_EQ(run.real("whole"), 3.0);
}

}  // namespace
}  // namespace zeroshard
