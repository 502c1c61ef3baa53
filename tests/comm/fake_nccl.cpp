#include "tests/comm/fake_nccl.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "tests/support/fake_accelerator.h"
#include "zeroshard/base/check.h"
#include "zeroshard/base/half.h"

namespace zeroshard {
namespace {

using Result = NcclLibrary::Result;
using Access = FakeAccelerator::Access;

constexpr Device kFake = FakeAccelerator::device();
constexpr Result kInvalid = 4, kSystemError = 2;

constexpr int kUsualVersion = 22809;

std::atomic<int> alive_now = 0, aborted_ever = 0, failing_meeting = -1, failing_launches = -1;
std::atomic<int> hanging_kernels = -1, hanging_meeting = -1, wrong_sums = -1, wrong_gathers = -1;
std::atomic<int> failing_calls = -1;
std::atomic<int> version_now = kUsualVersion;

enum class Kind { gather, reduce, broadcast, send, recv };

struct Task {
  Kind kind = Kind::gather;
  const void* in = nullptr;
  void* out = nullptr;
  std::int64_t count = 0;
  int type = NcclLibrary::kBytes;
  int sum = 0;
  int peer = 0;  // or the root

  bool fits(const Task& other) const {
    return kind == other.kind && count == other.count && type == other.type &&
           (kind != Kind::broadcast || peer == other.peer);
  }
  bool is_collective() const { return kind != Kind::send && kind != Kind::recv; }
};
using Group = std::vector<Task>;

std::int64_t element_bytes(int type) {
  return type == NcclLibrary::kBytes ? 1 : type == NcclLibrary::kFp32 ? 4 : 2;
}

float load(const void* from, int type, std::int64_t i) {
  if (type == NcclLibrary::kFp32) return static_cast<const float*>(from)[i];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(from)[i];
  return type == NcclLibrary::kBf16 ? bf16_to_fp32(bits) : fp16_to_fp32(bits);
}

float rounded(float value, int type) {
  if (type == NcclLibrary::kFp32) return value;
  return type == NcclLibrary::kBf16 ? bf16_to_fp32(fp32_to_bf16(value))
                                    : fp16_to_fp32(fp32_to_fp16(value));
}

void store(float value, void* to, int type, std::int64_t i) {
  if (type == NcclLibrary::kFp32) {
    static_cast<float*>(to)[i] = value;
  } else {
    static_cast<std::uint16_t*>(to)[i] =
        type == NcclLibrary::kBf16 ? fp32_to_bf16(value) : fp32_to_fp16(value);
  }
}

// The device of one rank: kernels of NCCL's have it to themselves, whichever communicator's.
std::mutex& device_of_rank(int rank) {
  static std::array<std::mutex, 16> devices;
  return devices.at(static_cast<std::size_t>(rank));
}

// One group, as all ranks launch it.
struct Meeting {
  std::map<int, std::shared_ptr<const Group>> groups;  // by rank
  int done = 0;
};

struct Clique {
  explicit Clique(int of) : ranks(of) {}

  const int ranks;
  std::mutex mutex;
  std::condition_variable changed;
  int met = 0;
  int ended = 0;  // ranks that have destroyed or aborted their communicator, or never got one
  bool failed = false;
  std::map<std::uint64_t, Meeting> meetings;
};

struct FakeComm {
  std::shared_ptr<Clique> clique;
  int rank = 0;
  std::uint64_t next = 0;
  std::vector<float> factors;  // of sums: number 5 is factors[0]
  std::atomic<Result> state = NcclLibrary::kSuccess;
  std::atomic<int> answers_late = 0;  // so many questions are answered "in progress"
  std::atomic<bool> aborted = false;
  std::string last_error;
  std::function<void()> pending;  // a launch that waits until somebody has asked how it goes
};

FakeComm& comm_at(NcclLibrary::Comm comm) { return *static_cast<FakeComm*>(comm); }

std::mutex cliques_mutex;
std::map<std::string, std::shared_ptr<Clique>>& cliques() {
  static auto& all = *new std::map<std::string, std::shared_ptr<Clique>>;
  return all;
}

// What this thread has called since group_start().
struct OpenGroup {
  bool open = false;
  bool failed = false;
  FakeComm* comm = nullptr;
  void* stream = nullptr;
  Group tasks;
};
thread_local OpenGroup open_group;

const void* part(const void* data, std::int64_t bytes) {
  return static_cast<const std::byte*>(data) + bytes;
}

class Kernel {
 public:
  Kernel(FakeComm& comm, Group tasks)
      : clique_(comm.clique),
        comm_(comm),
        tasks_(std::make_shared<const Group>(std::move(tasks))),
        number_(comm.next++) {}

  void operator()() {
    const std::lock_guard device(device_of_rank(comm_.rank));
    if (hanging_kernels == comm_.rank) return wait_for_abort();
    if (!arrive()) return;
    for (std::size_t i = 0; i < tasks_->size(); ++i) work_on(i);
    leave();
  }

 private:
  bool arrive() {
    std::unique_lock lock(clique_->mutex);
    Meeting& meeting = clique_->meetings[number_];
    meeting.groups[comm_.rank] = tasks_;
    clique_->changed.notify_all();
    const auto all_here = [&] { return static_cast<int>(meeting.groups.size()) == clique_->ranks; };
    clique_->changed.wait(lock, [&] { return comm_.aborted || all_here(); });
    meeting_ = &meeting;
    return all_here();
  }

  void wait_for_abort() {
    std::unique_lock lock(clique_->mutex);
    clique_->changed.wait(lock, [&] { return comm_.aborted.load(); });
  }

  // Nobody's memory may be used again before all have read it.
  void leave() {
    std::unique_lock lock(clique_->mutex);
    ++meeting_->done;
    clique_->changed.notify_all();
    clique_->changed.wait(lock, [&] { return comm_.aborted || meeting_->done >= clique_->ranks; });
    if (++meeting_->done == 2 * clique_->ranks) clique_->meetings.erase(number_);
  }

  void work_on(std::size_t index) {
    const Task& mine = tasks_->at(index);
    if (!mine.is_collective()) {
      if (mine.kind == Kind::recv) receive(mine, index);
      return;
    }
    std::vector<const Task*> all;
    for (const auto& [rank, group] : meeting_->groups) {
      ZS_CHECK(index < group->size() && group->at(index).fits(mine), "ranks launch other kernels");
      all.push_back(&group->at(index));
    }
    switch (mine.kind) {
      case Kind::gather: return gather(mine, all);
      case Kind::reduce: return reduce(mine, all);
      default: return copy(mine.out, all[static_cast<std::size_t>(mine.peer)]->in, bytes(mine));
    }
  }

  static std::int64_t bytes(const Task& task) { return task.count * element_bytes(task.type); }

  static void copy(void* to, const void* from, std::int64_t bytes) {
    if (to == from || bytes == 0) return;
    FakeAccelerator& fake = FakeAccelerator::install();
    const Access write(fake, kFake, to, bytes), read(fake, kFake, from, bytes);
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }

  void gather(const Task& mine, const std::vector<const Task*>& all) const {
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const auto offset = static_cast<std::int64_t>(rank) * bytes(mine);
      copy(static_cast<std::byte*>(mine.out) + offset, all[rank]->in, bytes(mine));
    }
    if (wrong_gathers != comm_.rank) return;
    const Access write(FakeAccelerator::install(), kFake, mine.out, 1);
    *static_cast<std::byte*>(mine.out) ^= std::byte{1};
  }

  // A ring: the sum begins with the rank behind this one and is rounded at each step, so that its
  // bits are not those of a sum in rank order.
  void reduce(const Task& mine, const std::vector<const Task*>& all) const {
    FakeAccelerator& fake = FakeAccelerator::install();
    const float factor =
        mine.sum == 0 ? 1.0F : comm_.factors.at(static_cast<std::size_t>(mine.sum - 5));
    const auto ranks = static_cast<std::size_t>(clique_->ranks);
    const std::int64_t offset = comm_.rank * bytes(mine);
    std::vector<float> sums(static_cast<std::size_t>(mine.count));
    for (std::size_t step = 1; step <= ranks; ++step) {
      const std::size_t rank = (static_cast<std::size_t>(comm_.rank) + step) % ranks;
      const void* const from = part(all[rank]->in, offset);
      const Access read(fake, kFake, from, bytes(mine));
      for (std::int64_t i = 0; i < mine.count; ++i) {
        float& sum = sums[static_cast<std::size_t>(i)];
        sum = rounded(sum + rounded(load(from, mine.type, i) * factor, mine.type), mine.type);
      }
    }
    const Access write(fake, kFake, mine.out, bytes(mine));
    for (std::int64_t i = 0; i < mine.count; ++i) {
      store(sums[static_cast<std::size_t>(i)], mine.out, mine.type, i);
    }
    if (wrong_sums == comm_.rank) *static_cast<std::byte*>(mine.out) ^= std::byte{1};
  }

  // The peer's sends to this rank and this rank's receives from it meet in their order.
  void receive(const Task& mine, std::size_t index) const {
    const auto before = std::count_if(
        tasks_->begin(), tasks_->begin() + static_cast<std::ptrdiff_t>(index),
        [&](const Task& task) { return task.kind == Kind::recv && task.peer == mine.peer; });
    std::ptrdiff_t seen = 0;
    for (const Task& sent : *meeting_->groups.at(mine.peer)) {
      if (sent.kind != Kind::send || sent.peer != comm_.rank || seen++ != before) continue;
      ZS_CHECK_EQ(sent.count, mine.count, "a receive of another size than its send");
      return copy(mine.out, sent.in, bytes(mine));
    }
    ZS_CHECK(false, "a receive without its send");
  }

  const std::shared_ptr<Clique> clique_;
  FakeComm& comm_;
  const std::shared_ptr<const Group> tasks_;
  const std::uint64_t number_;
  Meeting* meeting_ = nullptr;
};

Result get_version(int* version) {
  *version = version_now;
  return NcclLibrary::kSuccess;
}

const char* get_error_string(Result result) {
  return result == NcclLibrary::kSuccess ? "no error" : "a fault that a test has made";
}

const char* get_last_error(NcclLibrary::Comm comm) {
  return comm == nullptr ? "" : comm_at(comm).last_error.c_str();
}

Result get_unique_id(NcclLibrary::Id* id) {
  static std::atomic<int> made = 0;
  const std::string text = "clique " + std::to_string(++made);
  std::copy(text.begin(), text.end(), id->bytes.begin());
  return NcclLibrary::kSuccess;
}

Result comm_init_rank_config(NcclLibrary::Comm* made, int ranks, NcclLibrary::Id id, int rank,
                             NcclLibrary::Config* config) {
  if (config->magic != 0xCAFEBEEF || config->blocking != 0) return kInvalid;
  // Kernels keep their communicator's memory: it is never freed, as there are few of them.
  static auto& all = *new std::vector<std::unique_ptr<FakeComm>>;
  auto made_here = std::make_unique<FakeComm>();
  FakeComm* const comm = made_here.get();
  {
    const std::lock_guard lock(cliques_mutex);
    all.push_back(std::move(made_here));
    std::shared_ptr<Clique>& clique = cliques()[id.bytes.data()];
    if (clique == nullptr) clique = std::make_shared<Clique>(ranks);
    comm->clique = clique;
  }
  comm->rank = rank;
  comm->state = NcclLibrary::kInProgress;
  const bool fails = failing_meeting == rank;
  if (fails) failing_meeting = -1;
  {
    const std::lock_guard lock(comm->clique->mutex);
    ++comm->clique->met;
    comm->clique->failed = comm->clique->failed || fails || hanging_meeting == rank;
  }
  if (fails) comm->state = kSystemError, comm->last_error = "no way to the other ranks";
  *made = comm;
  ++alive_now;
  return NcclLibrary::kInProgress;
}

Result comm_get_async_error(NcclLibrary::Comm comm, Result* result) {
  FakeComm& of = comm_at(comm);
  if (of.state == NcclLibrary::kInProgress) {
    const std::lock_guard lock(of.clique->mutex);
    if (of.clique->met == of.clique->ranks && !of.clique->failed) of.state = NcclLibrary::kSuccess;
  }
  *result = of.state;
  if (of.state == NcclLibrary::kSuccess && of.answers_late > 0) {
    --of.answers_late;
    *result = NcclLibrary::kInProgress;
  } else if (of.pending) {
    std::exchange(of.pending, nullptr)();
  }
  return NcclLibrary::kSuccess;
}

Result comm_finalize(NcclLibrary::Comm comm) {
  comm_at(comm).answers_late = 3;
  return NcclLibrary::kInProgress;
}

// As the real ones do on one host: whoever ends a communicator may wait for the others to do so.
void wait_until_all_end(Clique& clique) {
  std::unique_lock lock(clique.mutex);
  ++clique.ended;
  clique.changed.notify_all();
  clique.changed.wait_for(lock, std::chrono::seconds(8),
                          [&] { return clique.ended >= clique.met; });
}

Result comm_destroy(NcclLibrary::Comm comm) {
  wait_until_all_end(*comm_at(comm).clique);
  --alive_now;
  return NcclLibrary::kSuccess;
}

Result comm_abort(NcclLibrary::Comm comm) {
  FakeComm& of = comm_at(comm);
  {
    const std::lock_guard lock(of.clique->mutex);
    of.aborted = true;  // the other ranks' kernels go on waiting
  }
  of.clique->changed.notify_all();
  ++aborted_ever;
  wait_until_all_end(*of.clique);
  --alive_now;
  return NcclLibrary::kSuccess;
}

Result group_start() {
  ZS_CHECK(!open_group.open, "a group inside a group");
  open_group = {.open = true};
  return NcclLibrary::kSuccess;
}

Result group_end() {
  OpenGroup group = std::exchange(open_group, {});
  ZS_CHECK(group.open, "a group that was not started");
  if (group.failed) return kSystemError;  // and nothing of it is launched
  if (group.tasks.empty()) return NcclLibrary::kSuccess;
  if (failing_launches == group.comm->rank) {
    group.comm->state = kSystemError;
    group.comm->last_error = "the network has gone away";
    return kSystemError;
  }
  const auto launch = [stream = group.stream,
                       kernel = std::make_shared<Kernel>(*group.comm, std::move(group.tasks))] {
    FakeAccelerator::launch(stream, [kernel] { (*kernel)(); });
  };
  group.comm->answers_late = static_cast<int>(group.comm->next % 3);
  if (group.comm->answers_late == 0) {
    launch();
    return NcclLibrary::kSuccess;
  }
  group.comm->pending = launch;
  return NcclLibrary::kInProgress;
}

Result add(const Task& task, NcclLibrary::Comm comm, void* stream) {
  ZS_CHECK(open_group.open, "a call outside a group");
  if (comm_at(comm).state != NcclLibrary::kSuccess || comm_at(comm).pending) return kInvalid;
  if (failing_calls == comm_at(comm).rank && !open_group.tasks.empty()) {
    open_group.failed = true;
    comm_at(comm).last_error = "no memory for another channel";
    return kSystemError;
  }
  open_group.comm = &comm_at(comm);
  open_group.stream = stream;
  open_group.tasks.push_back(task);
  return NcclLibrary::kSuccess;
}

std::int64_t signed_count(std::size_t count) { return static_cast<std::int64_t>(count); }

Result all_gather(const void* in, void* out, std::size_t count, int type, NcclLibrary::Comm comm,
                  void* stream) {
  return add({Kind::gather, in, out, signed_count(count), type}, comm, stream);
}

Result reduce_scatter(const void* in, void* out, std::size_t count, int type, int sum,
                      NcclLibrary::Comm comm, void* stream) {
  return add({Kind::reduce, in, out, signed_count(count), type, sum}, comm, stream);
}

Result broadcast(const void* in, void* out, std::size_t count, int type, int root,
                 NcclLibrary::Comm comm, void* stream) {
  return add({Kind::broadcast, in, out, signed_count(count), type, 0, root}, comm, stream);
}

Result send(const void* in, std::size_t count, int type, int to, NcclLibrary::Comm comm,
            void* stream) {
  return add({Kind::send, in, nullptr, signed_count(count), type, 0, to}, comm, stream);
}

Result recv(void* out, std::size_t count, int type, int from, NcclLibrary::Comm comm,
            void* stream) {
  return add({Kind::recv, nullptr, out, signed_count(count), type, 0, from}, comm, stream);
}

Result red_op_create_pre_mul_sum(int* sum, void* factor, int type, int residence,
                                 NcclLibrary::Comm comm) {
  if (residence != NcclLibrary::kScalarOnHost) return kInvalid;
  FakeComm& of = comm_at(comm);
  of.factors.push_back(load(factor, type, 0));
  *sum = 4 + static_cast<int>(of.factors.size());
  return NcclLibrary::kSuccess;
}

}  // namespace

const NcclLibrary& FakeNccl::library() {
  static const NcclLibrary library{.get_version = get_version,
                                   .get_error_string = get_error_string,
                                   .get_last_error = get_last_error,
                                   .get_unique_id = get_unique_id,
                                   .comm_init_rank_config = comm_init_rank_config,
                                   .comm_get_async_error = comm_get_async_error,
                                   .comm_finalize = comm_finalize,
                                   .comm_destroy = comm_destroy,
                                   .comm_abort = comm_abort,
                                   .group_start = group_start,
                                   .group_end = group_end,
                                   .all_gather = all_gather,
                                   .reduce_scatter = reduce_scatter,
                                   .broadcast = broadcast,
                                   .send = send,
                                   .recv = recv,
                                   .red_op_create_pre_mul_sum = red_op_create_pre_mul_sum};
  return library;
}

int FakeNccl::alive() { return alive_now; }
int FakeNccl::aborted() { return aborted_ever; }
void FakeNccl::fail_meeting_of(int rank) { failing_meeting = rank; }
void FakeNccl::fail_launches_of(int rank) { failing_launches = rank; }
void FakeNccl::fail_second_calls_of(int rank) { failing_calls = rank; }
void FakeNccl::hang_kernels_of(int rank) { hanging_kernels = rank; }
void FakeNccl::hang_meeting_of(int rank) { hanging_meeting = rank; }
void FakeNccl::give_wrong_sums_to(int rank) { wrong_sums = rank; }
void FakeNccl::give_wrong_gathers_to(int rank) { wrong_gathers = rank; }
void FakeNccl::be_of_version(int code) { version_now = code; }

void FakeNccl::behave() {
  for (auto* const whose : {&failing_meeting, &failing_launches, &hanging_kernels, &hanging_meeting,
                            &wrong_sums, &wrong_gathers, &failing_calls}) {
    *whose = -1;
  }
  version_now = kUsualVersion;
}

void write_arrays_on_fake(Device device, const std::vector<ArrayWrite>& all) {
  FakeAccelerator& fake = FakeAccelerator::install();
  fake.launch(Stream::current(device), [all, &fake] {
    for (const ArrayWrite& each : all) {
      const Access write(fake, kFake, each.to, each.count * bytes_of(each.to_dtype));
      const Access read(fake, kFake, each.from, each.count * bytes_of(each.from_dtype));
      write_arrays(kCpu, {each});
    }
  });
}

}  // namespace zeroshard
