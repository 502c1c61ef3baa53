// Units split into flat groups, and totals of a model.
#include <map>

#include <gtest/gtest.h>

#include "tests/layout/limits.h"
#include "tests/layout/random_cases.h"
#include "zeroshard/base/error.h"
#include "zeroshard/layout/unit_layout.h"

namespace zeroshard {
namespace {

TEST(ParameterShape, NumelIsTheProduct) {
  EXPECT_EQ((ParameterShape{"scalar", {}}).numel(), 1);
  EXPECT_EQ((ParameterShape{"matrix", {3, 5, 7}}).numel(), 105);
  EXPECT_EQ((ParameterShape{"empty", {kMax, kMax, 0}}).numel(), 0);
  EXPECT_THROW((ParameterShape{"negative", {3, -1}}).numel(), InvariantError);
  EXPECT_THROW((ParameterShape{"negative", {0, -1}}).numel(), InvariantError);
  EXPECT_THROW((ParameterShape{"huge", {kMax, 2}}).numel(), InvariantError);
}

TEST(UnitLayout, GroupsByDTypeAndTrainabilityInOrderOfAppearance) {
  const UnitLayout unit("h.0",
                        {{"a", {10}, DType::bf16, true},
                         {"b", {20}, DType::fp32, true},
                         {"c", {30}, DType::bf16, false},
                         {"d", {40}, DType::bf16, true}},
                        2);
  ASSERT_EQ(unit.groups().size(), 3u);
  EXPECT_EQ(unit.groups()[0].parameters, (std::vector<std::size_t>{0, 3}));
  EXPECT_EQ(unit.groups()[1].parameters, (std::vector<std::size_t>{1}));
  EXPECT_EQ(unit.groups()[2].parameters, (std::vector<std::size_t>{2}));
  EXPECT_EQ(unit.groups()[0].layout, FlatLayout({10, 40}, 2));
  EXPECT_EQ(unit.groups()[1].dtype, DType::fp32);
  EXPECT_FALSE(unit.groups()[2].trainable);
  EXPECT_EQ(unit.locate(3).group, 0u);
  EXPECT_EQ(unit.locate(3).index, 1u);
}

TEST(UnitLayout, TotalsOfASmallUnit) {
  const UnitLayout unit("u", {{"w", {10}, DType::bf16, true}, {"f", {200}, DType::fp32, false}}, 3);
  // Padded to 192 and 384; shards of 64 and 128; 384 bytes round up to 512, 128 to 256.
  const LayoutTotals expected = {.numel = 210,
                                 .padded_numel = 576,
                                 .shard_numel = 192,
                                 .trainable_numel = 10,
                                 .trainable_padded_numel = 192,
                                 .trainable_shard_numel = 64,
                                 .gathered_bytes = 512 + 1536,
                                 .shard_bytes = 256 + 512};
  EXPECT_EQ(unit.totals(), expected);
  EXPECT_EQ(unit.groups()[0].gathered_offset_bytes, 0);
  EXPECT_EQ(unit.groups()[1].gathered_offset_bytes, 512);
}

TEST(UnitLayout, WithoutParameters) {
  const UnitLayout unit("nothing", {}, 4);
  EXPECT_TRUE(unit.groups().empty());
  EXPECT_EQ(unit.totals(), LayoutTotals{});
}

TEST(UnitLayout, RefusesBadArguments) {
  EXPECT_THROW(UnitLayout("u", {{"w", {1}}, {"w", {2}}}, 2), InvariantError);
  EXPECT_THROW(UnitLayout("u", {}, 0), InvariantError);
  EXPECT_THROW(UnitLayout("u", {{"w", {-1}}}, 2), InvariantError);
  EXPECT_THROW(UnitLayout("u", {{"w", {kMax / 2}}}, 1), InvariantError);  // fits, its bytes do not
  EXPECT_THROW(UnitLayout("u", {{"w", {1}}}, 2).locate(1), InvariantError);
}

std::vector<ParameterShape> random_shapes(testing::Random& random) {
  static constexpr DType kDTypes[] = {DType::fp32, DType::bf16, DType::fp16};
  std::vector<ParameterShape> shapes;
  for (const std::int64_t numel : testing::random_numels(random, 1'000'000)) {
    shapes.push_back({"p" + std::to_string(shapes.size()),
                      {numel},
                      kDTypes[random.between(0, 2)],
                      random.chance(70)});
  }
  return shapes;
}

TEST(UnitLayout, EveryParameterIsInTheOneGroupThatFitsIt) {
  testing::for_each_case(250, [](testing::Random& random, const std::string& trace) {
    SCOPED_TRACE(trace);
    const std::vector<ParameterShape> shapes = random_shapes(random);
    const UnitLayout unit("u", shapes, random.world_size());
    std::map<std::size_t, int> times;
    std::int64_t offset = 0;
    for (std::size_t g = 0; g < unit.groups().size(); ++g) {
      const FlatGroup& group = unit.groups()[g];
      ASSERT_EQ(group.gathered_offset_bytes % 256, 0);
      ASSERT_GE(group.gathered_offset_bytes, offset);
      offset = group.gathered_offset_bytes + group.layout.padded_numel() * bytes_of(group.dtype);
      for (std::size_t i = 0; i < group.parameters.size(); ++i) {
        const std::size_t parameter = group.parameters[i];
        ASSERT_EQ(shapes[parameter].dtype, group.dtype);
        ASSERT_EQ(shapes[parameter].trainable, group.trainable);
        ASSERT_EQ(group.layout.parameter_span(i).size(), shapes[parameter].dims[0]);
        ASSERT_EQ(unit.locate(parameter).group, g);
        ASSERT_EQ(unit.locate(parameter).index, i);
        ++times[parameter];
      }
    }
    ASSERT_LE(offset, unit.totals().gathered_bytes);
    ASSERT_EQ(times.size(), shapes.size());
    for (const auto& [parameter, count] : times) ASSERT_EQ(count, 1) << parameter;
  });
}

TEST(ModelLayout, TotalsAreTheSumOfUnits) {
  testing::for_each_case(60, [](testing::Random& random, const std::string& trace) {
    SCOPED_TRACE(trace);
    const int world_size = random.world_size();
    std::vector<UnitLayout> units;
    std::int64_t numel = 0;
    std::int64_t trainable = 0;
    for (int i = 0; i < 5; ++i) {
      const std::vector<ParameterShape> shapes = random_shapes(random);
      for (const ParameterShape& shape : shapes) {
        numel += shape.dims[0];
        if (shape.trainable) trainable += shape.dims[0];
      }
      units.emplace_back("u" + std::to_string(i), shapes, world_size);
    }
    const ModelLayout model(units, 0);
    ASSERT_EQ(model.totals().numel, numel);
    ASSERT_EQ(model.totals().trainable_numel, trainable);
    ASSERT_EQ(model.totals().padded_numel, world_size * model.totals().shard_numel);
    ASSERT_EQ(model.root_unit(), 0u);
  });
}

TEST(ModelLayout, RefusesBadArguments) {
  const UnitLayout two("a", {}, 2);
  EXPECT_THROW(ModelLayout({two, two}), InvariantError);
  EXPECT_THROW(ModelLayout({two, UnitLayout("b", {}, 3)}), InvariantError);
  EXPECT_THROW(ModelLayout({two}, 1), InvariantError);
  EXPECT_NO_THROW(ModelLayout({}));
  const UnitLayout half("h", {{"w", {kMax / 2}, DType::uint8}}, 1);
  const UnitLayout other("o", {{"w", {kMax / 2}, DType::uint8}}, 1);
  EXPECT_NO_THROW(ModelLayout({half}));
  EXPECT_THROW(ModelLayout({half, other, UnitLayout("s", {{"w", {64}}}, 1)}), InvariantError);
}

}  // namespace
}  // namespace zeroshard
