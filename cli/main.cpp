// `zeroshard`: parses, calls the library, ends with 0 (done), 1 (failed) or 2 (usage or config).
#include <cstdio>
#include <exception>

#include "cli/run.h"
#include "zeroshard/base/error.h"

int main(int argc, char** argv) {
  try {
    return zeroshard::cli::run(argc, argv);
  } catch (const zeroshard::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "[internal] %s; please report this\n", error.what());
    return 1;
  }
}
