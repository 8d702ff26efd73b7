#include "transload/memory/buffer.hpp"

#include "transload/base/error.hpp"

namespace transload {

Buffer Buffer::allocate(std::size_t nbytes, Resource& resource) {
  Buffer buffer;
  buffer.data_ = resource.allocate(nbytes).data();
  buffer.nbytes_ = nbytes;
  buffer.resource_ = &resource;
  buffer.kind_ = resource.kind();
  buffer.device_ = resource.device();
  return buffer;
}

Buffer Buffer::borrow(std::span<std::byte const> bytes, std::shared_ptr<void const> keeper, MemoryKind kind) noexcept {
  // Only `writable` gives the pointer away for writing, and it refuses a read-only buffer.
  Buffer buffer = borrow_writable({const_cast<std::byte*>(bytes.data()), bytes.size()}, std::move(keeper), kind);
  buffer.readonly_ = true;
  return buffer;
}

Buffer Buffer::borrow_writable(std::span<std::byte> bytes, std::shared_ptr<void const> keeper, MemoryKind kind) noexcept {
  Buffer buffer;
  buffer.data_ = bytes.data();
  buffer.nbytes_ = bytes.size();
  buffer.keeper_ = std::move(keeper);
  buffer.kind_ = kind;
  return buffer;
}

Buffer Buffer::borrow_device(std::span<std::byte> bytes, std::shared_ptr<void const> keeper, int device, Fence fence, bool readonly) {
  Buffer buffer = borrow_writable(bytes, std::move(keeper), MemoryKind::device);
  buffer.device_ = device;
  if (fence) buffer.fence_ = std::make_shared<Fence const>(std::move(fence));
  buffer.readonly_ = readonly;
  return buffer;
}

std::span<std::byte> Buffer::writable() {
  expects(!readonly_, ErrorKind::failed, "the buffer is read-only");
  return {data_, nbytes_};
}

Buffer Buffer::share() {
  if (resource_ != nullptr) {
    std::byte* const data = data_;
    std::size_t const nbytes = nbytes_;
    MemoryKind const kind = kind_;
    int const device = device_;
    auto keeper = std::make_shared<Buffer>();
    keeper->swap(*this);
    *this = borrow_writable({data, nbytes}, std::move(keeper), kind);
    device_ = device;
  }
  Buffer other = borrow_writable({data_, nbytes_}, keeper_, kind_);
  other.readonly_ = readonly_;
  other.device_ = device_;
  other.fence_ = fence_;
  return other;
}

void Buffer::reset() noexcept {
  if (resource_ != nullptr) resource_->deallocate({data_, nbytes_});
  resource_ = nullptr;
  keeper_.reset();
  fence_.reset();
  device_ = 0;
  data_ = nullptr;
  nbytes_ = 0;
  kind_ = MemoryKind::host;
  readonly_ = false;
}

void Buffer::swap(Buffer& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(nbytes_, other.nbytes_);
  std::swap(resource_, other.resource_);
  std::swap(keeper_, other.keeper_);
  std::swap(fence_, other.fence_);
  std::swap(device_, other.device_);
  std::swap(kind_, other.kind_);
  std::swap(readonly_, other.readonly_);
}

}  // namespace transload
