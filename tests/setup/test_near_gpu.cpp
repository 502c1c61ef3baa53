// Which CPUs are near which GPU, on machines that are made of files.
#include <string>

#include <gtest/gtest.h>

#include "tests/setup/made_up_machine.h"
#include "zeroshard/setup/near_gpu.h"

namespace zeroshard::test {
namespace {

const CpuSet kAll = cpus_in_list("0-31");

std::string near(const MadeUpMachine& machine, int gpu, const CpuSet& mask = kAll) {
  return list_of_cpus(near_cpus(read_places(machine.root()), gpu_bus(gpu), mask));
}

// Sixteen cores of two threads each, half of them at each of two memories.
void add_two_sockets(const MadeUpMachine& machine) {
  machine.add_node(0, "0-7,16-23", "10 21");
  machine.add_node(1, "8-15,24-31", "21 10");
}

TEST(NearGpu, EachNodeOfTwoHasItsGpus) {
  for (const int gpus : {2, 4, 8}) {
    SCOPED_TRACE(gpus);
    const MadeUpMachine machine;
    add_two_sockets(machine);
    for (int gpu = 0; gpu < gpus; ++gpu) machine.add_gpu(gpu_bus(gpu), gpu < gpus / 2 ? 0 : 1);
    for (int gpu = 0; gpu < gpus; ++gpu) {
      EXPECT_EQ(near(machine, gpu), gpu < gpus / 2 ? "0-7,16-23" : "8-15,24-31") << gpu;
    }
  }
}

// Whoever uses one GPU of many leaves the other node to the others; the only GPU has all.
TEST(NearGpu, TheOnlyGpuOfAMachineHasAllItsCpus) {
  const MadeUpMachine machine;
  add_two_sockets(machine);
  machine.add_gpu(gpu_bus(0), 1);
  EXPECT_EQ(near(machine, 0), "0-31");
  machine.add_gpu(gpu_bus(1), 0);
  EXPECT_EQ(near(machine, 0), "8-15,24-31");
}

TEST(NearGpu, OneNodeIsNearAllGpus) {
  const MadeUpMachine machine;
  machine.add_node(0, "0-31");
  for (int gpu = 0; gpu < 8; ++gpu) machine.add_gpu(gpu_bus(gpu), 0);
  for (int gpu = 0; gpu < 8; ++gpu) EXPECT_EQ(near(machine, gpu), "0-31");
}

// As a server whose sockets are cut in halves, GPUs at one half of each.
TEST(NearGpu, ANodeWithoutGpusBelongsToTheNearestThatHaveSome) {
  const MadeUpMachine machine;
  machine.add_node(0, "0-7", "10 12 32 32");
  machine.add_node(1, "8-15", "12 10 32 32");
  machine.add_node(2, "16-23", "32 32 10 12");
  machine.add_node(3, "24-31", "32 32 12 10");
  machine.add_gpu(gpu_bus(0), 1);
  machine.add_gpu(gpu_bus(1), 3);
  EXPECT_EQ(near(machine, 0), "0-15");
  EXPECT_EQ(near(machine, 1), "16-31");
}

TEST(NearGpu, WithoutDistancesOtherNodesAreEquallyFar) {
  const MadeUpMachine machine;
  machine.add_node(0, "0-7");
  machine.add_node(1, "8-15");
  machine.add_node(2, "16-31");
  machine.add_gpu(gpu_bus(0), 0);
  machine.add_gpu(gpu_bus(1), 1);
  EXPECT_EQ(near(machine, 0), "0-7,16-31");
  EXPECT_EQ(near(machine, 1), "8-31");
}

TEST(NearGpu, AMaskThatSomebodyHasSetIsNeverWidened) {
  const MadeUpMachine machine;
  add_two_sockets(machine);
  machine.add_gpu(gpu_bus(0), 0);
  machine.add_gpu(gpu_bus(1), 1);
  EXPECT_EQ(near(machine, 0, {4, 5, 6, 9}), "4-6");
  EXPECT_EQ(near(machine, 1, {4, 5, 6, 9}), "9");
  EXPECT_EQ(near(machine, 1, {4, 5, 6}), "4-6") << "none of them is near";
}

TEST(NearGpu, WhatTheKernelDoesNotSayChangesNothing) {
  const MadeUpMachine nothing;
  EXPECT_EQ(near(nothing, 0), "0-31");
  EXPECT_FALSE(knows_place(read_places(nothing.root()), gpu_bus(0)));
  const MadeUpMachine machine;
  add_two_sockets(machine);
  machine.add_gpu(gpu_bus(0), 1);
  machine.add_gpu(gpu_bus(1), -1);
  machine.add_gpu(gpu_bus(2), 7);  // a node that is not there
  const MachinePlaces places = read_places(machine.root());
  EXPECT_TRUE(knows_place(places, gpu_bus(0)));
  for (const int gpu : {1, 2, 3}) {
    EXPECT_FALSE(knows_place(places, gpu_bus(gpu))) << gpu;
    EXPECT_EQ(near(machine, gpu), "0-31") << gpu;
  }
  EXPECT_FALSE(knows_place(places, ""));
}

TEST(NearGpu, OtherDevicesAreNoGpus) {
  const MadeUpMachine machine;
  add_two_sockets(machine);
  machine.add_gpu(gpu_bus(0), 0);
  machine.add_gpu(gpu_bus(1), 1, "0x040300");                           // its sound
  machine.add_device(gpu_bus(2), 1, "0x030000", "0x1a03");              // the board's display
  machine.write("sys/bus/pci/devices/0000:99:00.0/class", "0x030200");  // and no other file
  EXPECT_EQ(near(machine, 0), "0-31");
  EXPECT_EQ(read_places(machine.root()).gpu_nodes.size(), 1U);
}

TEST(NearGpu, FilesOfNonsenseAreAsIfTheyWereNotThere) {
  const MadeUpMachine machine;
  machine.add_node(0, "what", "x 10");
  machine.add_node(1, "8-15", "");
  machine.write("sys/devices/system/node/nodes/cpulist", "0-31");
  machine.add_gpu(gpu_bus(0), 0);
  EXPECT_EQ(read_places(machine.root()).nodes.size(), 2U);
  EXPECT_EQ(near(machine, 0), "8-15");
  EXPECT_EQ(near(machine, 0, {1, 2}), "1-2");
}

TEST(NearGpu, NodesAndCoresAreReadByTheirNumbers) {
  const MadeUpMachine machine;
  for (int node = 0; node < 12; ++node) machine.add_node(node, std::to_string(node));
  machine.add_gpu(gpu_bus(0), 10);
  machine.add_gpu(gpu_bus(1), 2);
  machine.add_cores(3);
  const MachinePlaces places = read_places(machine.root());
  EXPECT_EQ(places.gpu_nodes.at(gpu_bus(0)), 10U);
  EXPECT_EQ(places.cores, (std::vector<CpuSet>{{0, 3}, {1, 4}, {2, 5}}));
}

TEST(NearGpu, ABusIsNamedAsTheKernelNamesIt) {
  EXPECT_EQ(bus_name("0000:3B:00.0"), "0000:3b:00.0");
  EXPECT_EQ(bus_name("00000000:AF:00.0"), "0000:af:00.0");
  EXPECT_EQ(bus_name("00010000:AF:00.0"), "10000:af:00.0");
  EXPECT_EQ(bus_name("0001:00:00.0"), "0001:00:00.0");
  EXPECT_EQ(bus_name(""), "");
}

}  // namespace
}  // namespace zeroshard::test
