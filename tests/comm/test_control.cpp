// The control channel, its ranks being objects of one process. Ends of real processes are tested in
// tests/comm_mpi.
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "zeroshard/base/error.h"
#include "zeroshard/comm/control.h"
#include "zeroshard/comm/control_frame.h"

namespace zeroshard {
namespace {

using namespace std::chrono_literals;

constexpr ControlOptions kHere{.this_host_only = true, .patience = 5000ms};

// Rank 0 first. A rank "dies" when its end is closed without a goodbye.
std::vector<std::unique_ptr<ControlChannel>> ranks(int world_size) {
  std::vector<std::unique_ptr<ControlChannel>> channels;
  channels.push_back(std::make_unique<ControlChannel>(world_size, kHere));
  for (int rank = 1; rank < world_size; ++rank) {
    channels.push_back(std::make_unique<ControlChannel>(rank, channels[0]->address(), kHere));
  }
  channels[0]->wait_for_all();
  return channels;
}

RankStatus in_operation(std::uint64_t sequence, const std::string& label) {
  return {.tag = {.sequence = sequence,
                  .operation = Operation::all_gather,
                  .label = label,
                  .bytes = 1 << 20},
          .under_way = true,
          .any = true};
}

// Says hello as a rank and closes without another word.
void join_and_die(const ControlAddress& address, int rank) {
  ControlPeer peer(Socket::connect("127.0.0.1", address.port, 1000ms), address.token);
  ASSERT_TRUE(peer.open());
  peer.send(frame_of(FrameKind::hello, rank, {}));
  std::this_thread::sleep_for(50ms);
}

TEST(Control, AGoodbyeIsNoLoss) {
  auto all = ranks(4);
  all[2] = nullptr;
  EXPECT_FALSE(all[0]->board().wait_for_loss(400ms));
  EXPECT_FALSE(all[1]->board().lost());
  for (const int rank : {0, 1, 3})
    EXPECT_TRUE(all[static_cast<std::size_t>(rank)]->board().ended(2));
  EXPECT_FALSE(all[0]->board().ended(1));
}

TEST(Control, AnEndWithoutAWordIsKnownToAll) {
  ControlChannel hub(3, kHere);
  ControlChannel other(1, hub.address(), kHere);
  join_and_die(hub.address(), 2);
  hub.wait_for_all();
  for (ControlChannel* channel : {&hub, &other}) {
    const auto loss = channel->board().wait_for_loss(2000ms);
    ASSERT_TRUE(loss);
    EXPECT_EQ(loss->rank, 2);
    EXPECT_FALSE(loss->said_so);
  }
}

TEST(Control, AFailureSaysSo) {
  for (const int failing : {0, 2}) {
    auto all = ranks(3);
    all[static_cast<std::size_t>(failing)]->say_failed();
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == failing) continue;
      const auto loss = all[static_cast<std::size_t>(rank)]->board().wait_for_loss(2000ms);
      ASSERT_TRUE(loss);
      EXPECT_EQ(loss->rank, failing);
      EXPECT_TRUE(loss->said_so);
    }
  }
}

// Who ends because another has failed is not what the others should hear of.
TEST(Control, TheFirstLossCounts) {
  auto all = ranks(4);
  all[3]->say_failed();
  ASSERT_TRUE(all[1]->board().wait_for_loss(2000ms));
  all[1]->say_failed();
  all[1] = nullptr;
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(all[0]->board().loss()->rank, 3);
  EXPECT_EQ(all[2]->board().wait_for_loss(2000ms)->rank, 3);
}

TEST(Control, AnybodyMayAskWhereAllAre) {
  auto all = ranks(3);
  all[0]->board().note(in_operation(7, "block.1"));
  all[2]->board().note(in_operation(9, std::string(300, 'x')));  // longer than a frame
  std::this_thread::sleep_for(1200ms);                           // two pings
  for (const int asker : {0, 1, 2}) {
    const auto reports = all[static_cast<std::size_t>(asker)]->ask(2000ms);
    ASSERT_EQ(reports.size(), 3U);
    EXPECT_EQ(describe(reports[0].status), "in all_gather \"block.1\" (operation 7), 1.00 MiB");
    EXPECT_EQ(reports[2].rank, 2);
    EXPECT_EQ(reports[2].status.tag.sequence, 9U);
    EXPECT_EQ(reports[2].status.tag.label, std::string(211, 'x'));
    EXPECT_EQ(describe(reports[1].status), "before its first operation");
    EXPECT_LT(reports[1].silent_for, 1000ms);
  }
}

TEST(Control, NoAnswerFromASilentHub) {
  const Socket listener = Socket::listen(0, true);
  std::unique_ptr<ControlPeer> stopped;
  std::thread hub([&] {  // welcomes, and says nothing more
    Socket socket;
    while (!socket.open()) socket = listener.accept();
    stopped = std::make_unique<ControlPeer>(std::move(socket), 1);
    stopped->send({.kind = FrameKind::ping});
  });
  ControlChannel lonely(1, {.token = 1, .port = listener.port(), .hosts = {"127.0.0.1"}}, kHere);
  hub.join();
  EXPECT_TRUE(lonely.ask(200ms).empty());
}

TEST(Control, WhoIsMissingIsNamed) {
  ControlChannel hub(4, {.this_host_only = true, .patience = 200ms});
  const ControlChannel two(2, hub.address(), kHere);
  try {
    hub.wait_for_all();
    FAIL() << "nobody was missed";
  } catch (const CommError& error) {
    EXPECT_NE(std::string(error.what())
                  .find("not joined the control channel: 1, 3; rank 0 listens "
                        "at 127.0.0.1, port "),
              std::string::npos)
        << error.what();
  }
}

TEST(Control, AnUnreachableHubIsNamed) {
  const int port = Socket::listen(0, true).port();  // closed again
  try {
    const ControlChannel channel(1, {.token = 1, .port = port, .hosts = {"127.0.0.1"}},
                                 {.patience = 100ms});
    FAIL() << "reached";
  } catch (const CommError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("rank 1 on host "), std::string::npos) << text;
    EXPECT_NE(text.find("127.0.0.1, port " + std::to_string(port)), std::string::npos) << text;
  }
}

TEST(Control, ATakenPortIsNamed) {
  const Socket taken = Socket::listen(0, true);
  EXPECT_THROW(ControlChannel(2, {.this_host_only = true, .port = taken.port()}), CommError);
}

// A port scanner, another job, a confused rank: let in is who knows the token and is missing.
TEST(Control, StrangersAreNotLetIn) {
  auto all = ranks(2);
  std::mt19937 random(1);
  for (int i = 0; i < 50; ++i) {
    const Socket stranger = Socket::connect("127.0.0.1", all[0]->address().port, 1000ms);
    std::vector<unsigned char> noise(random() % 700);
    for (auto& byte : noise) byte = static_cast<unsigned char>(random());
    stranger.send(noise.data(), noise.size());
  }
  for (const int rank : {-1, 0, 1, 2, 1 << 30}) {  // the token, but not a missing rank
    join_and_die(all[0]->address(), rank);
  }
  EXPECT_FALSE(all[0]->board().wait_for_loss(300ms));
  EXPECT_EQ(all[1]->ask(2000ms).size(), 2U);
}

// What a rank may send once it is let in, nonsense included, must not bring rank 0 down.
TEST(Control, FramesOfNonsenseAreSurvived) {
  ControlChannel hub(2, kHere);
  std::mt19937_64 random(2);
  ControlPeer peer(Socket::connect("127.0.0.1", hub.address().port, 1000ms), hub.address().token);
  peer.send(frame_of(FrameKind::hello, 1, {}));
  for (int i = 0; i < 500; ++i) {
    ControlFrame frame;
    for (std::size_t at = 0; at < sizeof(frame); at += 8) {
      const std::uint64_t noise = random();
      std::memcpy(reinterpret_cast<std::byte*>(&frame) + at, &noise, 8);
    }
    if (frame.kind == FrameKind::failed) continue;  // which would be believed
    peer.send(frame);
  }
  hub.wait_for_all();
  EXPECT_EQ(hub.ask(2000ms).size(), 2U);
  EXPECT_FALSE(hub.board().lost());
}

}  // namespace
}  // namespace zeroshard
