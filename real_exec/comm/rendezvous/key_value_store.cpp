#include "real_exec/comm/rendezvous/key_value_store.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tw {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kMagic = 0x54574b56;            // "TWKV": whoever else connects is turned away
constexpr std::uint32_t kLongest = 1U << 20U;           // of a key or a value
constexpr double kLeastAnswer_s = 1;                    // that rank 0 is given to answer a question
constexpr auto kPause = std::chrono::milliseconds(20);  // between questions for a value that is not there

Clock::time_point after(double seconds) {
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

class Socket {
  public:
    explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
    Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)), end_(other.end_) {}
    Socket& operator=(Socket&& other) noexcept {
        std::swap(descriptor_, other.descriptor_);
        std::swap(end_, other.end_);
        return *this;
    }
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;
    ~Socket() {
        if (descriptor_ >= 0) ::close(descriptor_);
    }
    [[nodiscard]] int get() const { return descriptor_; }
    [[nodiscard]] bool connect(const sockaddr& address, socklen_t length) const {
        if (::connect(descriptor_, &address, length) == 0) return true;
        if (errno != EINPROGRESS) return false;
        if (!ready(POLLOUT)) {
            errno = ETIMEDOUT;
            return false;
        }
        int reason = 0;
        socklen_t size = sizeof reason;
        ::getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &reason, &size);
        errno = reason;
        return reason == 0;
    }
    // Wakes a thread that waits on it.
    void shut() const { ::shutdown(descriptor_, SHUT_RDWR); }

    // Reads and writes fail from then on.
    void set_end(Clock::time_point end) { end_ = end; }
    [[nodiscard]] bool late() const { return Clock::now() >= end_; }

    [[nodiscard]] bool write(const void* data, std::size_t bytes) const {
        const auto* at = static_cast<const char*>(data);
        while (bytes > 0) {
            if (!ready(POLLOUT)) return false;
            const ssize_t sent = ::send(descriptor_, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
            if (sent <= 0) {
                if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
                return false;
            }
            at += sent;
            bytes -= static_cast<std::size_t>(sent);
        }
        return true;
    }
    [[nodiscard]] bool read(void* data, std::size_t bytes) const {
        auto* at = static_cast<char*>(data);
        while (bytes > 0) {
            if (!ready(POLLIN)) return false;
            const ssize_t got = ::recv(descriptor_, at, bytes, MSG_DONTWAIT);
            if (got <= 0) {
                if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
                return false;
            }
            at += got;
            bytes -= static_cast<std::size_t>(got);
        }
        return true;
    }
    [[nodiscard]] bool write_text(const std::string& text) const {
        const auto length = static_cast<std::uint32_t>(text.size());
        return write(&length, sizeof length) && write(text.data(), text.size());
    }
    [[nodiscard]] bool read_text(std::string& text) const {
        std::uint32_t length = 0;
        if (!read(&length, sizeof length) || length > kLongest) return false;
        text.resize(length);
        return read(text.data(), length);
    }

  private:
    // Waits for it, until the end.
    [[nodiscard]] bool ready(short event) const {
        while (true) {
            int wait_ms = -1;
            if (end_ != Clock::time_point::max()) {
                const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now()).count();
                if (left <= 0) return false;
                wait_ms = static_cast<int>(std::min<std::int64_t>(left, 1000));
            }
            pollfd asked{descriptor_, event, 0};
            const int found = ::poll(&asked, 1, wait_ms);
            if (found > 0) return true;
            if (found < 0 && errno != EINTR) return false;
        }
    }
    int descriptor_;
    Clock::time_point end_ = Clock::time_point::max();
};

class Values {
  public:
    void set(const std::string& key, const std::string& value) {
        const std::lock_guard lock(mutex_);
        values_[key] = value;
    }
    std::optional<std::string> get(const std::string& key) {
        const std::lock_guard lock(mutex_);
        const auto found = values_.find(key);
        if (found == values_.end()) return std::nullopt;
        return found->second;
    }

  private:
    std::mutex mutex_;
    std::map<std::string, std::string> values_;
};

// Asks `look` until it answers or the deadline has passed.
template <class Look>
Result<std::string> ask_until(const std::string& key, double deadline_s, Look look) {
    const Clock::time_point end = after(deadline_s);
    while (true) {
        Result<std::optional<std::string>> value = look(end);
        if (!value) return value.errors();
        if (value->has_value()) return **value;
        if (Clock::now() >= end) {
            return Error{ErrorCode::Failure, fmt::format("nobody set '{}' within {:.0f} s", key, deadline_s),
                         "rendezvous", "is every rank running, with the same address and world size?"};
        }
        std::this_thread::sleep_for(kPause);
    }
}

// Rank 0: a thread that accepts, and one for each peer.
class ServingStore final : public KeyValueStore {
  public:
    ServingStore(Socket listener, std::uint16_t port)
        : port_(port), listener_(std::move(listener)), acceptor_([this] { accept(); }) {}
    ~ServingStore() override {
        stop_ = true;
        listener_.shut();
        acceptor_.join();
        for (Peer& peer : peers_) {
            peer.socket.shut();
            peer.thread.join();
        }
    }
    ServingStore(const ServingStore&) = delete;
    ServingStore& operator=(const ServingStore&) = delete;

    Status set(const std::string& key, const std::string& value) override {
        values_.set(key, value);
        return ok();
    }
    Result<std::string> get(const std::string& key, double deadline_s) override {
        return ask_until(key, deadline_s, [&](Clock::time_point) -> Result<std::optional<std::string>> {
            return values_.get(key);
        });
    }
    [[nodiscard]] std::uint16_t port() const { return port_; }

  private:
    struct Peer {
        Socket socket;
        std::thread thread;
    };

    void accept() {
        while (!stop_) {
            Socket peer(::accept(listener_.get(), nullptr, nullptr));
            if (peer.get() < 0) {
                // Without a free descriptor (EMFILE, ENFILE) the peer stays in the queue.
                if (errno != EINTR) std::this_thread::sleep_for(kPause);
                continue;
            }
            peers_.push_back({std::move(peer), {}});
            Peer& added = peers_.back();
            added.thread = std::thread([this, &added] { serve(added.socket); });
        }
    }

    // A question is (magic, 's', key, value), without an answer, or (magic, 'g', key), answered by
    // (there, value).
    void serve(const Socket& peer) {
        std::uint32_t magic = 0;
        while (peer.read(&magic, sizeof magic) && magic == kMagic) {
            char kind = 0;
            std::string key, value;
            if (!peer.read(&kind, 1) || !peer.read_text(key)) return;
            if (kind == 's') {
                if (!peer.read_text(value)) return;
                values_.set(key, value);
            } else {
                const std::optional<std::string> found = values_.get(key);
                const char there = found ? 1 : 0;
                if (!peer.write(&there, 1) || !peer.write_text(found.value_or(""))) return;
            }
        }
        peer.shut();
    }

    std::uint16_t port_;
    std::atomic<bool> stop_{false};
    Values values_;
    std::list<Peer> peers_;  // the acceptor's, until it has ended
    Socket listener_;
    std::thread acceptor_;
};

class RemoteStore final : public KeyValueStore {
  public:
    RemoteStore(Socket socket, double deadline_s) : deadline_s_(deadline_s), socket_(std::move(socket)) {}

    Status set(const std::string& key, const std::string& value) override {
        const std::lock_guard lock(mutex_);
        socket_.set_end(after(deadline_s_));
        if (!ask('s', key) || !socket_.write_text(value)) return gone();
        return ok();
    }
    Result<std::string> get(const std::string& key, double deadline_s) override {
        return ask_until(key, deadline_s, [&](Clock::time_point end) -> Result<std::optional<std::string>> {
            const std::lock_guard lock(mutex_);
            socket_.set_end(std::max(end, after(kLeastAnswer_s)));
            char there = 0;
            std::string value;
            if (!ask('g', key) || !socket_.read(&there, 1) || !socket_.read_text(value)) return gone();
            if (there == 0) return std::optional<std::string>{};
            return std::optional<std::string>(std::move(value));
        });
    }

  private:
    bool ask(char kind, const std::string& key) {
        return socket_.write(&kMagic, sizeof kMagic) && socket_.write(&kind, 1) && socket_.write_text(key);
    }
    // The connection is of no more use: what is still to come would answer another question.
    Error gone() {
        const bool late = socket_.late();
        socket_.shut();
        return {ErrorCode::Failure, late ? "rank 0 does not answer" : "rank 0 has closed the connection",
                "rendezvous", "its log says why"};
    }
    double deadline_s_;  // of what answers nothing
    std::mutex mutex_;
    Socket socket_;
};

Error refused(const StoreAddress& address, const char* what, const std::string& hint) {
    return {ErrorCode::Failure,
            fmt::format("{} {}:{}: {}", what, address.host, address.port, std::strerror(errno)), "rendezvous",
            hint};
}

Result<std::unique_ptr<KeyValueStore>> serve_store(const StoreAddress& address) {
    Socket listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int yes = 1;
    ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_ANY);
    own.sin_port = htons(address.port);
    socklen_t length = sizeof own;
    if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&own), length) != 0 ||
        ::listen(listener.get(), SOMAXCONN) != 0 ||
        ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0)
        return refused(address, "cannot listen on", "set MASTER_PORT to a free port");
    return std::unique_ptr<KeyValueStore>(
        std::make_unique<ServingStore>(std::move(listener), ntohs(own.sin_port)));
}

}  // namespace

Result<std::unique_ptr<KeyValueStore>> open_store(const StoreAddress& address, bool serve,
                                                  double deadline_s) {
    if (serve) return serve_store(address);
    const Clock::time_point end = after(deadline_s);
    addrinfo wanted{};
    wanted.ai_family = AF_INET;
    wanted.ai_socktype = SOCK_STREAM;
    while (true) {
        addrinfo* found = nullptr;
        const int resolved =
            ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &wanted, &found);
        Socket socket(resolved == 0 ? ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) : -1);
        socket.set_end(end);
        const bool connected = resolved == 0 && socket.connect(*found->ai_addr, found->ai_addrlen);
        const int reason = errno;
        if (found != nullptr) ::freeaddrinfo(found);
        if (connected) {
            const int yes = 1;
            ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
            return std::unique_ptr<KeyValueStore>(
                std::make_unique<RemoteStore>(std::move(socket), deadline_s));
        }
        if (Clock::now() >= end) {
            if (resolved != 0) {
                return Error{ErrorCode::Failure,
                             fmt::format("cannot resolve '{}': {}", address.host, ::gai_strerror(resolved)),
                             "rendezvous", "set MASTER_ADDR to rank 0's address"};
            }
            errno = reason;
            return refused(address, "cannot reach rank 0 at", "is rank 0 running, and the port open?");
        }
        std::this_thread::sleep_for(kPause);
    }
}

std::uint16_t port_of(const KeyValueStore& store) {
    const auto* serving = dynamic_cast<const ServingStore*>(&store);
    return serving != nullptr ? serving->port() : std::uint16_t{0};
}

}  // namespace tw
