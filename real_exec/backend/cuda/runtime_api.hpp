// What the CUDA backend asks of the driver's runtime. runtime_api.cu asks CUDA; shim/ answers with the host's
// memory, where every call completes before it returns.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.hpp"
#include "real_exec/backend/cuda/stream.hpp"

namespace tw::cuda {

struct DeviceInfo {
    std::string name;  // "NVIDIA H200"
    int major = 0, minor = 0;
    std::size_t memory_bytes = 0;
    int multiprocessors = 1;
    std::string software;  // "CUDA 13.0, driver 13.0"
};

int device_count();  // 0 without a driver
// Of this thread's device: what all its users hold of its memory; 0: not known.
std::size_t used_device_bytes();

// Makes the device this thread's; an error says what is missing (driver, device, a device of this index).
Result<DeviceInfo> open_device(int index);

// In the order of the stream, without waiting for others. Null: out of memory. What has been freed is the
// driver's again when the stream is synchronised.
void* device_allocate(std::size_t bytes, Stream stream);
void device_free(void* data, Stream stream);
bool is_device_memory(const void* data);
void* pinned_allocate(std::size_t bytes);  // host memory that the device copies from and to by itself
void pinned_free(void* data);

Stream make_stream();
void destroy_stream(Stream stream);
void synchronize(Stream stream);
// A point in a stream's work (a cudaEvent_t without timing).
using StreamEvent = void*;
StreamEvent make_event();
void destroy_event(StreamEvent event);
void record(StreamEvent event, Stream stream);  // again: the latest point
bool has_happened(StreamEvent event);           // true where it was never recorded
// One with timing; and the seconds from one such point to another, both of which have happened.
StreamEvent make_timed_event();
double elapsed_s(StreamEvent from, StreamEvent to);
void copy_to_device(void* to, const void* from, std::size_t bytes, Stream stream);
void copy_to_host(void* to, const void* from, std::size_t bytes, Stream stream);  // complete on return
void copy_on_device(void* to, const void* from, std::size_t bytes, Stream stream);
void clear(void* data, std::size_t bytes, Stream stream);

}  // namespace tw::cuda
