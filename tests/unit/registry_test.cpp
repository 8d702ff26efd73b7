#include "transload/registry/registry.hpp"

#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "transload/adapters/encode.hpp"
#include "transload/adapters/value.hpp"
#include "transload/registry/trust.hpp"

namespace transload {
namespace {

std::string what_of(auto&& act, ErrorKind kind = ErrorKind::unsupported) {
  try {
    act();
  } catch (Error const& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(Trust, ANameThatWasNotAddedHasNoRole) {
  Trust trust;
  EXPECT_EQ(trust.roles("os:system"), Roles{});
  EXPECT_EQ(what_of([&] { trust.check("os:system", Role::call, "root[3]"); }), "root[3]: os:system is not on the trust list");
}

TEST(Trust, OneRoleDoesNotGiveAnother) {
  Trust trust;
  trust.add("shop:Order", Role::make);
  EXPECT_NO_THROW(trust.check("shop:Order", Role::make, "root"));
  EXPECT_EQ(what_of([&] { trust.check("shop:Order", Role::call, "root"); }),
            "root: the trust list does not let a message call shop:Order, only make an instance of it");
  trust.add("shop:Order", Role::hand_on);
  EXPECT_EQ(trust.roles("shop:Order"), Role::make | Role::hand_on);
}

TEST(Trust, NamesAreExact) {
  Trust trust;
  trust.add("shop:Order", Role::make);
  EXPECT_EQ(trust.roles("shop:Order.delete"), Roles{});
  EXPECT_EQ(trust.roles("shop"), Roles{});
  EXPECT_EQ(trust.roles("shop:order"), Roles{});
  what_of([&] { trust.add("shop", Role::make); });
  what_of([&] { trust.add("shop:", Role::make); });
  trust.remove("shop:Order");
  EXPECT_EQ(trust.roles("shop:Order"), Roles{});
}

TEST(Trust, IsReadAndWrittenByManyThreads) {
  Trust trust;
  std::thread writer([&] {
    for (int i = 0; i < 500; ++i) trust.add(cat("m:c", i), Role::make);
  });
  std::thread reader([&] {
    for (int i = 0; i < 500; ++i) (void)trust.roles(cat("m:c", i));
  });
  writer.join();
  reader.join();
  EXPECT_EQ(trust.names().size(), 500U);
}

struct Point {
  double x;
  double y;
};

Adapter point_adapter(std::string name, Family family, bool takes) {
  return {.wire_name = std::move(name),
          .family = family,
          .type = typeid(Point),
          .encode =
              [takes](std::any const& object, Encoder& encoder) {
                expects(takes, ErrorKind::unsupported, "not today");
                auto const& point = std::any_cast<Point const&>(object);
                encoder.begin(Op::tuple, 2);
                encoder.real(point.x);
                encoder.real(point.y);
              },
          .decode =
              [](Value const& node) {
                return std::any(Point{node[std::size_t{0}].as<double>(), node[std::size_t{1}].as<double>()});
              }};
}

TEST(Registry, FamiliesFallBackInOrderAndSayWhy) {
  Registry registry;
  registry.add(point_adapter("point.cuda", Family::cuda, false));
  registry.add(point_adapter("point", Family::host, true));
  Decisions decisions;
  Encoder encoder;
  Adapter const& taken = registry.encode(Point{1, 2}, encoder, fallback_order, decisions, "root.p");
  EXPECT_EQ(taken.wire_name, "point");
  auto const list = decisions.list();
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0], (Decision{"root.p", "cuda", "not today", false}));
  EXPECT_EQ(list[1], (Decision{"root.p", "host: point", "cuda: not today", true}));
  Message message = encoder.finish();
  auto const back = std::any_cast<Point>(registry.find("point")->decode(Value::open(message.share())));
  EXPECT_EQ(back.y, 2);
}

TEST(Registry, AnObjectThatNobodyTakesNamesEachFamilysReason) {
  Registry registry;
  registry.add(point_adapter("point.cuda", Family::cuda, false));
  Decisions decisions;
  Encoder encoder;
  auto const what = what_of([&] { registry.encode(Point{}, encoder, fallback_order, decisions); });
  EXPECT_EQ(what.substr(0, 58), "object: no family takes it (cuda: not today; host: no adap") << what;
}

TEST(Registry, AWireNameIsTakenOnceAndHasNoColon) {
  Registry registry;
  registry.add(point_adapter("point", Family::host, true));
  what_of([&] { registry.add(point_adapter("point", Family::cuda, true)); });
  what_of([&] { registry.add(point_adapter("a:b", Family::host, true)); });
  EXPECT_EQ(registry.find("line"), nullptr);
}

TEST(Families, HaveTheNamesThatMessagesCarry) {
  for (Family family : fallback_order) EXPECT_EQ(try_family(to_string(family)), family);
  EXPECT_EQ(try_family("cpu"), std::nullopt);
}

TEST(Decisions, KeepTheLatestUpToTheirBound) {
  Decisions decisions(2);
  for (int i = 0; i < 5; ++i) decisions.take(cat(i), "x");
  EXPECT_EQ(decisions.count(), 5U);
  ASSERT_EQ(decisions.list().size(), 2U);
  EXPECT_EQ(decisions.list()[0].place, "3");
  EXPECT_EQ(decisions.list()[1].place, "4");
}

}  // namespace
}  // namespace transload
