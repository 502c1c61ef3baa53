// `zeroshard env`: what is read from the machine's files, what is printed, and the command itself.
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include "cli/env_parse.h"
#include "cli/env_report.h"
#include "cli/print_env.h"
#include "tests/support/run_program.h"

namespace zeroshard::cli {
namespace {

using Words = std::vector<std::string>;

test::Finished env(const std::string& arguments) {
  return test::run_program(ZEROSHARD_BINARY, "env " + arguments);
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "missing: " << part << "\nin: " << text;
}

TEST(EnvParse, CpuModelCountAndFlags) {
  const Cpu cpu = parse_cpuinfo(
      "processor\t: 0\nmodel name\t: Some CPU @ 2.80GHz\nflags\t\t: fpu sse avx2 f16c fma\n\n"
      "processor\t: 1\nmodel name\t: Some CPU @ 2.80GHz\nflags\t\t: fpu sse avx2 f16c fma\n");
  EXPECT_EQ(cpu.model, "Some CPU @ 2.80GHz");
  EXPECT_EQ(cpu.online, 2);
  EXPECT_EQ(cpu.instruction_sets, (Words{"avx2", "fma", "f16c"}));
  EXPECT_EQ(cpu.optimizer_kernels, "avx2");
}

TEST(EnvParse, AnArmCpuHasNoModelAndOtherFlags) {
  const Cpu cpu = parse_cpuinfo("processor\t: 0\nFeatures\t: fp asimd sve bf16\n");
  EXPECT_EQ(cpu.model, "unknown");
  EXPECT_EQ(cpu.instruction_sets, (Words{"asimd", "sve", "bf16"}));
  EXPECT_EQ(cpu.optimizer_kernels, "scalar");
}

TEST(EnvParse, KernelsNeedAllOfTheirInstructionSets) {
  Words flags{"avx2", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512dq"};
  EXPECT_EQ(optimizer_kernels(flags), "avx512");
  flags.pop_back();
  EXPECT_EQ(optimizer_kernels(flags), "avx2");
  EXPECT_EQ(optimizer_kernels({"avx2"}), "scalar");
}

TEST(EnvParse, MeminfoInBytesAndCounts) {
  auto info = parse_meminfo("MemTotal:  24 kB\nHugePages_Total:   7\nHugepagesize: 2048 kB\nodd\n");
  EXPECT_EQ(info["MemTotal"], 24 * 1024);
  EXPECT_EQ(info["HugePages_Total"], 7);
  EXPECT_EQ(info["Hugepagesize"], 2 << 20);
  EXPECT_EQ(info.size(), 3U);
  EXPECT_EQ(chosen_word("always [madvise] never\n"), "madvise");
  EXPECT_EQ(chosen_word(""), std::nullopt);
}

TEST(EnvParse, CgroupFoldersOfBothVersions) {
  EXPECT_EQ(memory_cgroups("0::/user/a\n"),
            (Words{"/sys/fs/cgroup", "/sys/fs/cgroup/user", "/sys/fs/cgroup/user/a"}));
  EXPECT_EQ(memory_cgroups("4:hugetlb,memory:/job\n3:cpu:/x\n"),
            (Words{"/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/job"}));
  EXPECT_EQ(memory_cgroups("0::/../outside\n"), Words{"/sys/fs/cgroup"});
}

TEST(EnvParse, GpusOfNvidiaSmi) {
  const auto gpus = parse_nvidia_smi(
      "NVIDIA H200, 00000000:03:00.0, 570.86.15, 143771\nNVIDIA X, 00000000:04:00.0, 570, [N/A]\n");
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[0].name, "NVIDIA H200");
  EXPECT_EQ(gpus[0].bus, "00000000:03:00.0");
  EXPECT_EQ(gpus[0].driver, "570.86.15");
  EXPECT_EQ(gpus[0].memory_bytes, std::int64_t{143771} << 20);
  EXPECT_EQ(gpus[1].memory_bytes, std::nullopt);
  EXPECT_TRUE(parse_nvidia_smi("No devices were found\n").empty());
}

TEST(EnvParse, GpusOfTheDriver) {
  const Gpu gpu = parse_gpu_information(
      "Model: \t\t NVIDIA A100-SXM4-40GB\nIRQ:   \t\t 44\nBus Location: \t 0000:07:00.0\n");
  EXPECT_EQ(gpu.name, "NVIDIA A100-SXM4-40GB");
  EXPECT_EQ(gpu.bus, "0000:07:00.0");
  EXPECT_EQ(parse_driver_version("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat "
                                 "Aug 19\nGCC version:  gcc version 12.2.0\n"),
            "535.104.05");
  EXPECT_EQ(parse_driver_version(""), "");
}

TEST(EnvParse, LibrariesOfTheLoader) {
  const std::string text =
      "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibtorch_cpu.so => /opt/a b/libtorch_cpu.so (0x00007f)\n"
      "\t/lib64/ld-linux-x86-64.so.2 (0x00007f5a)\n";
  EXPECT_EQ(library_path(text, "libtorch_cpu.so"), "/opt/a b/libtorch_cpu.so");
  EXPECT_EQ(library_path(text, "libmpi.so.40"), std::nullopt);
}

TEST(EnvParse, Versions) {
  EXPECT_EQ(parse_torch_version("from typing import Optional\n\n__version__ = '2.11.0+cu130'\n"),
            "2.11.0+cu130");
  EXPECT_EQ(parse_torch_version("2.4.1+cpu\n"), "2.4.1+cpu");
  EXPECT_EQ(parse_torch_version("debug = False\n"), "");
  EXPECT_EQ(parse_torch_version(""), "");
  EXPECT_EQ(parse_mpirun_version("mpirun (Open MPI) 4.1.4\n\nReport bugs\n"), "Open MPI 4.1.4");
  EXPECT_EQ(parse_mpirun_version("HYDRA build details:\n"), "");
}

// A machine that nothing is wrong with.
EnvReport good_machine() {
  return {.built = {"0.1.0", "abc", "2.11.0", "13.0", "Open MPI 4.1.4", "13.0.88"},
          .torch = {"/bin/train", "/opt/libtorch_cpu.so", "2.11.0", ""},
          .gpus = {{"NVIDIA H200", "0:3", "570", std::int64_t{140} << 30}},
          .cpu = {"CPU", 64, 64, std::nullopt, 64, {"avx2", "f16c"}, "avx2"},
          .memory = {std::int64_t{512} << 30, std::int64_t{500} << 30, std::nullopt},
          .limits = {.shm_total_bytes = std::int64_t{64} << 30,
                     .shm_free_bytes = std::int64_t{63} << 30,
                     .transparent_huge_pages = "madvise"},
          .mpirun = "Open MPI 4.1.4",
          .backends = {{"single", true, "one rank"}, {"mpi", false, "built without MPI"}},
          .variables = {{"ZEROSHARD_LOG", "debug"}, {"NCCL_DEBUG", std::nullopt}}};
}

struct Trouble {
  const char* says;
  void (*cause)(EnvReport& report);
};

class EnvWarnings : public testing::TestWithParam<Trouble> {};

TEST_P(EnvWarnings, OneSentenceForOneCause) {
  EnvReport report = good_machine();
  EXPECT_EQ(warnings_of(report), Words{});
  GetParam().cause(report);
  const Words warnings = warnings_of(report);
  ASSERT_EQ(warnings.size(), 1U) << testing::PrintToString(warnings);
  expect_contains(warnings[0], GetParam().says);
  expect_contains(env_text_page(report), "\nwarning    " + warnings[0] + "\n");
}

INSTANTIATE_TEST_SUITE_P(
    Env, EnvWarnings,
    testing::Values(
        Trouble{"only 8.00 MiB may be locked", [](auto& r) { r.limits.memlock_bytes = 8 << 20; }},
        Trouble{"/dev/shm has only 64.00 MiB",
                [](auto& r) { r.limits.shm_total_bytes = 64 << 20; }},
        Trouble{"no /dev/shm", [](auto& r) { r.limits.shm_total_bytes.reset(); }},
        Trouble{"only 256 files", [](auto& r) { r.limits.open_files = 256; }},
        Trouble{"huge pages are off", [](auto& r) { r.limits.transparent_huge_pages = "never"; }},
        Trouble{"set OMP_NUM_THREADS=2", [](auto& r) { r.cpu.usable = 2; }},
        Trouble{"OMP_NUM_THREADS=65 is more than the 64 usable CPUs",
                [](auto& r) {
                  r.variables.push_back({"OMP_NUM_THREADS", "65"});
                }},
        Trouble{"neither AVX2 nor AVX-512", [](auto& r) { r.cpu.optimizer_kernels = "scalar"; }},
        Trouble{"torch 2.12.0 would be loaded", [](auto& r) { r.torch.version = "2.12.0"; }},
        Trouble{"no libtorch to load: gone",
                [](auto& r) { r.torch.library = "", r.torch.problem = "gone"; }},
        Trouble{"built without torch", [](auto& r) { r.built.torch = "none"; }},
        Trouble{"built without CUDA", [](auto& r) { r.built.torch_cuda = "none"; }},
        Trouble{"no mpirun on the PATH", [](auto& r) { r.mpirun = ""; }},
        Trouble{"but mpirun is Open MPI 5.0.1", [](auto& r) { r.mpirun = "Open MPI 5.0.1"; }},
        Trouble{"did you mean ZEROSHARD_LOG?", [](auto& r) {
                  r.variables.push_back({"ZEROSHARD_LGO", std::nullopt});
                }}));

TEST(EnvWarnings, WhatDoesNotHurtIsNotSaid) {
  EnvReport report = good_machine();
  report.gpus.clear();
  report.limits.memlock_bytes = 8 << 20;  // without a GPU nothing is pinned
  report.mpirun = "Open MPI 4.1.6";
  report.cpu.usable = 2;
  report.variables.push_back({"OMP_NUM_THREADS", std::nullopt});  // somebody has thought of it
  EXPECT_EQ(warnings_of(report), Words{});
}

TEST(EnvPage, ShowsWhatIsThere) {
  const std::string page = env_text_page(good_machine());
  for (const char* part :
       {"zeroshard  0.1.0 (commit abc)\n", "built with torch 2.11.0 for CUDA 13.0\n",
        "libtorch   2.11.0, /opt/libtorch_cpu.so\n",
        "GPUs       NVIDIA H200, 140.00 GiB, bus 0:3, driver 570\n", "64 usable: 64 online",
        "optimizer  avx2 kernels on 64 threads\n", "memory     512.00 GiB, 500.00 GiB available\n",
        "           mpi     no: built without MPI\n", "locked memory unlimited\n",
        "variables  ZEROSHARD_LOG=debug\n           NCCL_DEBUG is set\n"}) {
    expect_contains(page, part);
  }
}

TEST(EnvVerb, JsonHasAllKeys) {
  const test::Finished finished = env("--json");
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  rapidjson::Document document;
  document.Parse(finished.out.c_str());
  ASSERT_FALSE(document.HasParseError()) << finished.out;
  for (const char* key : {"version", "commit", "built_with", "libtorch", "gpus", "cpu", "memory",
                          "backends", "limits", "variables", "warnings"}) {
    EXPECT_TRUE(document.HasMember(key)) << key;
  }
  EXPECT_GE(document["cpu"]["usable"].GetInt(), 1);
  EXPECT_GT(document["memory"]["total_bytes"].GetInt64(), 1 << 20);
  EXPECT_EQ(document["backends"].Size(), 3U);
}

TEST(EnvVerb, ReadsTheEnvironment) {
  const test::Finished finished = test::run_program(
      "/usr/bin/env",
      "ZEROSHARD_LOG=error ZEROSHARD_LGO=1 NCCL_DEBUG=INFO " ZEROSHARD_BINARY " env");
  ASSERT_EQ(finished.exit_code, 0) << finished.err;
  expect_contains(finished.out, "ZEROSHARD_LOG=error\n");
  expect_contains(finished.out, "NCCL_DEBUG is set\n");
  expect_contains(finished.out, "warning    ");
  expect_contains(finished.out, "did you mean ZEROSHARD_LOG?\n");
}

// Programs are asked for their libraries and never started: a shell here would say so.
TEST(EnvVerb, LooksIntoAProgramWithoutStartingIt) {
  expect_contains(env("--program " ZEROSHARD_BINARY).out, "is not linked to libtorch");
  const test::TemporaryFile script("#!/bin/sh\necho started\n");
  ASSERT_EQ(test::run_program("/bin/chmod", "+x " + script.path()).exit_code, 0);
  const test::Finished finished = env("--program " + script.path());
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  expect_contains(finished.out, "is no dynamically linked program");
  EXPECT_EQ(finished.out.find("started"), std::string::npos);
}

TEST(EnvVerb, AProgramThatIsNotThereIsRefused) {
  const test::Finished finished = env("--program /nowhere/train");
  EXPECT_EQ(finished.exit_code, 2);
  expect_contains(finished.err, "no such program: /nowhere/train");
}

}  // namespace
}  // namespace zeroshard::cli
