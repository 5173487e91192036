#include "real_exec/comm/mpi/mpi_request.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/check.hpp"
#include "real_exec/comm/patience.hpp"

namespace tw {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 30U;  // counts are int

}  // namespace

MpiRequest::MpiRequest(std::string what, std::vector<int> ranks, double deadline_s, NextRound next)
    : what_(std::move(what)), ranks_(std::move(ranks)), deadline_s_(deadline_s), next_(std::move(next)) {}

MpiRequest::~MpiRequest() {
    TW_CHECK_MSG(done_ || std::uncaught_exceptions() > 0, "an MPI request was dropped before it completed");
}

void MpiRequest::send(const void* data, std::size_t bytes, int to, int tag, MPI_Comm comm) {
    for (std::size_t begin = 0; begin < bytes; begin += kPiece) {
        open_.push_back(MPI_REQUEST_NULL);
        peer_of_.push_back(to);
        ++open_count_;
        MPI_Isend(static_cast<const std::byte*>(data) + begin,
                  static_cast<int>(std::min(kPiece, bytes - begin)), MPI_BYTE, to, tag, comm, &open_.back());
    }
}

void MpiRequest::receive(void* data, std::size_t bytes, int from, int tag, MPI_Comm comm) {
    for (std::size_t begin = 0; begin < bytes; begin += kPiece) {
        open_.push_back(MPI_REQUEST_NULL);
        peer_of_.push_back(from);
        ++open_count_;
        MPI_Irecv(static_cast<std::byte*>(data) + begin, static_cast<int>(std::min(kPiece, bytes - begin)),
                  MPI_BYTE, from, tag, comm, &open_.back());
    }
}

void MpiRequest::started() {
    test();
}

bool MpiRequest::test() {
    while (!done_) {
        if (open_count_ > 0) {
            indices_.resize(open_.size());
            int completed = 0;
            MPI_Testsome(static_cast<int>(open_.size()), open_.data(), &completed, indices_.data(),
                         MPI_STATUSES_IGNORE);
            if (completed != MPI_UNDEFINED) open_count_ -= static_cast<std::size_t>(completed);
            if (open_count_ > 0) return false;
        }
        open_.clear();
        peer_of_.clear();
        done_ = !next_ || !next_(*this);
    }
    return true;
}

Status MpiRequest::wait() {
    const auto begin = std::chrono::steady_clock::now();
    Patience patience;
    for (int spins = 0; !test(); ++spins) {
        patience.pause();
        if (spins % 1024 != 1023) continue;
        const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
        if (waited.count() < deadline_s_) continue;
        (void)(failed_ = Error{ErrorCode::Failure,
                               fmt::format("{} waits for {:.0f} s", what_, waited.count()), "", missing()});
        give_up();
    }
    return failed_;
}

// What has not been matched is cancelled; the rest is left to the library. The caller ends the run.
void MpiRequest::give_up() {
    for (MPI_Request& open : open_) {
        if (open == MPI_REQUEST_NULL) continue;
        MPI_Cancel(&open);
        MPI_Request_free(&open);
    }
    open_count_ = 0;
    done_ = true;
}

std::string MpiRequest::missing() const {
    std::set<int> ranks;
    for (std::size_t i = 0; i < open_.size(); ++i) {
        if (open_[i] != MPI_REQUEST_NULL) ranks.insert(ranks_[static_cast<std::size_t>(peer_of_[i])]);
    }
    return fmt::format("missing: rank {}", fmt::join(ranks, ", "));
}

}  // namespace tw
