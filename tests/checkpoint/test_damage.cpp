// Damage anywhere is found, with the file and what lies there, and never read as if it were sound.

#include <algorithm>

#include "tests/checkpoint/saved_model.h"
#include "zeroshard/checkpoint/manifest_checksum.h"
#include "zeroshard/checkpoint/verify.h"
#include "zeroshard/comm/thread.h"

namespace zeroshard {
namespace {

namespace fs = std::filesystem;

class Damage : public testing::Test {
 protected:
  void SetUp() override {
    run_ranks(2, {}, [&](Communicator& comm) {
      SaveFolder to(comm, folder_.path());
      save(to, {.tag = "step"}, model_, comm);
    });
  }

  fs::path file(int rank) const {
    return folder_.path() / "step" / ("rank_0000" + std::to_string(rank) + ".safetensors");
  }
  StateFiles open() const { return StateFiles::open(folder_.path()); }

  const TestFolder folder_;
  const SavedModel model_ = SavedModel::random(21, 30, 600'000);
};

// What lies at a byte of a file: the state's name, or "".
std::string state_at(const Manifest& manifest, std::size_t file, std::uint64_t byte) {
  for (const StoredTensor& tensor : manifest.tensors) {
    for (const auto& [name, state] : tensor.states) {
      for (const StoredPiece& piece : state.pieces) {
        const auto bytes =
            static_cast<std::uint64_t>(piece.elements.size()) * state.element_bytes();
        if (piece.file == file && byte >= piece.offset && byte < piece.offset + bytes) {
          return name + " of " + tensor.name;
        }
      }
    }
  }
  return "";
}

std::string read_all(const StateFiles& files) {
  std::vector<RangeRequest> requests;
  for (const StoredTensor& tensor : files.manifest().tensors) {
    for (const auto& [name, state] : tensor.states) {
      requests.push_back({&state, Span(0, tensor.numel())});
    }
  }
  RangeReader reader = files.reader();
  return message_thrown<StorageError>([&] {
    reader.check_files();
    reader.read(requests, [](std::size_t, const Span&, std::span<const std::byte>) {});
  });
}

TEST_F(Damage, ASoundCheckpointVerifies) {
  const Verified verified = verify(open());
  EXPECT_TRUE(verified.damaged.empty());
  EXPECT_EQ(verified.files, 2U);
  EXPECT_EQ(verified.bytes, fs::file_size(file(0)) + fs::file_size(file(1)));
  EXPECT_GT(verified.bytes, 5 * kChunkBytes);
}

// In the header of a file, in every state, in blobs and in the very last bit.
TEST_F(Damage, OneFlippedBitIsFoundAndNamed) {
  const StateFiles files = open();
  std::mt19937_64 random(5);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const std::string sound = bytes_of_file(file(static_cast<int>(rank)));
    std::vector<std::uint64_t> bits{0, 64, sound.size() * 8 - 1};
    for (const StoredTensor& tensor : files.manifest().tensors) {
      for (const auto& [name, state] : tensor.states) {
        for (const StoredPiece& piece : state.pieces) {
          const auto size =
              static_cast<std::uint64_t>(piece.elements.size()) * state.element_bytes() * 8;
          if (piece.file == rank) bits.push_back(piece.offset * 8 + random() % size);
        }
      }
    }
    for (const std::uint64_t bit : bits) {
      std::string damaged = sound;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
      put_file(file(static_cast<int>(rank)), damaged);
      const Verified verified = verify(files);
      ASSERT_EQ(verified.damaged.size(), 1U) << "bit " << bit;
      EXPECT_EQ(verified.damaged[0].file, file(static_cast<int>(rank)).filename());
      const std::uint64_t chunk = bit / 8 / kChunkBytes * kChunkBytes;
      EXPECT_TRUE(has(verified.damaged[0].what, "bytes " + std::to_string(chunk) + " to "));
    }
    put_file(file(static_cast<int>(rank)), sound);
  }
}

// A tensor that touches the damaged chunk is refused, the others are read.
TEST_F(Damage, IsRefusedByWhoReadsItAndByNobodyElse) {
  const StateFiles files = open();
  const std::string sound = bytes_of_file(file(1));
  const std::uint64_t byte = sound.size() / 2;
  const std::string state = state_at(files.manifest(), 1, byte);
  ASSERT_NE(state, "");
  std::string damaged = sound;
  damaged[byte] = static_cast<char>(damaged[byte] ^ 1);
  put_file(file(1), damaged);
  const std::uint64_t chunk = byte / kChunkBytes;
  int refused = 0, read = 0;
  for (const StoredTensor& tensor : files.manifest().tensors) {
    for (const auto& [name, stored] : tensor.states) {
      const bool touches = std::ranges::any_of(stored.pieces, [&, &of = stored](const auto& piece) {
        const auto bytes = static_cast<std::uint64_t>(piece.elements.size()) * of.element_bytes();
        return piece.file == 1 && piece.offset / kChunkBytes <= chunk &&
               (piece.offset + bytes - 1) / kChunkBytes >= chunk;
      });
      RangeReader reader = files.reader();
      std::string bytes;
      const auto take = [&](std::size_t, const Span&, auto part) {
        bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
      };
      const auto read_it = [&] { reader.read({{&stored, Span(0, tensor.numel())}}, take); };
      if (touches) {
        ++refused;
        const std::string message = message_thrown<StorageError>(read_it);
        EXPECT_TRUE(has(message, file(1).string()));
        EXPECT_TRUE(has(message, "are not what was written"));
      } else {
        ++read;
        EXPECT_NO_THROW(read_it());
      }
    }
  }
  EXPECT_GE(refused, 1);
  EXPECT_GE(read, 10);
  EXPECT_TRUE(has(read_all(files), "bytes " + std::to_string(chunk * kChunkBytes)));
}

TEST_F(Damage, AShortALongAndAMissingFile) {
  const StateFiles files = open();
  const std::string sound = bytes_of_file(file(0));
  put_file(file(0), sound.substr(0, sound.size() - 1));
  EXPECT_TRUE(has(read_all(files), std::to_string(sound.size() - 1) + " bytes"));
  ASSERT_EQ(verify(files).damaged.size(), 1U);
  EXPECT_TRUE(has(verify(files).damaged[0].what, std::to_string(sound.size()) + " were written"));
  put_file(file(0), sound.substr(0, sound.size() / 2));
  EXPECT_TRUE(has(verify(files).damaged[0].states, " of layers."));
  put_file(file(0), sound + "x");
  EXPECT_TRUE(has(read_all(files), "were written"));
  EXPECT_EQ(verify(files).damaged.size(), 1U);
  fs::remove(file(0));
  const std::string message = read_all(files);
  EXPECT_TRUE(has(message, "a file of this checkpoint is missing"));
  EXPECT_TRUE(has(message, file(0).string()));
  ASSERT_EQ(verify(files).damaged.size(), 1U);
  EXPECT_TRUE(has(verify(files).damaged[0].what, "cannot be read"));
}

TEST_F(Damage, AManifestOfAnotherCheckpointIsNoneOfThis) {
  const TestFolder other;
  run_ranks(2, {}, [&](Communicator& comm) {
    SaveFolder to(comm, other.path());
    save(to, {.tag = "step"}, SavedModel::random(22, 30, 600'000), comm);
  });
  fs::copy_file(other / "step/manifest.json", folder_ / "step/manifest.json",
                fs::copy_options::overwrite_existing);
  EXPECT_FALSE(verify(open()).damaged.empty());
  EXPECT_NE(read_all(open()), "");
}

TEST_F(Damage, AnEmptyOrHugeManifestIsRefused) {
  const fs::path manifest = folder_.path() / "step/manifest.json";
  put_file(manifest, "");
  EXPECT_TRUE(has(message_thrown<StorageError>([&] { open(); }), "manifest is damaged"));
  fs::resize_file(manifest, kMaxManifestBytes + 1);
  EXPECT_TRUE(has(message_thrown<StorageError>([&] { open(); }), "larger than"));
}

}  // namespace
}  // namespace zeroshard
