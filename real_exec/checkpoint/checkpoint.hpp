// Checkpoints that do not depend on the layout: every rank writes the shards that it holds with their place
// in the whole tensor, and reads any region of a tensor back, whatever mesh and world size wrote it.
//
//   folder/step-00000020/manifest.json              written last: files, sizes, checksums, the run's state
//                        rank-00000.safetensors     one a rank: its pieces, flat, one checksum (CRC-32C) each
//                        rank-00000.json            what the pieces are
//   folder/step-00000020.<attempt>.partial/...      a save under way; renamed when it is complete
//
// Saving is asynchronous: save() takes a snapshot in host memory and returns; a thread writes and flushes it
// to disk. Rank 0's thread waits for the parts of all others through the file system, writes the manifest,
// renames the folder and removes all but the newest `keep` checkpoints. Nothing here needs a communicator, so
// it runs beside the training's own traffic. All ranks must see the same folder.
//
// Reading refuses by name what is torn (no manifest, a part missing), truncated or bit-flipped, and falls
// back to the checkpoint before (find_checkpoint).
//
// What a tensor is for is its `kind`: "weight" (the model's own precision), "master", "moment1", "moment2",
// "momentum", or the runtime's own words. Only one replica needs to pass a region; where several do, they
// hold the same values and any of them is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "real_exec/backend/tensor.hpp"
#include "real_exec/checkpoint/tensor_region.hpp"

namespace tw {

// What a run needs beside its tensors to go on. Samples follow from (step, seed) alone (data/dataset.hpp), so
// that no rank has a position of its own.
struct CheckpointState {
    std::int64_t step = 0;  // steps completed: the run goes on with this one
    std::uint64_t seed = 0;
    std::string model;  // name of the model
    std::string plan;   // summary() of the plan that wrote it: for messages only
    std::string data;   // Dataset::identity(): another one is an error on resuming
    // The runtime's own scalars, by name: "loss_scale", "optimizer_step", ...
    std::map<std::string, double> scalars;
    // Optimizer updates of each layer (vertex of the LayerGraph): a rank that saves gives those of its own
    // layers, a checkpoint that is read has all of them; none in one whose layers share one count.
    std::map<int, std::int64_t> layer_updates;
    friend bool operator==(const CheckpointState&, const CheckpointState&) = default;
};

struct CheckpointTensor {
    std::string kind;  // "weight", "master", "moment1", ...
    std::string name;  // Hugging Face's, as Parameter::name
    TensorRegion region;
    Tensor data;  // region.elements() elements, contiguous
};

// Faults for tests (--inject full-disk, corrupt).
struct CheckpointFaults {
    std::int64_t full_disk_after_bytes = -1;  // writing more fails as a full disk does; -1: never
    bool corrupt = false;  // flips one bit of the rank's file after its checksums are taken
};

struct CheckpointOptions {
    std::filesystem::path folder;
    int rank = 0, world = 1;
    std::uint64_t attempt = 0;  // the same on every rank, another one for every start of the run
    int keep = 2;               // complete checkpoints that stay, at least 1
    double deadline_s = 120;    // how long rank 0 waits for the other ranks' parts
    // Copies a tensor to host memory and returns when it is there; empty: the tensor is in host memory.
    std::function<Status(void* host, const Tensor& tensor)> to_host;
    CheckpointFaults faults;
};

class CheckpointWriter {
  public:
    // Creates the folder; rank 0 removes what earlier starts left unfinished. Every rank creates its writer
    // before the first step, so that nobody saves before that.
    static Result<std::unique_ptr<CheckpointWriter>> create(CheckpointOptions options);
    virtual ~CheckpointWriter() = default;  // waits for the save under way

    // Snapshots this rank's tensors and starts to write them; first waits for the save before, so that at
    // most one snapshot is held. Called by every rank for the same step, with any number of tensors (none
    // too). Errors: those of the save before, a region that does not fit its tensor, two tensors that are
    // one.
    virtual Status save(const CheckpointState& state, std::span<const CheckpointTensor> tensors) = 0;
    // Whether a save is under way on this rank.
    [[nodiscard]] virtual bool busy() const = 0;
    // Waits for the save under way and returns its outcome, once: on rank 0 that the checkpoint is complete,
    // on others that this rank's part is on disk. A failed save leaves the checkpoints before untouched.
    virtual Status wait() = 0;
    // Bytes of the snapshot that is held now.
    [[nodiscard]] virtual std::int64_t snapshot_bytes() const = 0;
};

// A complete checkpoint, opened for reading. Files are mapped, not read. Copyable; copies share the maps.
class Checkpoint {
  public:
    [[nodiscard]] const CheckpointState& state() const;
    [[nodiscard]] const std::filesystem::path& path() const;
    [[nodiscard]] int world() const;  // ranks that wrote it

    struct Entry {
        std::string kind, name;
        Shape shape;  // stored: without padding rows
        DType dtype = DType::F32;
    };
    [[nodiscard]] std::span<const Entry> entries() const;  // by kind, then name
    [[nodiscard]] const Entry* find(std::string_view kind, std::string_view name) const;

    // Reads a region into host memory of region.elements() elements of `dtype`, converting between F32, BF16
    // and F16; padding is zeroed. Checks the checksum of every piece that it touches, once. Errors: a tensor
    // that is not there (with the nearest name), another stored shape, elements that no rank wrote, a damaged
    // piece.
    Status read(std::string_view kind, std::string_view name, const TensorRegion& region, DType dtype,
                void* into) const;
    // Checks every checksum of this share of the files: rank r of n calls verify(r, n).
    [[nodiscard]] Status verify(int share = 0, int shares = 1) const;

    struct State;  // of an opened checkpoint; defined in checkpoint_reader.cpp
    explicit Checkpoint(std::shared_ptr<const State> state_of) : state_(std::move(state_of)) {}

  private:
    std::shared_ptr<const State> state_;
};

// Steps whose folders are there, newest first: complete or not is what opening says.
std::vector<std::int64_t> checkpoint_steps(const std::filesystem::path& folder);

// Reads the manifest and the indexes and checks sizes and checksums of both, not yet of the pieces.
Result<Checkpoint> open_checkpoint(const std::filesystem::path& folder, std::int64_t step);
// The same of one checkpoint's own folder, whatever its name; one that names a step is of that step.
Result<Checkpoint> open_checkpoint(const std::filesystem::path& path);

struct FoundCheckpoint {
    std::optional<Checkpoint> checkpoint;  // none: the folder holds none at all
    std::vector<std::string> refused;      // "step 20: rank-00002.safetensors is truncated (...)"
};

// The smallest of the values that the ranks pass and the first rank that passes it; a collective of the
// caller's. Empty for one process.
struct Smallest {
    std::int64_t value = 0;
    int rank = 0;
};
using SmallestOf = std::function<Result<Smallest>(std::int64_t)>;

// The newest checkpoint that every rank lists and finds whole: all agree on a step, each verifies its share,
// all agree, else the one before is tried. An error where checkpoints are there and none is whole (naming
// what is wrong with each), or where agreeing failed.
Result<FoundCheckpoint> find_checkpoint(const std::filesystem::path& folder, int rank = 0, int world = 1,
                                        const SmallestOf& smallest_of = {});

}  // namespace tw
