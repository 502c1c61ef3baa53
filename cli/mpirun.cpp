#include "cli/mpirun.h"

namespace zeroshard::cli {
namespace {

// For both Open MPI 4 and 5; a parameter that one of them does not know does no harm.
const std::vector<std::string>& fixed_options() {
  static const std::vector<std::string> options = {
      // Containers run as root and have fewer cores than ranks; threads go where they like.
      "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
      // Ranks say themselves what went wrong. (Open MPI 5 refuses --quiet.)
      "--mca", "orte_execute_quiet", "1", "--mca", "btl_base_warn_peer_error", "0",
      // Ranks that must end, must end now: the default of 1 s is spent twice.
      "--mca", "odls_base_sigkill_timeout", "0",
      // Containers often forbid reading another process's memory; that fails only when it is tried.
      "--mca", "btl_vader_single_copy_mechanism", "none"};
  return options;
}

void append(std::vector<std::string>& words, std::initializer_list<std::string> more) {
  words.insert(words.end(), more);
}

}  // namespace

std::vector<std::string> mpirun_command(const MpirunRequest& request) {
  std::vector<std::string> words{request.mpirun};
  words.insert(words.end(), fixed_options().begin(), fixed_options().end());
  if (!request.hostfile.empty()) {
    append(words, {"--hostfile", request.hostfile});
    for (const std::string& name : request.exports) append(words, {"-x", name});
  }
  append(words, {"-n", std::to_string(request.ranks), request.guardian, "guard"});
  if (request.one_stream) words.emplace_back("--one-stream");
  words.insert(words.end(), request.command.begin(), request.command.end());
  return words;
}

}  // namespace zeroshard::cli
