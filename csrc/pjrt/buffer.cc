// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <utility>

#include "csrc/pjrt/api.h"
#include "csrc/pjrt/client.h"

namespace torch_tpu::pjrt {
namespace {

const PJRT_Api* Api(const Device* device) { return device->client().plugin().api(); }
const Plugin& PluginOf(const Device* device) { return device->client().plugin(); }

}  // namespace

Buffer::Buffer(Device* device, PJRT_Buffer* raw, int64_t bytes)
    : device_(device), raw_(raw), bytes_(bytes) {
  device->CountAlloc(bytes);
}

Buffer::~Buffer() {
  if (raw_ == nullptr) return;
  Args<PJRT_Buffer_Destroy_Args> args;
  args.buffer = raw_;
  // Destruction has nobody to report to; the status only frees the error.
  (void)PluginOf(device_).ToStatus(Api(device_)->PJRT_Buffer_Destroy(&args));
  device_->CountFree(bytes_);
}

Buffer::Buffer(Buffer&& o) noexcept
    : device_(o.device_), raw_(std::exchange(o.raw_, nullptr)), bytes_(o.bytes_) {}

Buffer& Buffer::operator=(Buffer&& o) noexcept {
  std::swap(device_, o.device_);
  std::swap(raw_, o.raw_);
  std::swap(bytes_, o.bytes_);
  return *this;
}

Status Buffer::CheckUsable(const char* call) const {
  if (raw_ == nullptr) {
    return FailedPrecondition(StrCat("[pjrt] ", call, " of an empty buffer."));
  }
  Args<PJRT_Buffer_IsDeleted_Args> args;
  args.buffer = raw_;
  TT_RETURN_IF_ERROR(PluginOf(device_).ToStatus(Api(device_)->PJRT_Buffer_IsDeleted(&args)));
  if (args.is_deleted) {
    return FailedPrecondition(StrCat("[pjrt] ", call, " of a buffer that was deleted or donated."));
  }
  return OkStatus();
}

StatusOr<Event> Buffer::Ready() const {
  TT_RETURN_IF_ERROR(CheckUsable("Ready"));
  Args<PJRT_Buffer_ReadyEvent_Args> args;
  args.buffer = raw_;
  TT_RETURN_IF_ERROR(PluginOf(device_).ToStatus(Api(device_)->PJRT_Buffer_ReadyEvent(&args)));
  return Event(&device_->client(), args.event);
}

StatusOr<Event> Buffer::ToHost(void* dst, int64_t size) const {
  if (size != bytes_) {
    return InvalidArgument(
        StrCat("[pjrt] ToHost expected room for ", bytes_, " bytes, got ", size, "."));
  }
  if (dst == nullptr && size != 0) return InvalidArgument("[pjrt] ToHost to a null pointer.");
  TT_ASSIGN_OR_RETURN(Event ready, Ready());
  if (size == 0) return ready;
  // On a CPU runtime the bytes are in reach: a copy here is 10x cheaper than a plugin task.
  if (device_->client().is_cpu() && ready.IsReady()) {
    TT_RETURN_IF_ERROR(ready.Await());
    TT_ASSIGN_OR_RETURN(const void* source, HostPointer());
    if (source != nullptr) {
      std::memcpy(dst, source, static_cast<size_t>(size));
      return Event();
    }
  }
  Args<PJRT_Buffer_ToHostBuffer_Args> args;
  args.src = raw_;
  args.dst = dst;
  args.dst_size = static_cast<size_t>(size);
  // Without a host layout the plugin keeps the device's, which need not be row-major.
  Args<PJRT_Buffer_MemoryLayout> layout;
  std::vector<int64_t> minor_to_major;
  if (!device_->client().is_cpu()) {
    TT_ASSIGN_OR_RETURN(hlo::Shape shape, QueryShape());
    minor_to_major.resize(shape.dims.size());
    std::iota(minor_to_major.rbegin(), minor_to_major.rend(), 0);
    layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
    layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
    layout.tiled.minor_to_major = minor_to_major.data();
    layout.tiled.minor_to_major_size = minor_to_major.size();
    args.host_layout = &layout;
  }
  TT_RETURN_IF_ERROR(PluginOf(device_).ToStatus(Api(device_)->PJRT_Buffer_ToHostBuffer(&args)));
  return Event(&device_->client(), args.event);
}

StatusOr<const void*> Buffer::HostPointer() const {
  if (raw_ == nullptr || !device_->client().is_cpu()) return nullptr;
  TT_RETURN_IF_ERROR(CheckUsable("HostPointer"));
  Args<PJRT_Buffer_UnsafePointer_Args> args;
  args.buffer = raw_;
  TT_RETURN_IF_ERROR(TT_PJRT(PluginOf(device_), PJRT_Buffer_UnsafePointer, &args));
  return reinterpret_cast<const void*>(args.buffer_pointer);
}

StatusOr<Buffer> Buffer::CopyTo(Device* dst) const {
  TT_RETURN_IF_ERROR(CheckUsable("CopyTo"));
  if (&dst->client() != &device_->client()) {
    return InvalidArgument(
        "[pjrt] CopyTo a device of another client. Try: a copy through the host.");
  }
  Args<PJRT_Buffer_CopyToDevice_Args> args;
  args.buffer = raw_;
  args.dst_device = dst->raw();
  TT_RETURN_IF_ERROR(TT_PJRT(PluginOf(device_), PJRT_Buffer_CopyToDevice, &args));
  return Buffer(dst, args.dst_buffer, bytes_);
}

StatusOr<hlo::Shape> Buffer::QueryShape() const {
  TT_RETURN_IF_ERROR(CheckUsable("QueryShape"));
  Args<PJRT_Buffer_ElementType_Args> type;
  type.buffer = raw_;
  TT_RETURN_IF_ERROR(TT_PJRT(PluginOf(device_), PJRT_Buffer_ElementType, &type));
  Args<PJRT_Buffer_Dimensions_Args> dims;
  dims.buffer = raw_;
  TT_RETURN_IF_ERROR(TT_PJRT(PluginOf(device_), PJRT_Buffer_Dimensions, &dims));
  return hlo::Shape{FromBufferType(type.type), hlo::Dims(dims.dims, dims.dims + dims.num_dims)};
}

}  // namespace torch_tpu::pjrt
