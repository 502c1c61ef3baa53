#include <gtest/gtest.h>
TEST(EngineAccount, Builds) { SUCCEED(); }
