// The program that does the work of `zeroshard train`, `generate` and `env --measure`, on each rank. It
// links torch, which `zeroshard` itself does not, so that all else answers at once.
#include <cstdio>
#include <exception>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/train_arguments.h"
#include "zeroshard/comm/join.h"
#include "zeroshard/trainer/generate_text.h"
#include "zeroshard/trainer/measure_machine.h"
#include "zeroshard/trainer/train.h"

namespace zeroshard {
namespace {

int run(int argc, char** argv) {
  CLI::App app{"One rank of zeroshard train; start it through `zeroshard train`."};
  app.require_subcommand(1);
  TrainOptions train_options;
  GenerateOptions generate_options;
  CLI::App* const train_verb = app.add_subcommand("train", "Train");
  cli::add_train_options(*train_verb, train_options);
  CLI::App* const generate_verb = app.add_subcommand("generate", "Generate text");
  cli::add_generate_options(*generate_verb, generate_options);
  MeasureOptions measure_options;
  CLI::App* const measure_verb = app.add_subcommand("measure", "Measure the machine");
  measure_verb->add_option("--device", measure_options.device);
  measure_verb->add_flag("--json", measure_options.json);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (generate_verb->parsed()) return generate_text(generate_options);
  if (measure_verb->parsed()) return measure(measure_options);
  return train(train_options);
}

}  // namespace
}  // namespace zeroshard

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // so that lines keep their order among stderr's
  return zeroshard::rank_main([&] { return zeroshard::run(argc, argv); });
}
