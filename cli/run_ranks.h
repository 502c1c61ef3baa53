// The command line of the package's run_ranks.py, which starts the ranks of a Python program.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "zeroshard/base/error.h"
#include "zeroshard/base/launch.h"

namespace zeroshard::cli {

// A mistake in the words behind `zeroshard run`: exit code 2.
class RunError : public Error {
 public:
  explicit RunError(Fault fault) : Error("run", std::move(fault), 2) {}
};

struct RunRanksRequest {
  std::string python;     // path
  std::string run_ranks;  // path of run_ranks.py
  int ranks = 1;          // on this host
  int nodes = 1;
  int node_rank = 0;
  std::string master_addr;  // empty: this host
  int master_port = 0;      // 0: any that is free
  bool is_module = false;   // the command's first word is a module, not a file
  Launch launch;            // of several ranks: be this one of them
  std::vector<std::string> command;
};

std::vector<std::string> run_ranks_command(const RunRanksRequest& request);

}  // namespace zeroshard::cli
