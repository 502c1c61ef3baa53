// The mpirun command that starts ranks as ZeroShard wants them.
#pragma once

#include <string>
#include <vector>

namespace zeroshard::cli {

struct MpirunRequest {
  std::string mpirun = "mpirun";
  int ranks = 1;
  std::string hostfile = {};              // empty: this host alone
  std::vector<std::string> exports = {};  // names of variables that other hosts get too
  std::string guardian = {};              // this program's file
  bool one_stream = false;                // all that a rank says on its standard error
  std::vector<std::string> command = {};
};

// Pure: the words of the command line.
std::vector<std::string> mpirun_command(const MpirunRequest& request);

}  // namespace zeroshard::cli
