// How processes that share no memory and no MPI find each other: values by key, held by rank 0, over TCP.
// Small and rare (an NCCL id a communicator); transfers of tensors go another way.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.hpp"

namespace tw {

class KeyValueStore {
  public:
    virtual ~KeyValueStore() = default;
    // Errors: rank 0 is gone, or takes nothing within the deadline that the store was opened with.
    virtual Status set(const std::string& key, const std::string& value) = 0;
    // Waits until somebody has set it; an error names the key after `deadline_s`, or says that rank 0 is gone
    // or does not answer.
    virtual Result<std::string> get(const std::string& key, double deadline_s) = 0;
};

struct StoreAddress {
    std::string host;  // name or address
    std::uint16_t port = 0;
};

// `serve`: this process (rank 0) holds the values, until the store is destroyed; port 0 takes a free one. The
// others connect, and try again for `deadline_s` while nobody listens. Thread-safe.
Result<std::unique_ptr<KeyValueStore>> open_store(const StoreAddress& address, bool serve, double deadline_s);
// The port that a serving store listens on.
std::uint16_t port_of(const KeyValueStore& store);

}  // namespace tw
