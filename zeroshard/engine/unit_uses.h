// The uses of units that autograd's graphs hold, and which of them the backward under way
// differentiates. A graph may be kept and never be differentiated, or be differentiated twice. So a
// backward counts the uses whose nodes are in its graph task, and no others.
//
//   const UnitUses::Id use = uses.begin(unit);   // a forward that leaves a graph
//   uses.add_node(use, output.grad_fn().get());
//   uses.enter_task(nodes);                      // a backward begins
//   uses.end(use);                               // its part in that backward is over
//   uses.forget(use);                            // its graph is gone
//
// Graphs are destroyed at any time and by any thread. So this class has a lock of its own, and
// calls nobody while it holds it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_set>
#include <vector>

namespace torch::autograd {
struct Node;
}

namespace zeroshard {

class UnitUses {
 public:
  using Node = torch::autograd::Node;
  using Nodes = std::unordered_set<Node*>;

  struct Id {
    std::size_t unit = 0;
    std::uint64_t number = 0;
  };

  explicit UnitUses(std::size_t units) : uses_(units) {}

  Id begin(std::size_t unit);
  // A node that runs whenever the use is differentiated, until it is destroyed. A use that never
  // had one has no graph yet, because backward will compute it again; it counts for every backward.
  // One whose nodes are all gone counts for none.
  void add_node(const Id& use, const Node* node);
  void remove_node(const Id& use, const Node* node);
  // No input of the use needs a gradient, so nothing tells when its backward is over: it is over
  // when the gradients of all its parameters are here.
  void end_by_gradients(const Id& use);
  void end(const Id& use);
  void forget(const Id& use);

  // A backward begins, of these nodes. Without a set every use counts.
  void enter_task(const Nodes* nodes);
  void leave_task();

  // The rest is about the backward under way.
  int in_task(std::size_t unit) const;  // uses that belong to it
  int awaited(std::size_t unit) const;  // of these, the ones that have not ended
  // Whether it differentiates the unit, and no use of it tells when it is over.
  bool ends_by_gradients(std::size_t unit) const;

  // Parameters have changed. Whether they have since the use began tells is_outdated().
  void note_update();
  bool is_outdated(const Id& use) const;

 private:
  struct Use {
    std::uint64_t number = 0;
    std::uint64_t updates = 0;  // that parameters had had when it began
    std::vector<const Node*> nodes = {};
    bool had_nodes = false;
    bool by_gradients = false;
    bool in_task = false;
    bool ended = false;  // in this task
  };

  static bool belongs_to(const Use& use, const Nodes* nodes);
  Use* find(const Id& id);
  template <typename Which>
  int count(std::size_t unit, const Which& which) const;

  mutable std::mutex mutex_;
  std::vector<std::vector<Use>> uses_;  // by unit
  std::uint64_t next_number_ = 0;
  std::uint64_t updates_ = 0;
  bool task_entered_ = false;
};

}  // namespace zeroshard
