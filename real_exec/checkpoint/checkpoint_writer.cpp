#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <set>
#include <system_error>
#include <thread>
#include <tuple>

#include <fmt/format.h>

#include "base/json.hpp"
#include "real_exec/backend/copy_bytes.hpp"
#include "real_exec/checkpoint/checkpoint.hpp"
#include "real_exec/checkpoint/checkpoint_json.hpp"
#include "real_exec/checkpoint/crc32c.hpp"
#include "real_exec/checkpoint/disk_file.hpp"
#include "real_exec/checkpoint/safetensors.hpp"

namespace tw {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kPartial = ".partial";  // being written
constexpr std::string_view kRemoved = ".removed";  // being removed

// What is written of one save: this rank's pieces in host memory.
struct Snapshot {
    CheckpointState state;
    std::vector<CheckpointPiece> pieces;  // begin: in `bytes`
    std::unique_ptr<std::byte[]> bytes;
    std::int64_t size = 0;

    [[nodiscard]] std::span<const std::byte> of(const CheckpointPiece& piece) const {
        return {bytes.get() + piece.begin, static_cast<std::size_t>(piece.bytes)};
    }
};

Status to_host(const CheckpointOptions& options, void* host, const Tensor& tensor) {
    if (options.to_host) return options.to_host(host, tensor);
    copy_bytes(host, tensor.data, tensor.bytes());
    return ok();
}

Error of_tensor(const CheckpointTensor& tensor, std::string message) {
    return {ErrorCode::Failure, std::move(message), fmt::format("{} {}", tensor.kind, tensor.name), ""};
}

Result<CheckpointPiece> piece_of(const CheckpointTensor& tensor, std::int64_t begin) {
    if (const Status legal = check_region(tensor.region, tensor.name); !legal) return legal.errors();
    if (tensor.region.elements() != tensor.data.elements())
        return of_tensor(tensor, fmt::format("its region has {} elements, its memory {}",
                                             tensor.region.elements(), tensor.data.elements()));
    CheckpointPiece piece{tensor.kind, tensor.name, tensor.data.dtype, tensor.region, begin, 0, 0};
    piece.bytes = stored_elements(tensor.region) * static_cast<std::int64_t>(bytes_of(piece.dtype));
    return piece;
}

// Copies a tensor's stored elements; padding is left out.
Status take_piece(const CheckpointOptions& options, const CheckpointTensor& tensor,
                  const CheckpointPiece& piece, std::byte* to) {
    if (piece.bytes == static_cast<std::int64_t>(tensor.data.bytes()))
        return to_host(options, to, tensor.data);
    std::vector<std::byte> all(tensor.data.bytes());
    if (const Status copied = to_host(options, all.data(), tensor.data); !copied) return copied;
    const std::size_t element = bytes_of(piece.dtype);
    for (const ElementRun& run : runs_of(tensor.region)) {
        const std::size_t bytes = static_cast<std::size_t>(run.length) * element;
        std::memcpy(to, all.data() + static_cast<std::size_t>(run.local) * element, bytes);
        to += bytes;
    }
    return ok();
}

Result<Snapshot> take_snapshot(const CheckpointOptions& options, const CheckpointState& state,
                               std::span<const CheckpointTensor> tensors) {
    Snapshot snapshot;
    snapshot.state = state;
    for (const auto& [name, value] : state.scalars)
        if (!std::isfinite(value))
            return Error{ErrorCode::Failure, fmt::format("is {}, which no checkpoint keeps", value), name,
                         ""};
    std::set<std::tuple<std::string_view, std::string_view, std::int64_t, std::int64_t>> seen;
    for (const CheckpointTensor& tensor : tensors) {
        auto piece = piece_of(tensor, snapshot.size);
        if (!piece) return piece.errors();
        if (!seen.emplace(tensor.kind, tensor.name, tensor.region.offset, tensor.region.first).second)
            return of_tensor(tensor, "is passed twice");
        snapshot.size += piece->bytes;
        snapshot.pieces.push_back(std::move(*piece));
    }
    snapshot.bytes.reset(new std::byte[static_cast<std::size_t>(snapshot.size)]);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        std::byte* const to = snapshot.bytes.get() + snapshot.pieces[i].begin;
        if (const Status taken = take_piece(options, tensors[i], snapshot.pieces[i], to); !taken)
            return taken.errors();
    }
    return snapshot;
}

// Flips the lowest bit of the byte in the middle of what follows the header.
Status flip_a_bit(const fs::path& path, std::int64_t head_bytes) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto size = static_cast<std::int64_t>(fs::file_size(path));
    const std::int64_t at = head_bytes + (size - head_bytes) / 2;
    if (!file || at >= size) return ok();  // a rank without pieces has nothing to corrupt
    file.seekg(at);
    const auto byte = static_cast<char>(file.get());
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 1));
    return file.flush() ? ok() : Status(Error{ErrorCode::Failure, "cannot be corrupted", path.string(), ""});
}

// This rank's file and its index.
Status write_part(const CheckpointOptions& options, const fs::path& folder, const Snapshot& snapshot) {
    CheckpointPart part;
    part.rank = options.rank;
    part.step = snapshot.state.step;
    part.layer_updates = snapshot.state.layer_updates;
    part.pieces = snapshot.pieces;
    std::vector<SafetensorsSource> sources;
    for (const CheckpointPiece& piece : part.pieces) {
        const auto elements = piece.bytes / static_cast<std::int64_t>(bytes_of(piece.dtype));
        sources.push_back({fmt::format("{}/{}#{}", piece.kind, piece.name, sources.size()),
                           piece.dtype,
                           {elements},
                           snapshot.of(piece)});
    }
    const std::string head = safetensors_head(
        sources, {{"format", "trainwright-checkpoint-part"}, {"rank", std::to_string(part.rank)}});
    part.head_bytes = static_cast<std::int64_t>(head.size());
    part.head_crc32c = crc32c(std::as_bytes(std::span(head.data(), head.size())));
    const fs::path path = folder / part_file(options.rank, ".safetensors");
    auto file = DiskFile::create(path, options.faults.full_disk_after_bytes);
    if (!file) return file.errors();
    Status written = file->append(head);
    for (CheckpointPiece& piece : part.pieces) {
        if (!written) break;
        const std::span<const std::byte> bytes = snapshot.of(piece);
        piece.crc32c = crc32c(bytes);
        piece.begin += part.head_bytes;
        written = file->append(bytes);
    }
    if (!written) return written;
    part.file_bytes = file->size();
    if (Status finished = file->finish(); !finished) return finished;
    if (options.faults.corrupt) {
        if (Status flipped = flip_a_bit(path, part.head_bytes); !flipped) return flipped;
    }
    return write_durably(folder / part_file(options.rank, ".json"), part_text(part));
}

std::string listed(const std::vector<int>& ranks) {
    const std::size_t shown = std::min<std::size_t>(ranks.size(), 8);
    std::string text =
        fmt::format("{}", fmt::join(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
    if (shown < ranks.size()) text += fmt::format(" and {} more", ranks.size() - shown);
    return text;
}

// Waits until every rank's index is there, one of them says that it failed, or the deadline has passed.
Status wait_for_parts(const CheckpointOptions& options, const fs::path& folder) {
    const auto begin = Clock::now();
    auto pause = std::chrono::milliseconds(1);
    int next = 1;  // every rank below it is there
    while (next < options.world) {
        std::error_code error;
        while (next < options.world && fs::exists(folder / part_file(next, ".json"), error))
            ++next;
        std::vector<int> missing;
        for (int rank = next; rank < options.world; ++rank) {
            if (const auto failure = read_text_file(folder / part_file(rank, ".failed")); failure)
                return Error{ErrorCode::Failure,
                             fmt::format("rank {} could not write its part: {}", rank, *failure),
                             folder.string(), ""};
            if (!fs::exists(folder / part_file(rank, ".json"), error)) missing.push_back(rank);
        }
        if (missing.empty()) return ok();
        if (std::chrono::duration<double>(Clock::now() - begin).count() > options.deadline_s)
            return Error{ErrorCode::Failure,
                         fmt::format("the parts of ranks {} did not appear within {:g} s", listed(missing),
                                     options.deadline_s),
                         folder.string(), "every rank must see the same folder"};
        std::this_thread::sleep_for(pause);
        pause = std::min(pause * 2, std::chrono::milliseconds(50));
    }
    return ok();
}

Result<CheckpointManifest> collect_manifest(const CheckpointOptions& options, const fs::path& folder,
                                            const CheckpointState& state) {
    CheckpointManifest manifest;
    manifest.state = state;
    for (int rank = 0; rank < options.world; ++rank) {
        const fs::path path = folder / part_file(rank, ".json");
        const auto text = read_text_file(path);
        if (!text) return text.errors();
        const auto part = part_from_text(*text, path.string());
        if (!part) return part.errors();
        if (part->rank != rank || part->step != state.step)
            return Error{ErrorCode::Failure, fmt::format("is of rank {}, step {}", part->rank, part->step),
                         path.string(), "every rank saves at the same steps"};
        manifest.parts.push_back({static_cast<std::int64_t>(text->size()), part->file_bytes,
                                  crc32c(std::as_bytes(std::span(text->data(), text->size())))});
    }
    return manifest;
}

// A folder vanishes at once, by its name, and then byte by byte.
void remove_folder(const fs::path& path, std::string_view attempt) {
    std::error_code ignored;
    const fs::path doomed = fmt::format("{}.{}{}", path.string(), attempt, kRemoved);
    fs::rename(path, doomed, ignored);
    fs::remove_all(doomed, ignored);
}

// The step of a folder that is being written or removed, "step-00000020.<attempt>.partial"; -1: another name.
std::int64_t leftover_step(const std::string& name) {
    if (!name.starts_with("step-") || !(name.ends_with(kPartial) || name.ends_with(kRemoved))) return -1;
    std::int64_t step = -1;
    std::from_chars(name.data() + 5, name.data() + name.size(), step);
    return step;
}

// What was left unfinished by other starts, and, below `step`, by this one.
void remove_leftovers(const fs::path& folder, std::string_view attempt, std::int64_t step) {
    std::error_code error;
    std::vector<fs::path> doomed;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
        const std::string name = at->path().filename().string();
        const std::int64_t of = leftover_step(name);
        const bool own = name.find("." + std::string(attempt)) != std::string::npos;
        if (of >= 0 && (!own || of < step)) doomed.push_back(at->path());
    }
    for (const fs::path& path : doomed)
        fs::remove_all(path, error);
}

class Writer final : public CheckpointWriter {
  public:
    explicit Writer(CheckpointOptions options)
        : options_(std::move(options)), attempt_(fmt::format("{:016x}", options_.attempt)) {}
    ~Writer() override {
        if (thread_.joinable()) thread_.join();
    }

    [[nodiscard]] Status start() const {
        std::error_code error;
        fs::create_directories(options_.folder, error);
        if (error)
            return Error{ErrorCode::Failure, fmt::format("cannot be created: {}", error.message()),
                         options_.folder.string(), ""};
        if (options_.rank == 0)
            remove_leftovers(options_.folder, "", std::numeric_limits<std::int64_t>::max());
        return ok();
    }

    Status save(const CheckpointState& state, std::span<const CheckpointTensor> tensors) override {
        if (Status before = wait(); !before) return before;
        auto snapshot = take_snapshot(options_, state, tensors);
        if (!snapshot) return snapshot.errors();
        snapshot_ = std::move(*snapshot);
        busy_ = true;
        thread_ = std::thread([this] {
            outcome_ = write();
            snapshot_.bytes.reset();
            busy_ = false;
        });
        return ok();
    }

    [[nodiscard]] bool busy() const override { return busy_; }
    [[nodiscard]] std::int64_t snapshot_bytes() const override { return busy_ ? snapshot_.size : 0; }

    Status wait() override {
        if (thread_.joinable()) thread_.join();
        return std::exchange(outcome_, ok());
    }

  private:
    Status write() {
        const std::string name = step_folder(snapshot_.state.step);
        const fs::path partial = options_.folder / fmt::format("{}.{}{}", name, attempt_, kPartial);
        if (options_.rank == 0) remove_leftovers(options_.folder, attempt_, snapshot_.state.step);
        std::error_code error;
        fs::create_directories(partial, error);
        Status written = write_part(options_, partial, snapshot_);
        if (!written) {
            // So that rank 0 does not wait for the deadline; on a full disk this may fail as well.
            (void)write_durably(partial / part_file(options_.rank, ".failed"),
                                to_string(written.errors().front()));
            return with_step(written);
        }
        if (options_.rank != 0) return ok();
        return with_step(complete(partial, options_.folder / name));
    }

    Status complete(const fs::path& partial, const fs::path& target) {
        if (Status there = wait_for_parts(options_, partial); !there) return there;
        const auto manifest = collect_manifest(options_, partial, snapshot_.state);
        if (!manifest) return manifest.errors();
        if (Status written = write_durably(partial / "manifest.json", manifest_text(*manifest)); !written)
            return written;
        std::error_code error;
        if (fs::exists(target, error)) remove_folder(target, attempt_);
        if (Status renamed = rename_durably(partial, target); !renamed) return renamed;
        const std::vector<std::int64_t> steps = checkpoint_steps(options_.folder);
        int kept = 0;
        for (const std::int64_t step : steps) {
            if (step > snapshot_.state.step) continue;  // another run's
            if (++kept > std::max(1, options_.keep))
                remove_folder(options_.folder / step_folder(step), attempt_);
        }
        return ok();
    }

    Status with_step(Status status) const {
        if (status) return status;
        Errors errors = status.errors();
        for (Error& error : errors)
            error.message = fmt::format("checkpoint of step {}: {}", snapshot_.state.step, error.message);
        return errors;
    }

    CheckpointOptions options_;
    std::string attempt_;
    Snapshot snapshot_;
    std::thread thread_;
    std::atomic<bool> busy_ = false;
    Status outcome_ = ok();
};

}  // namespace

Result<std::unique_ptr<CheckpointWriter>> CheckpointWriter::create(CheckpointOptions options) {
    TW_CHECK(options.rank >= 0 && options.rank < options.world);
    auto writer = std::make_unique<Writer>(std::move(options));
    if (const Status started = writer->start(); !started) return started.errors();
    return std::unique_ptr<CheckpointWriter>(std::move(writer));
}

}  // namespace tw
