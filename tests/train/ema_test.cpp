#include "harness/train/loop/ema.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"

namespace lockstep::train {
namespace {

TEST(Ema, RestoresAllAveragesOrNone) {
  const std::vector<NamedTensor> parameters{{"a", at::ones({2})}, {"b", at::ones({3})}};
  Ema ema(0.5, parameters);
  EXPECT_TRUE(ema.state().empty());
  EXPECT_THROW(ema.restore({{"a", at::zeros({2})}}), InputError);
  EXPECT_THROW(ema.restore({{"a", at::zeros({2})}, {"c", at::zeros({3})}}), InputError);
  ema.restore({{"b", at::full({3}, 3.0)}, {"a", at::zeros({2})}});
  ema.update();
  EXPECT_TRUE(at::equal(ema.state()[0].tensor, at::full({2}, 0.5)));
  EXPECT_TRUE(at::equal(ema.state()[1].tensor, at::full({3}, 2.0)));
}

}  // namespace
}  // namespace lockstep::train
