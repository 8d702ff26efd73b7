#pragma once

namespace transload {

/// Whether this library was compiled with nvcc and can use a GPU where there is one.
[[nodiscard]] bool built_with_cuda() noexcept;

/// How many GPUs this process can use: 0 without CUDA in the build, without a driver, or without a device.
///
/// Asks the CUDA runtime each time, creates no context, and leaves no error behind in it.
[[nodiscard]] int device_count() noexcept;

/// Whether this process may turn out to have GPUs: CUDA in the build, a driver's device file, and no environment that hides them. Leaves CUDA alone: once a
/// process has asked that, children that it forks cannot use GPUs.
[[nodiscard]] bool may_have_devices() noexcept;

}  // namespace transload
