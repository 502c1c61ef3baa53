#include <gtest/gtest.h>
TEST(EngineGraph, Builds) { SUCCEED(); }
