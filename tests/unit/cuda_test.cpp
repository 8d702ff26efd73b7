#include "transload/memory/cuda.hpp"

#include <gtest/gtest.h>

namespace transload {
namespace {

TEST(Cuda, CountsNoDeviceWithoutCudaInTheBuild) {
  if (built_with_cuda()) GTEST_SKIP() << "built with CUDA";
  EXPECT_EQ(device_count(), 0);
}

TEST(Cuda, TheCountIsTheSameEachTime) {
  EXPECT_GE(device_count(), 0);
  EXPECT_EQ(device_count(), device_count());
}

TEST(CudaGpu, ADeviceIsCounted) {
  if (device_count() == 0) GTEST_SKIP() << "no GPU here";
  EXPECT_GE(device_count(), 1);
}

}  // namespace
}  // namespace transload
