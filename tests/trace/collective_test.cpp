#include <gtest/gtest.h>

#include "harness/trace/collective_record.h"

namespace lockstep::trace {
namespace {

Record logged(const char* text) { return {.channel = Channel::kCollective, .name = "0", .text = text}; }

TEST(Collective, TellsOperationDtypeAndElements) {
  const Record record = logged("allreduce Float[650] SUM");
  const auto collective = collective_of(record);
  ASSERT_TRUE(collective);
  EXPECT_TRUE(collective->is_allreduce());
  EXPECT_EQ(collective->dtype, "Float");
  EXPECT_EQ(collective->elements, 650);
}

TEST(Collective, OfSeveralTensorsTheFirst) {
  const Record record = logged("broadcast Int[3] Float[7] from 0");
  EXPECT_EQ(collective_of(record)->operation, "broadcast");
  EXPECT_FALSE(collective_of(record)->is_allreduce());
  EXPECT_EQ(collective_of(record)->dtype, "Int");
  EXPECT_EQ(collective_of(record)->elements, 3);
}

TEST(Collective, WhatItDoesNotSayIsNothing) {
  for (const char* text : {"barrier", "", "allreduce", "allreduce [", "allreduce Float[x] SUM",
                           "allreduce Float[99999999999999999999] SUM"}) {
    const Record record = logged(text);
    EXPECT_FALSE(collective_of(record)->elements) << text;
  }
  Record other = logged("allreduce Float[650] SUM");
  other.channel = Channel::kLedger;
  EXPECT_FALSE(collective_of(other));
}

}  // namespace
}  // namespace lockstep::trace
