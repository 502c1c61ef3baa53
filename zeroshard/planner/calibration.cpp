#include "zeroshard/planner/calibration.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <system_error>

#include <fmt/format.h>
#include <rapidjson/document.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>
#include <unistd.h>

#include "zeroshard/base/env.h"
#include "zeroshard/base/file_error.h"
#include "zeroshard/base/log.h"

namespace zeroshard {
namespace {

namespace fs = std::filesystem;

constexpr int kVersion = 2;  // 1: far_bytes were a rank's, not a network card's

bool same_setting(const MachineMeasurement& one, const MachineMeasurement& other) {
  return one.host == other.host && one.accelerator == other.accelerator &&
         one.ranks == other.ranks && one.threads == other.threads;
}

template <typename Number>
Number number_of(const rapidjson::Value& object, const char* name, Number otherwise) {
  const auto member = object.FindMember(name);
  if (member == object.MemberEnd() || !member->value.IsNumber()) return otherwise;
  return static_cast<Number>(member->value.GetDouble());
}

std::string text_of(const rapidjson::Value& object, const char* name) {
  const auto member = object.FindMember(name);
  if (member == object.MemberEnd() || !member->value.IsString()) return {};
  return {member->value.GetString(), member->value.GetStringLength()};
}

MachineMeasurement measurement_of(const rapidjson::Value& object) {
  MachineMeasurement one{
      .host = text_of(object, "host"),
      .date = text_of(object, "date"),
      .accelerator = number_of(object, "accelerator", 0) != 0,
      .ranks = std::max(1, number_of(object, "ranks", 1)),
      .threads = std::max(1, number_of(object, "threads", 1)),
      .device_memory_bytes = number_of(object, "device_memory_bytes", std::int64_t{0})};
  one.rates.device = text_of(object, "device");
  for (const NamedRate& rate : named_rates()) {
    const double value = number_of(object, std::string(rate.name).c_str(), 0.0);
    if (value > 0 && std::isfinite(value)) one.rates.*rate.member = {value, true};
  }
  // It was measured around the ranks of one host.
  if (one.rates.collective_seconds.measured) one.rates.measured_hops = one.ranks - 1;
  return one;
}

void write(const MachineMeasurement& one,
           rapidjson::PrettyWriter<rapidjson::StringBuffer>& writer) {
  const auto text = [&](const char* name, const std::string& value) {
    writer.Key(name);
    writer.String(value.c_str());
  };
  const auto whole = [&](const char* name, std::int64_t value) {
    writer.Key(name);
    writer.Int64(value);
  };
  writer.StartObject();
  text("host", one.host);
  text("date", one.date);
  text("device", one.rates.device);
  whole("accelerator", one.accelerator ? 1 : 0);
  whole("ranks", one.ranks);
  whole("threads", one.threads);
  whole("device_memory_bytes", one.device_memory_bytes);
  for (const NamedRate& rate : named_rates()) {
    const Rate& value = one.rates.*rate.member;
    if (!value.measured) continue;
    writer.Key(std::string(rate.name).c_str());
    writer.Double(value.value);
  }
  writer.EndObject();
}

}  // namespace

const std::vector<NamedRate>& named_rates() {
  static const std::vector<NamedRate> all{
      {"product_flops_16", "matrix products of 16-bit numbers", "FLOP/s", &Rates::product_flops_16},
      {"product_flops_32", "matrix products in fp32", "FLOP/s", &Rates::product_flops_32},
      {"device_bytes", "reading and writing the device's memory", "B/s", &Rates::device_bytes},
      {"host_update_bytes", "updates on the host (Adam)", "B/s", &Rates::host_update_bytes},
      {"copy_down_bytes", "copies from the device to the host", "B/s", &Rates::copy_down_bytes},
      {"copy_up_bytes", "copies from the host to the device", "B/s", &Rates::copy_up_bytes},
      {"near_bytes", "collectives within a host", "B/s", &Rates::near_bytes},
      {"far_bytes", "a network card, between hosts", "B/s", &Rates::far_bytes},
      {"operator_seconds", "beginning an operator", "s", &Rates::operator_seconds},
      {"collective_seconds", "beginning a collective", "s", &Rates::collective_seconds},
      {"near_hop_seconds", "a hop of it within a host", "s", &Rates::near_hop_seconds},
      {"far_hop_seconds", "a hop of it to the next host", "s", &Rates::far_hop_seconds},
  };
  return all;
}

Calibration Calibration::load(const fs::path& file) {
  Calibration all;
  std::ifstream in(file, std::ios::binary);
  if (file.empty() || !in) return all;
  const std::string text(std::istreambuf_iterator<char>(in), {});
  rapidjson::Document document;
  document.Parse<rapidjson::kParseIterativeFlag>(text.data(), text.size());
  const bool readable = !document.HasParseError() && document.IsObject() &&
                        number_of(document, "version", 0) == kVersion &&
                        document.HasMember("measurements") && document["measurements"].IsArray();
  if (!readable) {
    log_warning(
        "[plan] {} is not understood, and nothing in it is used; measure again with "
        "`zeroshard env --measure`",
        file.string());
    return all;
  }
  for (const auto& one : document["measurements"].GetArray()) {
    if (one.IsObject()) all.all_.push_back(measurement_of(one));
  }
  return all;
}

void Calibration::keep(const MachineMeasurement& measurement) {
  std::erase_if(all_, [&](const auto& one) { return same_setting(one, measurement); });
  all_.push_back(measurement);
}

std::optional<MachineMeasurement> Calibration::find(const std::string& host, bool accelerator,
                                                    int ranks) const {
  const MachineMeasurement* nearest = nullptr;
  for (const MachineMeasurement& one : all_) {
    if (one.host != host || one.accelerator != accelerator) continue;
    const auto far = [&](const MachineMeasurement& which) { return std::abs(which.ranks - ranks); };
    if (nearest == nullptr || far(one) <= far(*nearest)) nearest = &one;
  }
  if (nearest == nullptr) return std::nullopt;
  return *nearest;
}

void Calibration::save(const fs::path& file) const {
  rapidjson::StringBuffer buffer;
  rapidjson::PrettyWriter<rapidjson::StringBuffer> writer(buffer);
  writer.SetIndent(' ', 1);
  writer.StartObject();
  writer.Key("version");
  writer.Int(kVersion);
  writer.Key("measurements");
  writer.StartArray();
  for (const MachineMeasurement& one : all_) write(one, writer);
  writer.EndArray();
  writer.EndObject();

  std::error_code ignored;
  if (file.has_parent_path()) fs::create_directories(file.parent_path(), ignored);
  fs::path aside = file;
  aside += fmt::format(".{}", getpid());
  errno = 0;
  std::ofstream out(aside, std::ios::binary | std::ios::trunc);
  out << buffer.GetString() << '\n';
  out.close();
  if (!out || std::rename(aside.c_str(), file.c_str()) != 0) {
    const int error = errno;
    fs::remove(aside, ignored);
    throw file_error("what was measured cannot be kept", file, error);
  }
}

fs::path calibration_file() {
  if (const auto given = env_text(EnvVar::kCalibration)) return *given;
  const fs::path name = fs::path("zeroshard") / "machine.json";
  if (const auto cache = env_text(EnvVar::kCacheHome)) return fs::path(*cache) / name;
  if (const auto home = env_text(EnvVar::kHome)) return fs::path(*home) / ".cache" / name;
  return {};
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

Rates with_measured(Rates assumed, const Rates& measured) {
  for (const NamedRate& rate : named_rates()) {
    if ((measured.*rate.member).measured) assumed.*rate.member = measured.*rate.member;
  }
  if (measured.collective_seconds.measured) assumed.measured_hops = measured.measured_hops;
  if (!measured.device.empty()) assumed.device = measured.device;
  return assumed;
}

}  // namespace zeroshard
