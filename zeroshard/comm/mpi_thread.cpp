#include "zeroshard/comm/mpi_thread.h"

#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include "zeroshard/base/error.h"
#include "zeroshard/comm/mpi_control.h"

namespace zeroshard {
namespace {

// mpirun stops all ranks when one ends in failure. The others have run into the same one at about
// the same time; this lets them say so.
constexpr std::chrono::milliseconds kForOthersToSpeak{1000};
// In one call that never waits.
constexpr std::chrono::milliseconds kStuck{300};

// Open MPI writes to connections whose other end may be gone; that must not end this process.
void block_broken_pipe_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

// After a TCP peer's end Open MPI 4.1 may stay in one call for ever, complaining all the time. The
// calls' memory is MPI's then, so no exception can be thrown to who would free it.
void end_where_mpi_does_not_return(const MpiLink& link, const ControlChannel& channel) {
  if (!channel.board().lost() || link.inside_for() < kStuck) return;
  try {
    if (const auto error = loss_seen_in(channel.board().status().tag, channel.board())) {
      std::rethrow_exception(error);
    }
  } catch (const PeerError&) {  // that rank says it itself
  } catch (const Error& error) {
    const std::string text = fmt::format("rank {}: {}\n", link.rank(), error.what());
    [[maybe_unused]] const auto ignored = write(STDERR_FILENO, text.data(), text.size());
  }
  std::_Exit(1);
}

// Never destroyed: where std::exit() overtakes a communicator, its work still runs on the thread.
struct EndsMpi {
  MpiThread* thread;
  ~EndsMpi() { thread->end(); }
};

}  // namespace

MpiThread& MpiThread::of_process() {
  static const EndsMpi process{new MpiThread};
  return *process.thread;
}

MpiThread::MpiThread() : thread_([this] { run(); }) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return link_ != nullptr || start_failure_ != nullptr; });
  if (!start_failure_) return;
  lock.unlock();
  thread_.join();
  std::rethrow_exception(start_failure_);
}

void MpiThread::begin(Work work) {
  {
    const std::lock_guard lock(mutex_);
    if (work_) {
      throw StateError({.what = "this process has an MPI communicator already",
                        .remedy = "destroy it before you make another"});
    }
    if (patience_ == kBroken) {
      throw StateError({.what = "communication over MPI has failed in this process",
                        .remedy = "start the program again"});
    }
    work_ = std::move(work);
  }
  changed_.notify_all();
}

void MpiThread::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !work_; });
  if (!ending_) return;
  // A communicator in a global variable, made before ours: end() has passed, and left this to it.
  lock.unlock();
  thread_.join();
}

void MpiThread::end() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    if (work_) return;  // its communicator comes to wait(), or std::exit() has overtaken it
  }
  changed_.notify_all();
  thread_.join();
}

void MpiThread::run() {
  block_broken_pipe_signal();
  try {
    auto link = std::make_unique<MpiLink>();
    auto channel = open_control_channel(*link);
    if (channel) {
      channel->set_watch([link = link.get(), channel = channel.get()] {
        end_where_mpi_does_not_return(*link, *channel);
      });
    }
    const std::lock_guard lock(mutex_);
    link_ = std::move(link);
    channel_ = std::move(channel);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    start_failure_ = std::current_exception();
  }
  changed_.notify_all();
  if (link_ == nullptr) return;
  work_until_the_end();
  leave();
}

void MpiThread::leave() {
  if (patience_ == kBroken) {
    if (channel_) channel_->say_failed();
    return std::this_thread::sleep_for(kForOthersToSpeak);
  }
  if (channel_) channel_->say_goodbye();
  link_->finish(patience_, [this] { return channel_ && channel_->board().lost(); });
  channel_ = nullptr;
}

void MpiThread::work_until_the_end() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return work_ || ending_; });
    if (!work_) return;
    lock.unlock();
    const std::chrono::milliseconds patience = work_(*link_);
    lock.lock();
    patience_ = patience;
    work_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace zeroshard
