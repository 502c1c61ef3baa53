#include <gtest/gtest.h>

#include "zeroshard/base/duration.h"
#include "zeroshard/base/error.h"

namespace zeroshard {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(Duration, ParsesUnits) {
  EXPECT_EQ(parse_duration("30min"), minutes(30));
  EXPECT_EQ(parse_duration("30 m"), minutes(30));
  EXPECT_EQ(parse_duration("5s"), seconds(5));
  EXPECT_EQ(parse_duration("5 sec"), seconds(5));
  EXPECT_EQ(parse_duration("500ms"), milliseconds(500));
  EXPECT_EQ(parse_duration("2h"), hours(2));
  EXPECT_EQ(parse_duration("1d"), hours(24));
  EXPECT_EQ(parse_duration("2H"), hours(2));
}

TEST(Duration, BareNumbersAreSeconds) {
  EXPECT_EQ(parse_duration("90"), seconds(90));
  EXPECT_EQ(parse_duration("0"), seconds(0));
  EXPECT_EQ(parse_duration("0.25"), milliseconds(250));
}

TEST(Duration, FractionsAreRoundedToMilliseconds) {
  EXPECT_EQ(parse_duration("1.5h"), minutes(90));
  EXPECT_EQ(parse_duration("1.2345s"), milliseconds(1235));
}

TEST(Duration, RefusesWhatIsNoDuration) {
  for (const auto* text :
       {"", "s", "-5s", "5 parsecs", "1h30min", "nan", "inf", "1e30h", "5s!", "1.5ms", "5us"}) {
    EXPECT_THROW(parse_duration(text), ConfigError) << text;
  }
}

TEST(Duration, MessageNamesTheOption) {
  try {
    parse_duration("soon", "--timeout");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "[config] --timeout is not a length of time: 'soon'; "
                 "write a number and a unit, such as 30min, 5s, 500ms or 2h");
  }
}

TEST(Duration, HumanForm) {
  EXPECT_EQ(human_duration(milliseconds(0)), "0 ms");
  EXPECT_EQ(human_duration(milliseconds(999)), "999 ms");
  EXPECT_EQ(human_duration(milliseconds(1000)), "1.0 s");
  EXPECT_EQ(human_duration(milliseconds(12'480)), "12.5 s");
  EXPECT_EQ(human_duration(seconds(125)), "2 min 05 s");
  EXPECT_EQ(human_duration(minutes(187)), "3 h 07 min");
  EXPECT_EQ(human_duration(hours(52)), "2 d 04 h");
  EXPECT_EQ(human_duration(-seconds(125)), "-2 min 05 s");
}

TEST(Duration, HumanFormRoundsIntoTheNextUnit) {
  EXPECT_EQ(human_duration(milliseconds(59'949)), "59.9 s");
  EXPECT_EQ(human_duration(milliseconds(59'950)), "1 min 00 s");
  EXPECT_EQ(human_duration(milliseconds(3'599'499)), "59 min 59 s");
  EXPECT_EQ(human_duration(milliseconds(3'599'500)), "1 h 00 min");
  EXPECT_EQ(human_duration(hours(24) - seconds(30)), "1 d 00 h");
}

TEST(Duration, ExtremesArePrintable) {
  EXPECT_EQ(human_duration(milliseconds::max()).substr(0, 12), "106751991167");
  EXPECT_EQ(human_duration(milliseconds::min()).substr(0, 13), "-106751991167");
}

}  // namespace
}  // namespace zeroshard
