// All that we say to MPI, so that one source knows mpi.h. Used by the MPI thread alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace zeroshard {

class MpiLink {
 public:
  // Initialises MPI, unless the program already has.
  MpiLink();
  ~MpiLink();
  MpiLink(const MpiLink&) = delete;
  MpiLink& operator=(const MpiLink&) = delete;

  int rank() const;
  int world_size() const;
  bool on_one_host() const;

  // Sends from rank 0 to all, and blocks: it is for the time before there is a communicator.
  void broadcast(void* data, std::int64_t bytes);

  // Who is at the other end. Messages with one peer and tag arrive in the order they were
  // posted.
  struct Address {
    int peer;
    int tag;
  };
  // Counters that go up when a message is posted and down when it is through. They and the
  // message's memory must stay until then, or until forget().
  struct Counters {
    int* group;
    int* with_peer;
    std::int64_t* ended;  // goes up when a message is through
  };
  void send(const void* data, std::int64_t bytes, Address to, Counters counters);
  void receive(void* data, std::int64_t bytes, Address from, Counters counters);

  // Moves things on; returns how many messages got through. Throws CommError if MPI reports one.
  int poll();
  // The answer says how long that call has not come back; 0 outside of one. Any thread may
  // ask.
  std::chrono::milliseconds inside_for() const;

  // Gives up what was posted. False if MPI still holds on to some of the memory: then it must not
  // be called again, lest it writes where other things are by now.
  bool forget();

  // Ends MPI if all ranks come to it in time, and if it was begun here. Without this, mpirun takes
  // the process's end for a failure and stops the others. `in_vain`: somebody will never come.
  void finish(std::chrono::milliseconds patience, const std::function<bool()>& in_vain);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zeroshard
