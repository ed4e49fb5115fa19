// Copies that wait for a thread: where they lie, in which order they are taken, and what becomes of failures.
#include "harness/record/staging.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <future>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/record/background.h"

namespace lockstep::record {
namespace {

TEST(StagingMemory, BeginsAnewWhereNothingWaits) {
  StagingMemory memory(4096);
  std::byte* const first = memory.take(1000);
  ASSERT_NE(first, nullptr);
  std::byte* const second = memory.take(1000);
  EXPECT_GE(second - first, 1000);
  memory.give_back();
  memory.give_back();
  EXPECT_EQ(memory.take(4096), first);
}

TEST(StagingMemory, HasNoRoomBeforeTheOldestIsGivenBack) {
  StagingMemory memory(4096);
  std::byte* const first = memory.take(2048);
  ASSERT_NE(memory.take(1024), nullptr);
  EXPECT_EQ(memory.take(2048), nullptr);
  memory.give_back();
  EXPECT_EQ(memory.take(2048), first);
  EXPECT_EQ(memory.take(2048), nullptr);
  EXPECT_EQ(memory.take(1), nullptr);
  EXPECT_EQ(memory.take(4097), nullptr);
}

TEST(StagingMemory, RoomsNeverOverlap) {
  struct Room {
    std::byte* begin;
    std::size_t size;
    std::byte mark;
  };
  constexpr std::size_t kCapacity = 10'000;
  StagingMemory memory(kCapacity);
  std::byte* const start = memory.take(0);
  memory.give_back();
  std::mt19937 random(1);
  std::deque<Room> rooms;
  int waits = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t size = random() % (random() % 4 == 0 ? 5000 : 200);
    std::byte* const begin = memory.take(size);
    if (begin != nullptr) {
      ASSERT_GE(begin, start);
      ASSERT_LE(begin + size, start + kCapacity);
      rooms.push_back({begin, size, static_cast<std::byte>(i)});
      std::memset(begin, i, size);
    }
    if (begin != nullptr && random() % 8 != 0) continue;
    ++waits;
    for (std::size_t gone = 1 + random() % 3; gone > 0 && !rooms.empty(); --gone, rooms.pop_front()) {
      for (std::size_t at = 0; at < rooms[0].size; ++at) ASSERT_EQ(rooms[0].begin[at], rooms[0].mark) << i;
      memory.give_back();
    }
  }
  EXPECT_GT(waits, 100);
}

TEST(Background, DoesTasksInOrder) {
  std::vector<int> done;
  {
    Background background(4096);
    for (int i = 0; i < 10'000; ++i) background.hand_over([&done, i] { done.push_back(i); });
    background.wait();
    EXPECT_EQ(done.size(), 10'000U);
    background.hand_over([&done] { done.push_back(10'000); });
  }
  ASSERT_EQ(done.size(), 10'001U);  // also what was not waited for
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
}

TEST(Background, ReturnsBeforeTheTaskIsDone) {
  std::promise<void> release;
  Background background(4096);
  background.hand_over([gate = release.get_future().share()] { gate.wait(); });
  release.set_value();
  background.wait();
}

TEST(Background, WaitsForRoom) {
  std::promise<void> release;
  Background background(4096);
  std::atomic<bool> first_done = false;
  background.room(4096);
  background.hand_over([&, gate = release.get_future().share()] {
    gate.wait();
    first_done = true;
  });
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    release.set_value();
  });
  background.room(64);
  EXPECT_TRUE(first_done);
  background.hand_over([] {});
  background.wait();
  later.join();
}

TEST(Background, AFailureIsThrownByEachLaterCallAndEndsTheWork) {
  bool later = false;
  Background background(4096);
  background.room(4096);
  background.hand_over([] { throw ResourceError({.what = "disk full"}); });
  background.hand_over([&later] { later = true; });
  EXPECT_THROW(background.wait(), ResourceError);
  EXPECT_THROW(background.room(64), ResourceError);
  EXPECT_THROW(background.hand_over([&later] { later = true; }), ResourceError);
  EXPECT_THROW(background.wait(), ResourceError);
  EXPECT_FALSE(later);
}

TEST(Background, AFailureReachesACallThatWaitsForRoom) {
  Background background(4096);
  background.room(4096);
  background.hand_over([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    throw ResourceError({.what = "disk full"});
  });
  EXPECT_THROW(background.room(4096), ResourceError);
}

}  // namespace
}  // namespace lockstep::record
