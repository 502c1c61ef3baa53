// Event files, byte by byte against TensorBoard's own, and their framing.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/monitor/monitor_support.h"
#include "zeroshard/monitor/crc32c.h"
#include "zeroshard/monitor/tensorboard.h"

namespace zeroshard {
namespace {

using tensorboard_detail::record;
using tensorboard_detail::scalars_event;
using tensorboard_detail::version_event;

// Made once with tensorboard 2.21: event_pb2.Event(...).SerializeToString() through
// summary.writer.record_writer.RecordWriter, the code under torch.utils.tensorboard.
const char* const kVersion =
    "1800000000000000a37f4b220900001040fc54d9411a0d627261696e2e4576656e743a32338d2fe9";
const char* const kOne =
    "2f000000000000006d5d1d500900006040fc54d9411080202a210a1f0a18547261696e2f53616d706c65732f"
    "747261696e5f6c6f73731554f82d404dee42a8";
const char* const kThree =
    "5000000000000000940f9b82090000b040fc54d9412a450a170a10547261696e2f53616d706c65732f6c7215"
    "000000000a1f0a18547261696e2f53616d706c65732f6c6f73735f7363616c6515000080470a090a02c3a915"
    "0000c07f5d79dba8";
const char* const kNegative =
    "ea00000000000000ace9258c09000000000000f03f10fdffffffffffffffff012ad3010ad0010ac801787878"
    "7878787878787878787878787878787878787878787878787878787878787878787878787878787878787878"
    "7878787878787878787878787878787878787878787878787878787878787878787878787878787878787878"
    "7878787878787878787878787878787878787878787878787878787878787878787878787878787878787878"
    "7878787878787878787878787878787878787878787878787878787878787878787878787878787878787878"
    "78787878787878787878787878787878787878787815000080ff6432de16";

std::string hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 0xFU];
  }
  return text;
}

TEST(TensorBoard, TheVersionIsTheirBytes) {
  EXPECT_EQ(hex(record(version_event(1700000000.25))), kVersion);
}

TEST(TensorBoard, OneScalarIsTheirBytes) {
  const Scalar loss{"Train/Samples/train_loss", 2.718281828};
  EXPECT_EQ(hex(record(scalars_event(1700000001.5, 4096, {&loss, 1}))), kOne);
}

TEST(TensorBoard, StepZeroAndValueZeroAreTheirBytes) {
  const Scalar scalars[] = {
      {"Train/Samples/lr", 0.0}, {"Train/Samples/loss_scale", 65536.0}, {"\xC3\xA9", std::nan("")}};
  EXPECT_EQ(hex(record(scalars_event(1700000002.75, 0, scalars))), kThree);
}

TEST(TensorBoard, NegativeStepsAndLongTagsAreTheirBytes) {
  const std::string tag(200, 'x');
  // Too large for a float: an infinity there.
  const Scalar scalar{tag, -1e300};
  EXPECT_EQ(hex(record(scalars_event(1.0, -3, {&scalar, 1}))), kNegative);
}

// RFC 3720, appendix B.4.
TEST(Crc32c, HasTheVectorsOfTheRfc) {
  std::string up, down;
  for (int i = 0; i < 32; ++i) up += static_cast<char>(i);
  for (int i = 31; i >= 0; --i) down += static_cast<char>(i);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
  EXPECT_EQ(crc32c(up), 0x46DD794EU);
  EXPECT_EQ(crc32c(down), 0x113FDB5CU);
  constexpr unsigned char kReadCommand[48] = {
      0x01, 0xC0, 0, 0,    0, 0, 0, 0,    0,    0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 0x04, 0,
      0,    0,    0, 0x14, 0, 0, 0, 0x18, 0x28, 0, 0, 0, 0, 0, 0, 0, 0x02, 0, 0, 0, 0, 0, 0,    0};
  EXPECT_EQ(crc32c({reinterpret_cast<const char*>(kReadCommand), sizeof kReadCommand}),
            0xD9963A56U);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(""), 0U);
}

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i > 0; --i) {
    value = value << 8U | static_cast<unsigned char>(bytes[i - 1]);
  }
  return value;
}

// The payloads of a file whose frames are whole and whose checksums hold.
std::vector<std::string> payloads_of(std::string_view file) {
  std::vector<std::string> payloads;
  while (file.size() >= 16) {
    const auto length = static_cast<std::size_t>(little_endian(file.substr(0, 8)));
    if (file.size() < 16 + length) break;
    const std::string payload(file.substr(12, length));
    EXPECT_EQ(file.substr(0, 16 + length), record(payload));
    payloads.push_back(payload);
    file.remove_prefix(16 + length);
  }
  EXPECT_TRUE(file.empty());
  return payloads;
}

TEST(TensorBoardWriter, EachWriteIsInTheFileAtOnce) {
  const testing::TemporaryFolder folder;
  TensorBoardWriter writer(folder / "runs/job");
  EXPECT_EQ(payloads_of(testing::read_text(writer.path())).size(), 1U);
  const Scalar scalars[] = {{"a", 1.0}, {"b", 2.0}};
  writer.write(5, scalars);
  writer.write(6, {});
  const auto payloads = payloads_of(testing::read_text(writer.path()));
  ASSERT_EQ(payloads.size(), 2U) << "nothing to say is no event";
  EXPECT_EQ(payloads[0].substr(9), version_event(1.0).substr(9));
  EXPECT_EQ(payloads[1].substr(9), scalars_event(1.0, 5, scalars).substr(9));
}

TEST(TensorBoardWriter, FilesAreNamedAsTensorBoardLooksForThem) {
  const testing::TemporaryFolder folder;
  const TensorBoardWriter first(folder.path()), second(folder.path());
  EXPECT_NE(first.path(), second.path());
  for (const std::string& name : testing::names_in(folder.path())) {
    EXPECT_EQ(name.find("events.out.tfevents.1"), 0U) << name;
  }
}

TEST(TensorBoardWriter, AWrongFolderIsOneSentence) {
  const testing::TemporaryFolder folder;
  testing::write_text(folder / "file", "");
  const std::string error =
      testing::storage_error_of([&] { TensorBoardWriter writer(folder / "file/job"); });
  EXPECT_NE(error.find("choose another path"), std::string::npos) << error;
}

}  // namespace
}  // namespace zeroshard
