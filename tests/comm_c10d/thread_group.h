// A torch.distributed backend whose ranks are threads of one process: sends and receives bytes
// through a postbox, as gloo does through sockets.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace zeroshard::testing {

// Letters by (from, to, tag).
class Postbox {
 public:
  using Letter = std::vector<char>;
  using Address = std::tuple<int, int, int>;

  void put(const Address& address, Letter letter) {
    const std::lock_guard lock(mutex_);
    letters_.emplace(address, std::move(letter));
    changed_.notify_all();
  }

  Letter take(const Address& address, std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    const auto here = [&] { return broken_ || letters_.contains(address); };
    if (!changed_.wait_for(lock, timeout, here)) throw std::runtime_error("timed out");
    if (broken_) throw std::runtime_error("connection closed by peer");
    const auto found = letters_.find(address);
    Letter letter = std::move(found->second);
    letters_.erase(found);
    return letter;
  }

  void close() {
    const std::lock_guard lock(mutex_);
    broken_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<Address, Letter> letters_;
  bool broken_ = false;
};

class SentWork : public c10d::Work {
 public:
  bool wait(std::chrono::milliseconds) override { return true; }
};

class ReceiveWork : public c10d::Work {
 public:
  ReceiveWork(std::shared_ptr<Postbox> box, Postbox::Address address, at::Tensor into)
      : box_(std::move(box)), address_(std::move(address)), into_(std::move(into)) {}

  bool wait(std::chrono::milliseconds timeout) override {
    const Postbox::Letter letter = box_->take(address_, timeout);
    if (letter.size() != into_.nbytes()) throw std::runtime_error("a letter of another size");
    std::memcpy(into_.mutable_data_ptr(), letter.data(), letter.size());
    return true;
  }

 private:
  const std::shared_ptr<Postbox> box_;
  const Postbox::Address address_;
  const at::Tensor into_;
};

class ThreadGroup : public c10d::Backend {
 public:
  ThreadGroup(int rank, int size, std::shared_ptr<Postbox> box)
      : Backend(rank, size), box_(std::move(box)) {}

  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int to, int tag) override {
    const auto* data = static_cast<const char*>(tensors.front().const_data_ptr());
    box_->put({getRank(), to, tag}, {data, data + tensors.front().nbytes()});
    return c10::make_intrusive<SentWork>();
  }
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int from,
                                      int tag) override {
    return c10::make_intrusive<ReceiveWork>(box_, Postbox::Address{from, getRank(), tag},
                                            tensors.front());
  }
  void abort() override { box_->close(); }

 private:
  const std::shared_ptr<Postbox> box_;
};

}  // namespace zeroshard::testing
