// The same arithmetic in every thread, whatever a library has done to it.
#pragma once

namespace zeroshard {

// While it lives, this thread rounds to nearest, and treats subnormals as said. Without it results
// would depend on which thread did what: a library built with fast math switches subnormals off in
// the thread that loads it, and torch can when asked to, but not in our workers.
class FloatEnvironment {
 public:
  enum class Subnormals {
    kept,  // IEEE 754
    zero,  // read and written as zero, where the CPU can (x86)
  };

  explicit FloatEnvironment(Subnormals subnormals);
  ~FloatEnvironment();
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
  const unsigned saved_;
};

}  // namespace zeroshard
