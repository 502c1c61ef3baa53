#include "zeroshard/comm/mpi_link.h"

#include <atomic>
#include <chrono>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <mpi.h>

#include "zeroshard/base/check.h"
#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

void check_mpi(int code, const char* doing) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw CommError({.what = fmt::format("MPI failed in {}", doing),
                   .value = std::string(text, static_cast<std::size_t>(length))});
}

bool all_share_memory(MPI_Comm comm, int world_size) {
  MPI_Comm host = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host),
            "MPI_Comm_split_type");
  int on_host = 0;
  MPI_Comm_size(host, &on_host);
  MPI_Comm_free(&host);
  return on_host == world_size;
}

bool initialized() {
  int flag = 0;
  MPI_Initialized(&flag);
  return flag != 0;
}

// Returns whether MPI was begun here. FUNNELED will do when it was: this thread does everything.
bool initialize() {
  int level = MPI_THREAD_SINGLE;
  if (!initialized()) {
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread");
    return true;
  }
  MPI_Query_thread(&level);
  if (level >= MPI_THREAD_SERIALIZED) return false;
  throw ConfigError({.what = "the program has initialised MPI for its main thread only",
                     .remedy = "ask MPI_Init_thread for MPI_THREAD_SERIALIZED, or leave it to us"});
}

// Marks a call into MPI that may not come back.
class Inside {
 public:
  explicit Inside(std::atomic<std::int64_t>& since) : since_(since) {
    since_ = std::chrono::steady_clock::now().time_since_epoch().count();
  }
  ~Inside() { since_ = 0; }

 private:
  std::atomic<std::int64_t>& since_;
};

}  // namespace

struct MpiLink::State {
  std::atomic<std::int64_t> inside_since = 0;
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int world_size = 1;
  bool on_one_host = true;
  bool begun_here = false;
  // Two lists lie side by side: what MPI_Testsome wants, and whom to tell.
  std::vector<MPI_Request> requests = {};
  std::vector<Counters> counters = {};
  std::vector<bool> is_receive = {};
  std::vector<int> ended = {};

  void add(MPI_Request request, Counters whom, bool receives) {
    requests.push_back(request);
    counters.push_back(whom);
    is_receive.push_back(receives);
    ++*whom.group;
    ++*whom.with_peer;
  }

  void drop_ended() {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (requests[i] == MPI_REQUEST_NULL) continue;
      requests[kept] = requests[i];
      counters[kept] = counters[i];
      is_receive[kept++] = is_receive[i];
    }
    requests.resize(kept);
    counters.resize(kept);
    is_receive.resize(kept);
  }
};

MpiLink::MpiLink() : state_(std::make_unique<State>()) {
  state_->begun_here = initialize();
  // The communicator is our own: messages of the program's or of a library's cannot meet ours.
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &state_->comm), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(state_->comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(state_->comm, &state_->rank);
  MPI_Comm_size(state_->comm, &state_->world_size);
  state_->on_one_host = all_share_memory(state_->comm, state_->world_size);
}

MpiLink::~MpiLink() = default;

int MpiLink::rank() const { return state_->rank; }
int MpiLink::world_size() const { return state_->world_size; }
bool MpiLink::on_one_host() const { return state_->on_one_host; }

void MpiLink::broadcast(void* data, std::int64_t bytes) {
  check_mpi(MPI_Bcast(data, static_cast<int>(bytes), MPI_BYTE, 0, state_->comm), "MPI_Bcast");
}

void MpiLink::send(const void* data, std::int64_t bytes, Address to, Counters counters) {
  ZS_CHECK_LE(bytes, std::numeric_limits<int>::max(), "bytes of an MPI message");
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(
      MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to.peer, to.tag, state_->comm, &request),
      "MPI_Isend");
  state_->add(request, counters, false);
}

void MpiLink::receive(void* data, std::int64_t bytes, Address from, Counters counters) {
  ZS_CHECK_LE(bytes, std::numeric_limits<int>::max(), "bytes of an MPI message");
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, from.peer, from.tag, state_->comm,
                      &request),
            "MPI_Irecv");
  state_->add(request, counters, true);
}

std::chrono::milliseconds MpiLink::inside_for() const {
  const std::int64_t since = state_->inside_since;
  if (since == 0) return {};
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      now - std::chrono::steady_clock::duration(since));
}

int MpiLink::poll() {
  State& state = *state_;
  if (state.requests.empty()) return 0;
  const Inside inside(state.inside_since);
  const int posted = static_cast<int>(state.requests.size());
  state.ended.resize(state.requests.size());
  int count = 0;
  check_mpi(
      MPI_Testsome(posted, state.requests.data(), &count, state.ended.data(), MPI_STATUSES_IGNORE),
      "MPI_Testsome");
  if (count <= 0) return 0;
  for (int i = 0; i < count; ++i) {
    const Counters& whom = state.counters[static_cast<std::size_t>(state.ended[i])];
    --*whom.group;
    --*whom.with_peer;
    ++*whom.ended;
  }
  state.drop_ended();
  return count;
}

bool MpiLink::forget() {
  State& state = *state_;
  const Inside inside(state.inside_since);
  for (std::size_t i = 0; i < state.requests.size(); ++i) {
    if (state.is_receive[i]) MPI_Cancel(&state.requests[i]);
    int ended = 0;
    MPI_Test(&state.requests[i], &ended, MPI_STATUS_IGNORE);
  }
  state.drop_ended();
  return state.requests.empty();
}

void MpiLink::finish(std::chrono::milliseconds patience, const std::function<bool()>& in_vain) {
  if (!state_->begun_here) return;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  MPI_Request everybody = MPI_REQUEST_NULL;
  int came = 0;
  if (MPI_Ibarrier(state_->comm, &everybody) != MPI_SUCCESS) return;
  while (came == 0 && !in_vain() && std::chrono::steady_clock::now() < deadline) {
    if (MPI_Test(&everybody, &came, MPI_STATUS_IGNORE) != MPI_SUCCESS) return;
    if (came == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // MPI_Finalize waits for all without end, so it is for those who know that all are there.
  if (came != 0) MPI_Finalize();
}

}  // namespace zeroshard
