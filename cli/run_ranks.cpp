#include "cli/run_ranks.h"

#include <initializer_list>

namespace zeroshard::cli {

std::vector<std::string> run_ranks_command(const RunRanksRequest& request) {
  // It needs no installed package, and starts in half the time without looking for any.
  std::vector<std::string> words{request.python, "-E", "-S", request.run_ranks};
  const auto add = [&](std::initializer_list<std::string> more) {
    words.insert(words.end(), more);
  };
  const Launch& launch = request.launch;
  if (launch.world_size > 1) {
    add({"--join", std::to_string(launch.rank), std::to_string(launch.world_size),
         std::to_string(launch.local_rank)});
  } else {
    add({"--ranks", std::to_string(request.ranks)});
    if (request.nodes > 1) {
      add({"--nnodes", std::to_string(request.nodes), "--node_rank",
           std::to_string(request.node_rank)});
    }
  }
  if (!request.master_addr.empty()) add({"--master_addr", request.master_addr});
  if (request.master_port != 0) add({"--master_port", std::to_string(request.master_port)});
  if (request.is_module) add({"--module"});
  words.insert(words.end(), request.command.begin(), request.command.end());
  return words;
}

}  // namespace zeroshard::cli
