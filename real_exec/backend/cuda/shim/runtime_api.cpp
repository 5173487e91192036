#include "real_exec/backend/cuda/runtime_api.hpp"

#include <chrono>
#include <cstdlib>
#include <cstring>

namespace tw::cuda {

int device_count() {
    return 1;
}

Result<DeviceInfo> open_device(int) {
    return DeviceInfo{"the kernels' shim on the CPU", 0, 0, 0, 1, "no CUDA"};
}

std::size_t used_device_bytes() {
    return 0;
}

void* device_allocate(std::size_t bytes, Stream) {
    return std::aligned_alloc(512, (bytes + 511) / 512 * 512);
}
void device_free(void* data, Stream) {
    std::free(data);  // NOLINT(cppcoreguidelines-no-malloc)
}
bool is_device_memory(const void*) {
    return true;
}
void* pinned_allocate(std::size_t bytes) {
    return device_allocate(bytes, nullptr);
}
void pinned_free(void* data) {
    device_free(data, nullptr);
}

Stream make_stream() {
    return nullptr;
}
void destroy_stream(Stream) {}
void synchronize(Stream) {}
// Every call has completed when it returns: whatever was recorded has happened. Events with timing keep the
// host's time.
StreamEvent make_event() {
    return nullptr;
}
StreamEvent make_timed_event() {
    return new std::chrono::steady_clock::time_point;
}
void destroy_event(StreamEvent event) {
    delete static_cast<std::chrono::steady_clock::time_point*>(event);
}
void record(StreamEvent event, Stream) {
    if (event != nullptr)
        *static_cast<std::chrono::steady_clock::time_point*>(event) = std::chrono::steady_clock::now();
}
double elapsed_s(StreamEvent from, StreamEvent to) {
    const auto time = [](StreamEvent event) {
        return *static_cast<std::chrono::steady_clock::time_point*>(event);
    };
    return std::chrono::duration<double>(time(to) - time(from)).count();
}
bool has_happened(StreamEvent) {
    return true;
}
void copy_to_device(void* to, const void* from, std::size_t bytes, Stream) {
    std::memcpy(to, from, bytes);
}
void copy_to_host(void* to, const void* from, std::size_t bytes, Stream) {
    std::memcpy(to, from, bytes);
}
void copy_on_device(void* to, const void* from, std::size_t bytes, Stream) {
    std::memmove(to, from, bytes);
}
void clear(void* data, std::size_t bytes, Stream) {
    std::memset(data, 0, bytes);
}

}  // namespace tw::cuda
