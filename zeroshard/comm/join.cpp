#include "zeroshard/comm/join.h"

#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "zeroshard/base/error.h"
#include "zeroshard/base/launch.h"
#include "zeroshard/comm/connect_devices.h"
#include "zeroshard/comm/mpi.h"
#include "zeroshard/comm/single.h"

namespace zeroshard {
namespace {

// A program built with another MPI than mpirun's starts as many lone ranks as there should be.
void check_joined(const Communicator& comm, const Launch& launch) {
  if (comm.rank() == launch.rank && comm.world_size() == launch.world_size) return;
  throw ConfigError({.what = "MPI and its launcher do not agree",
                     .value = fmt::format("{} says rank {} of {}, MPI says rank {} of {}",
                                          name_of(launch.launcher), launch.rank, launch.world_size,
                                          comm.rank(), comm.world_size()),
                     .remedy = "use the mpirun of the MPI that ZeroShard was built with"});
}

void print_error(const char* text) {
  std::string who;
  try {
    const Launch launch = read_launch();
    if (launch.world_size > 1) who = fmt::format("rank {}: ", launch.rank);
  } catch (const ConfigError&) {
    // This may be the very error to print.
  }
  std::fprintf(stderr, "%s%s\n", who.c_str(), text);
  std::fflush(stderr);
}

}  // namespace

std::unique_ptr<Communicator> join_ranks(const CommOptions& options, Device device) {
  const Launch launch = read_launch();
  if (launch.world_size == 1) return make_single_communicator(device);
  if (launch.launcher == Launcher::torchrun) {
    throw ConfigError({.what = "ranks started by torchrun cannot be joined from C++ yet",
                       .value = fmt::format("rank {} of {}", launch.rank, launch.world_size),
                       .remedy = fmt::format("start the program with zeroshard run --ranks {}",
                                             launch.world_size)});
  }
  auto comm = make_mpi_communicator(options);
  check_joined(*comm, launch);
  if (device == kCpu) return comm;
  return connect_devices(std::move(comm), device, {.comm = options});
}

int rank_main(const std::function<int()>& body) {
  try {
    return body();
  } catch (const PeerError& echo) {
    // The first code to reach the launcher is the job's: it should be that of the rank that knows.
    std::this_thread::sleep_for(std::chrono::seconds(2));  // usually ended before
    return echo.exit_code();
  } catch (const Error& error) {
    print_error(error.what());
    return error.exit_code();
  } catch (...) {
    print_error(message_of(std::current_exception()).c_str());
    return 1;
  }
}

}  // namespace zeroshard
