// The real library, where torch has brought it: it needs no GPU to be looked at.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "zeroshard/comm/nccl_library.h"

namespace zeroshard {
namespace {

TEST(NcclLibrary, TheRealOneHasAllThatIsCalled) {
  if (dlopen(ZEROSHARD_LIBNCCL, RTLD_LAZY | RTLD_LOCAL) == nullptr) {
    GTEST_SKIP() << "this torch has no NCCL: " << dlerror();
  }
  const NcclLibrary* const nccl = nccl_library();
  ASSERT_NE(nccl, nullptr) << missing_nccl();
  EXPECT_EQ(missing_nccl(), "");
  EXPECT_GE(nccl_version(), 21400);
  EXPECT_LT(nccl_version(), 100000) << "another way to count versions";
  // The numbers of results are those of its header.
  EXPECT_STREQ(nccl->get_error_string(NcclLibrary::kSuccess), "no error");
  EXPECT_STREQ(nccl->get_error_string(NcclLibrary::kInProgress), "NCCL operation in progress");
  NcclLibrary::Id id;
  const NcclLibrary::Result made = nccl->get_unique_id(&id);
  if (made == NcclLibrary::kSuccess) {
    EXPECT_NE(id.bytes, NcclLibrary::Id().bytes);
  }
}

}  // namespace
}  // namespace zeroshard
