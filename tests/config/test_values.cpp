// Which spellings of a value are taken, and as what.

#include "tests/config/config_support.h"

namespace zeroshard::config {
namespace {

void expect_wrong(std::string_view path, std::string_view value, std::string_view code) {
  EXPECT_EQ(kinds_of_problems(nested(path, value)), (Lines{fmt::format("error {} {}", code, path)}))
      << value;
}

std::int64_t bucket(std::string_view value) {
  return good_config(nested("zero_optimization.reduce_bucket_size", value))
      .zero.reduce_bucket_numel;
}

TEST(Values, WholeNumbersMayBeWrittenAsFloats) {
  EXPECT_EQ(bucket("500000000"), 500'000'000);
  EXPECT_EQ(bucket("5e8"), 500'000'000);
  EXPECT_EQ(bucket("5E+8"), 500'000'000);
  EXPECT_EQ(bucket("500000000.0"), 500'000'000);
  EXPECT_EQ(bucket("1e16"), 10'000'000'000'000'000);
  EXPECT_EQ(bucket("2e-0"), 2);
  EXPECT_EQ(bucket("9223372036854775807"), 9'223'372'036'854'775'807);
  EXPECT_EQ(bucket("9007199254740993"), 9'007'199'254'740'993) << "no detour over a double";
}

TEST(Values, FractionsAndNumbersBeyond64BitsAreNoIntegers) {
  for (const char* value : {"1.5", "1e-3", "1e30", "-1e30", "9223372036854775808"}) {
    expect_wrong("zero_optimization.reduce_bucket_size", value, "wrong_type");
  }
  expect_wrong("zero_optimization.stage", "4294967298", "wrong_type");
}

TEST(Values, DigitsInAStringAreANumberInTypedSectionsOnly) {
  EXPECT_EQ(bucket("\"500000000\""), 500'000'000);
  EXPECT_EQ(good_config(nested("zero_optimization.stage", "\"3\"")).zero.stage, 3);
  expect_wrong("zero_optimization.reduce_bucket_size", "\"5e8\"", "wrong_type");
  expect_wrong("zero_optimization.reduce_bucket_size", "\"\"", "wrong_type");
  expect_wrong("zero_optimization.reduce_bucket_size", "\" 5\"", "wrong_type");
}

// What a value is read as, and the one warning about it.
struct Odd {
  const char* path;
  const char* value;
  const char* shown;
  const char* what;
  const char* remedy;
};

TEST(Values, OddFormsThatDeepSpeedTakesAreTakenWithAWarning) {
  const std::vector<Odd> odd{
      {"gradient_clipping", "\"1.0\"", "1", "a number in quotes", "write 1.0"},
      {"gradient_clipping", "true", "1", "read as 1", "write a number"},
      {"steps_per_print", "\"10\"", "10", "a number in quotes", "write 10"},
      {"train_batch_size", "\"8\"", "8", "a number in quotes", "write 8"},
      {"prescale_gradients", "\"true\"", "true", "text, which counts as true", "write true"},
      {"fp16.min_loss_scale", "0.5", "1", "read as 1", "write a whole number"},
  };
  for (const Odd& row : odd) {
    const std::string text = nested(row.path, row.value);
    const Problem problem = only_problem(text);
    EXPECT_EQ(problem.severity, Severity::warning) << text;
    EXPECT_EQ(problem.code, Code::odd_value) << text;
    EXPECT_EQ(problem.what, row.what) << text;
    EXPECT_EQ(problem.remedy, row.remedy) << text;
    EXPECT_EQ(explained(read_config(text), row.path).value, row.shown) << text;
  }
}

TEST(Values, ZeroAndOneAreBooleansEverywhere) {
  EXPECT_TRUE(good_config(nested("prescale_gradients", "1")).precision.prescale_gradients);
  EXPECT_FALSE(good_config(nested("prescale_gradients", "0")).precision.prescale_gradients);
  good_config(nested("zero_allow_untested_optimizer", "1"));
  const Config config =
      good_config(R"({"optimizer": {"type": "Adam", "params": {"bias_correction": 0}}})");
  EXPECT_FALSE(std::get<AdamOptions>(*config.optimizer).bias_correction);
}

TEST(Values, LogLevelsAreReadInAnyCase) {
  EXPECT_EQ(good_config(nested("log_level", "\"ERROR\"")).monitor.log_level, "error");
  EXPECT_EQ(good_config(nested("log_level", "\"Info\"")).monitor.log_level, "info");
}

TEST(Values, InfinityIsTakenWhereItSaysSomething) {
  for (const char* infinity : {"\"inf\"", "Infinity", "inf", "\"Infinity\""}) {
    const Config never = good_config(nested("steps_per_print", infinity));
    EXPECT_EQ(never.monitor.steps_per_print, 9'223'372'036'854'775'807) << infinity;
    const Config unclipped = good_config(nested("gradient_clipping", infinity));
    EXPECT_EQ(unclipped.precision.gradient_clipping, 0.0) << infinity;
  }
  expect_wrong("fp16.loss_scale", "\"inf\"", "wrong_type");
  expect_wrong("steps_per_print", "\"-inf\"", "wrong_type");
}

TEST(Values, NotANumberIsRefusedWhereverItStands) {
  for (const char* path : {"gradient_clipping", "fp16.loss_scale", "steps_per_print",
                           "zero_optimization.reduce_bucket_size", "zeroshard.comm_timeout"}) {
    for (const char* nan : {"NaN", "nan", "\"nan\""}) expect_wrong(path, nan, "wrong_type");
  }
}

TEST(Values, AWrongTypeIsToldTheRange) {
  EXPECT_EQ(only_problem(nested("zero_optimization.stage", "[0, 1]")).what,
            "expected an integer from 0 to 3");
  EXPECT_EQ(only_problem(nested("zero_optimization.stage", "1e30")).what,
            "expected a whole number below 2^63");
  EXPECT_EQ(only_problem(nested("steps_per_print", "1.5")).what,
            "expected an integer of at least 1");
}

TEST(Values, APlaceholderIsCalledThat) {
  for (const char* value : {"\"{{ batch }}\"", "\"${BATCH}\"", "\"$BATCH\"", "\"<batch size>\""}) {
    const Problem problem = only_problem(nested("train_batch_size", value));
    EXPECT_EQ(problem.what, "a template's placeholder") << value;
    EXPECT_EQ(problem.remedy, "fill the template in first") << value;
  }
}

TEST(Values, ABooleanIsNoNumberAndASectionNoScalar) {
  expect_wrong("train_batch_size", "true", "wrong_type");
  expect_wrong("fp16.loss_scale", "true", "wrong_type");
  expect_wrong("train_batch_size", "[8]", "wrong_type");
  expect_wrong("train_batch_size", "{\"of\": 8}", "wrong_type");
  expect_wrong("tensorboard.job_name", "5", "wrong_type");
}

TEST(Values, BooleansAreCoercedInTypedSections) {
  const auto overflow_checked = [](std::string_view value) {
    return good_config(nested("bf16.check_grad_overflow", value))
        .precision.bf16.check_grad_overflow;
  };
  for (const char* yes : {"true", "1", "\"true\"", "\"True\"", "\"1\"", "\"yes\"", "\"on\""}) {
    EXPECT_TRUE(good_config(nested("fp16.enabled", yes)).precision.fp16.enabled) << yes;
  }
  for (const char* no : {"false", "0", "\"false\"", "\"False\"", "\"0\"", "\"no\"", "\"off\""}) {
    EXPECT_FALSE(overflow_checked(no)) << no;
  }
  for (const char* neither : {"2", "-1", "\"maybe\"", "\"\"", "[]", "{}"}) {
    expect_wrong("fp16.enabled", neither, "wrong_type");
  }
}

// To Python, and so to DeepSpeed, the text "false" is true.
TEST(Values, FalseInQuotesIsRefusedWhereDeepSpeedWouldTakeItForTrue) {
  for (const char* value : {"\"false\"", "\"0\"", "\"no\"", "\"\"", "2"}) {
    expect_wrong("wall_clock_breakdown", value, "wrong_type");
    expect_wrong("prescale_gradients", value, "wrong_type");
  }
  EXPECT_TRUE(good_config(nested("wall_clock_breakdown", "true")).monitor.wall_clock_breakdown);
}

TEST(Values, NumbersMayBeWholeOrNot) {
  const auto clip = [](std::string_view value) {
    return good_config(nested("gradient_clipping", value)).precision.gradient_clipping;
  };
  EXPECT_EQ(clip("1"), 1.0);
  EXPECT_EQ(clip("0.25"), 0.25);
  EXPECT_EQ(clip("2.5E-1"), 0.25);
  EXPECT_EQ(clip("0"), 0.0);
  expect_wrong("gradient_clipping", "-0.5", "out_of_range");
}

struct Bound {
  const char* path;
  Lines inside;
  Lines outside;
};

TEST(Values, RangesHoldAtTheirEnds) {
  const std::vector<Bound> bounds{
      {"train_batch_size", {"1"}, {"0", "-1"}},
      {"train_micro_batch_size_per_gpu", {"1"}, {"0"}},
      {"gradient_accumulation_steps", {"1"}, {"0"}},
      {"gradient_predivide_factor", {"0.001"}, {"0", "-1"}},
      {"zero_optimization.stage", {"0", "1", "2", "3"}, {"-1", "4"}},
      {"zero_optimization.reduce_bucket_size", {"1"}, {"0", "-1"}},
      {"zero_optimization.offload_optimizer.ratio", {"0", "1", "0.3"}, {"-0.1", "1.1"}},
      {"fp16.loss_scale", {"0", "128"}, {"-1"}},
      {"fp16.initial_scale_power", {"0", "32"}, {"-1"}},
      {"fp16.loss_scale_window", {"1"}, {"-1"}},
      {"fp16.hysteresis", {"1"}, {"0"}},
      {"fp16.min_loss_scale", {"1"}, {"-1"}},
  };
  for (const Bound& bound : bounds) {
    for (const auto& value : bound.inside) good_config(nested(bound.path, value));
    for (const auto& value : bound.outside) expect_wrong(bound.path, value, "out_of_range");
  }
  expect_wrong("fp16.min_loss_scale", "1.5", "wrong_type");
}

TEST(Values, DtypesHaveAllTheirNames) {
  const std::vector<std::pair<DType, Lines>> names{
      {DType::fp16, {"fp16", "float16", "half", "torch.float16"}},
      {DType::fp32, {"fp32", "float32", "float", "torch.float32"}},
      {DType::bf16, {"bf16", "bfloat16", "torch.bfloat16"}}};
  for (const auto& [dtype, spellings] : names) {
    for (const std::string& name : spellings) {
      const Config config = good_config(nested("communication_data_type", '"' + name + '"'));
      EXPECT_EQ(config.precision.communication_data_type, dtype) << name;
    }
  }
  for (const char* wrong : {"\"fp8\"", "\"int8\"", "\"\"", "16", "\"fp\"", "\"none\""}) {
    expect_wrong("communication_data_type", wrong, "wrong_type");
  }
}

TEST(Values, BetasAreTwoNumbersBelowOne) {
  const auto file = [](std::string_view betas) {
    return fmt::format(R"({{"optimizer": {{"type": "AdamW", "params": {{"betas": {}}}}}}})", betas);
  };
  const Config config = good_config(file("[0.8, 0]"));
  EXPECT_EQ(std::get<AdamOptions>(*config.optimizer).betas, (std::array<double, 2>{0.8, 0.0}));
  for (const char* wrong : {"[0.9]", "[0.9, 0.99, 0.999]", "0.9", "[0.9, 1]", "[-0.1, 0.9]", "[]",
                            "[0.9, true]", "[0.9, [0.99]]"}) {
    EXPECT_EQ(kinds_of_problems(file(wrong)), (Lines{"error wrong_type optimizer.params.betas"}))
        << wrong;
  }
}

TEST(Values, NumbersInStringsAreNoOptimizerOrScheduleParameters) {
  EXPECT_EQ(kinds_of_problems(R"({"optimizer": {"type": "Adam", "params": {"lr": "0.001"}}})"),
            (Lines{"error wrong_type optimizer.params.lr"}));
  EXPECT_EQ(kinds_of_problems(
                R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": "5"}}})"),
            (Lines{"error wrong_type scheduler.params.warmup_num_steps"}));
}

TEST(Values, ChoicesAreExact) {
  const char* device = "zero_optimization.offload_optimizer.device";
  EXPECT_EQ(read_config(nested(device, "\"cpu\"")).config.offload.optimizer, Tier::host);
  EXPECT_EQ(good_config(nested(device, "\"none\"")).offload.optimizer, Tier::device);
  for (const char* wrong : {"\"gpu\"", "true", "\"\"", "\"cpu \""}) {
    expect_wrong(device, wrong, "wrong_type");
  }
  expect_wrong("log_level", "\"loud\"", "wrong_type");
}

TEST(Values, WhoMeansAutoIsToldSo) {
  const auto remedy_of = [](const char* stage) {
    const auto read = read_config(nested("zero_optimization.stage", stage));
    return read.report.problems().at(0).remedy;
  };
  EXPECT_EQ(remedy_of("\"autos\""), "did you mean \"auto\"?");
  EXPECT_EQ(remedy_of("\"Auto\""), "did you mean \"auto\"?");
  EXPECT_EQ(remedy_of("\"third\""), "the default is 0");
}

TEST(Values, TagValidationIsReadInAnyCase) {
  const auto validation = [](std::string_view value) {
    return good_config(nested("checkpoint.tag_validation", value)).checkpoint.tag_validation;
  };
  EXPECT_EQ(validation("\"FAIL\""), TagValidation::fail);
  EXPECT_EQ(validation("\"Ignore\""), TagValidation::ignore);
  EXPECT_EQ(validation("\"warn\""), TagValidation::warn);
  expect_wrong("checkpoint.tag_validation", "\"Never\"", "wrong_type");
}

TEST(Values, SizesAndDurationsHaveUnits) {
  const Config config =
      read_config(
          R"({"zeroshard": {"device_budget": "10GiB", "host_budget": 4096, "comm_timeout": "90s"}})")
          .config;
  EXPECT_EQ(config.zero.device_budget_bytes, 10LL << 30);
  EXPECT_EQ(config.zero.host_budget_bytes, 4096);
  EXPECT_EQ(config.comm.timeout, std::chrono::seconds(90));
  expect_wrong("zeroshard.device_budget", "\"10 apples\"", "wrong_type");
  expect_wrong("zeroshard.device_budget", "-1", "wrong_type");
  expect_wrong("zeroshard.comm_timeout", "\"soon\"", "wrong_type");
  expect_wrong("zeroshard.comm_timeout", "true", "wrong_type");
}

TEST(Values, NullIsAsIfTheKeyWereAbsent) {
  const ReadResult read = read_config(R"({
    "train_batch_size": null, "gradient_clipping": null, "optimizer": null, "scheduler": null,
    "fp16": {"enabled": null}, "bf16": null, "checkpoint": {"writer": null},
    "zero_optimization": {"stage": null, "reduce_bucket_size": null, "sub_group_size": null,
                          "offload_optimizer": null, "offload_param": {"nvme_path": null},
                          "zenflow": null, "zeropp_loco_param": null}})");
  EXPECT_TRUE(read.report.problems().empty());
  EXPECT_TRUE(read.provenance.empty());
  EXPECT_EQ(read.config.zero.reduce_bucket_numel, 500'000'000);
  EXPECT_EQ(read.config.precision.gradient_clipping, 1.0);
  EXPECT_FALSE(read.config.optimizer);
}

}  // namespace
}  // namespace zeroshard::config
