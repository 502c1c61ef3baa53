// What `zeroshard checkpoint` prints.
#pragma once

#include <string>

#include "zeroshard/checkpoint/compare.h"
#include "zeroshard/checkpoint/state_files.h"
#include "zeroshard/checkpoint/verify.h"
#include "zeroshard/trainer/export_run.h"

namespace zeroshard::cli {

std::string inspect_text(const StateFiles& files);
std::string inspect_json(const StateFiles& files);

std::string verify_text(const StateFiles& files, const Verified& verified);
std::string verify_json(const StateFiles& files, const Verified& verified);

std::string export_text(const std::string& out, const ExportedRun& exported);
std::string export_json(const std::string& out, const ExportedRun& exported);

std::string diff_text(const StateFiles& first, const StateFiles& second,
                      const Comparison& comparison);
std::string diff_json(const StateFiles& first, const StateFiles& second,
                      const Comparison& comparison);

}  // namespace zeroshard::cli
