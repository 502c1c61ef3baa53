// For destructors that use torch's operations. Python's collector runs them at any moment, inside a
// trace of torch.compile too, where modes stand between a call and its kernel and an operation on
// real memory throws.
#pragma once

#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace zeroshard {

// As long as it lives, operations of this thread go straight to their kernels.
class PlainDispatch {
 private:
  c10::impl::ForceDispatchKeyGuard no_modes_{c10::default_included_set,
                                             c10::default_excluded_set | c10::python_ks};
  c10::NoGradGuard no_grad_;
};

}  // namespace zeroshard
