#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "real_exec/backend/cuda/device.hpp"
#include "real_exec/backend/cuda/runtime_api.hpp"

namespace tw::cuda {
namespace {

// An error of the runtime after the start is final: the context is lost.
void require(cudaError_t status, const char* what) {
    if (status == cudaSuccess) return;
    std::fprintf(stderr, "CUDA: %s: %s\n", what, cudaGetErrorString(status));
    std::abort();
}

// Where a device reads the host's pages itself (Grace Hopper), copies from them go on after their calls.
std::atomic<bool> reads_pages{false};

cudaStream_t native(Stream stream) {
    return static_cast<cudaStream_t>(stream);
}

std::string version(int number) {
    return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

}  // namespace

void check_launch(const char* kernel) {
    require(cudaGetLastError(), kernel);
}

int device_count() {
    int count = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
    cudaGetLastError();  // whoever asks goes on without one
    return 0;
}

Result<DeviceInfo> open_device(int index) {
    int runtime = 0, driver = 0, count = 0;
    cudaRuntimeGetVersion(&runtime);
    cudaDriverGetVersion(&driver);
    if (driver == 0) {
        return Error{ErrorCode::Failure, "no NVIDIA driver on this machine", "cuda",
                     "install the driver, or run on --backend cpu"};
    }
    const cudaError_t counted = cudaGetDeviceCount(&count);
    if (counted != cudaSuccess) {
        return Error{ErrorCode::Failure,
                     "the driver (CUDA " + version(driver) + ") cannot start: " + cudaGetErrorString(counted),
                     "cuda",
                     driver < runtime ? "this build needs a driver for CUDA " + version(runtime)
                                      : "nvidia-smi shows what the driver sees"};
    }
    if (count == 0) {
        return Error{ErrorCode::Failure, "the driver sees no GPU", "cuda",
                     "check CUDA_VISIBLE_DEVICES, or run on --backend cpu"};
    }
    if (index < 0 || index >= count) {
        return Error{ErrorCode::Usage,
                     "device " + std::to_string(index) + " of " + std::to_string(count) + " was asked for",
                     "cuda", "0 to " + std::to_string(count - 1)};
    }
    cudaDeviceProp properties{};
    if (const cudaError_t set = cudaSetDevice(index); set != cudaSuccess)
        return Error{ErrorCode::Failure, std::string("cannot open the GPU: ") + cudaGetErrorString(set),
                     "cuda", "another process may hold it in exclusive mode"};
    require(cudaGetDeviceProperties(&properties, index), "device properties");
    if (properties.memoryPoolsSupported == 0) {
        return Error{ErrorCode::Failure, std::string(properties.name) + " has no memory pools here", "cuda",
                     "a driver or a virtual GPU with unified memory, or --backend cpu"};
    }
    int coherent = 0;
    cudaDeviceGetAttribute(&coherent, cudaDevAttrPageableMemoryAccessUsesHostPageTables, index);
    reads_pages = coherent != 0;
    return DeviceInfo{properties.name,
                      properties.major,
                      properties.minor,
                      properties.totalGlobalMem,
                      properties.multiProcessorCount,
                      "CUDA " + version(runtime) + ", driver " + version(driver)};
}

std::size_t used_device_bytes() {
    std::size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) == cudaSuccess) return total - free;
    cudaGetLastError();
    return 0;
}

void* device_allocate(std::size_t bytes, Stream stream) {
    void* data = nullptr;
    if (cudaMallocAsync(&data, bytes, native(stream)) == cudaSuccess) return data;
    cudaGetLastError();  // an allocation may be tried again
    return nullptr;
}
void device_free(void* data, Stream stream) {
    require(cudaFreeAsync(data, native(stream)), "free");
}
bool is_device_memory(const void* data) {
    cudaPointerAttributes attributes{};
    if (cudaPointerGetAttributes(&attributes, data) != cudaSuccess) {
        cudaGetLastError();
        return false;
    }
    return attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
}
void* pinned_allocate(std::size_t bytes) {
    void* data = nullptr;
    require(cudaMallocHost(&data, bytes), "pinned memory");
    return data;
}
void pinned_free(void* data) {
    require(cudaFreeHost(data), "free of pinned memory");
}

Stream make_stream() {
    cudaStream_t stream = nullptr;
    require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    return stream;
}
void destroy_stream(Stream stream) {
    cudaStreamDestroy(native(stream));
}
void synchronize(Stream stream) {
    require(cudaStreamSynchronize(native(stream)), "synchronize");
}
StreamEvent make_event() {
    cudaEvent_t event = nullptr;
    require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event");
    return event;
}
StreamEvent make_timed_event() {
    cudaEvent_t event = nullptr;
    require(cudaEventCreateWithFlags(&event, cudaEventDefault), "event");
    return event;
}
double elapsed_s(StreamEvent from, StreamEvent to) {
    float ms = 0;
    require(cudaEventElapsedTime(&ms, static_cast<cudaEvent_t>(from), static_cast<cudaEvent_t>(to)),
            "time between events");
    return static_cast<double>(ms) * 1e-3;
}
void destroy_event(StreamEvent event) {
    cudaEventDestroy(static_cast<cudaEvent_t>(event));
}
void record(StreamEvent event, Stream stream) {
    require(cudaEventRecord(static_cast<cudaEvent_t>(event), native(stream)), "event");
}
bool has_happened(StreamEvent event) {
    const cudaError_t state = cudaEventQuery(static_cast<cudaEvent_t>(event));
    if (state != cudaErrorNotReady) {
        require(state, "event");
        return true;
    }
    // An event that has not happened leaves this behind, which the check after the next kernel's launch would
    // take for its own.
    if (const cudaError_t last = cudaGetLastError(); last != cudaErrorNotReady) require(last, "event");
    return false;
}
void copy_to_device(void* to, const void* from, std::size_t bytes, Stream stream) {
    // Pageable memory has been read when this returns; pinned memory is the caller's to keep.
    require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, native(stream)), "copy to the device");
    if (reads_pages) require(cudaStreamSynchronize(native(stream)), "copy to the device");
}
void copy_to_host(void* to, const void* from, std::size_t bytes, Stream stream) {
    require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, native(stream)), "copy to the host");
    require(cudaStreamSynchronize(native(stream)), "copy to the host");
}
void copy_on_device(void* to, const void* from, std::size_t bytes, Stream stream) {
    require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, native(stream)), "copy");
}
void clear(void* data, std::size_t bytes, Stream stream) {
    require(cudaMemsetAsync(data, 0, bytes, native(stream)), "clear");
}

}  // namespace tw::cuda
