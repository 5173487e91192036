#include <algorithm>
#include <charconv>
#include <mutex>
#include <system_error>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/nearest.hpp"
#include "real_exec/backend/copy_bytes.hpp"
#include "real_exec/checkpoint/checkpoint.hpp"
#include "real_exec/checkpoint/checkpoint_json.hpp"
#include "real_exec/checkpoint/crc32c.hpp"
#include "real_exec/checkpoint/float_convert.hpp"
#include "real_exec/checkpoint/mapped_file.hpp"

namespace tw {

struct Checkpoint::State {
    struct Piece {
        CheckpointPiece piece;
        std::size_t part = 0;
        std::vector<ElementRun> runs;  // local: elements within the piece's bytes
    };
    struct Part {
        CheckpointPart index;
        std::shared_ptr<MappedFile> file;
        std::filesystem::path path;
        std::size_t first_piece = 0;  // its pieces are pieces[first_piece ..] in the index's order
    };
    std::filesystem::path path;
    CheckpointManifest manifest;
    std::vector<Part> parts;
    std::vector<Piece> pieces;
    std::vector<Entry> entries;
    std::vector<std::vector<std::size_t>> pieces_of;  // by entry
    // 0: not looked at, 1: whole, 2: damaged. Guarded: several threads may read.
    mutable std::vector<unsigned char> checked;
    mutable std::mutex mutex;

    [[nodiscard]] std::span<const std::byte> bytes(const Piece& piece) const {
        return parts[piece.part].file->bytes().subspan(static_cast<std::size_t>(piece.piece.begin),
                                                       static_cast<std::size_t>(piece.piece.bytes));
    }
    [[nodiscard]] Status whole(std::size_t at) const;
    [[nodiscard]] Status whole_part(const Part& part) const;
};

namespace {

Error unreadable(std::string message, std::string context, std::string hint = {}) {
    return {ErrorCode::Unreadable, std::move(message), std::move(context), std::move(hint)};
}

// Stored elements of a piece lie one after another, padding left out.
std::vector<ElementRun> packed_runs(const TensorRegion& region) {
    std::vector<ElementRun> runs = runs_of(region);
    std::int64_t at = 0;
    for (ElementRun& run : runs) {
        run.local = at;
        at += run.length;
    }
    return runs;
}

// 20 of "step-00000020".
std::optional<std::int64_t> named_step(const std::filesystem::path& path) {
    const std::string name = (path.filename().empty() ? path.parent_path() : path).filename().string();
    if (!name.starts_with("step-")) return std::nullopt;
    std::int64_t step = 0;
    const char* const end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + 5, end, step);
    if (parsed.ec != std::errc{} || parsed.ptr != end || step < 0) return std::nullopt;
    return step;
}

Result<std::string> read_index(const std::filesystem::path& path, const CheckpointManifest::Part& expected) {
    const auto text = read_text_file(path);
    if (!text) return text.errors();
    if (static_cast<std::int64_t>(text->size()) != expected.index_bytes)
        return unreadable(fmt::format("is truncated or was replaced: {} bytes, the manifest says {}",
                                      text->size(), expected.index_bytes),
                          path.string());
    const std::uint32_t found = crc32c(std::as_bytes(std::span(text->data(), text->size())));
    if (found != expected.index_crc32c)
        return unreadable(fmt::format("is damaged: its checksum is {:08x}, the manifest says {:08x}", found,
                                      expected.index_crc32c),
                          path.string());
    return text;
}

Status open_part(int rank, Checkpoint::State& state) {
    const CheckpointManifest::Part& expected = state.manifest.parts[static_cast<std::size_t>(rank)];
    const std::filesystem::path index_path = state.path / part_file(rank, ".json");
    const auto text = read_index(index_path, expected);
    if (!text) return text.errors();
    auto index = part_from_text(*text, index_path.string());
    if (!index) return index.errors();
    Checkpoint::State::Part part;
    part.path = state.path / part_file(rank, ".safetensors");
    auto file = MappedFile::open(part.path);
    if (!file) return file.errors();
    const auto size = static_cast<std::int64_t>((*file)->bytes().size());
    if (size != expected.file_bytes || size != index->file_bytes)
        return unreadable(fmt::format("is {}: {} bytes, the manifest says {}",
                                      size < expected.file_bytes ? "truncated" : "of another length", size,
                                      expected.file_bytes),
                          part.path.string());
    if (index->rank != rank || index->step != state.manifest.state.step)
        return unreadable(fmt::format("belongs to rank {} of step {}", index->rank, index->step),
                          index_path.string());
    state.manifest.state.layer_updates.insert(index->layer_updates.begin(), index->layer_updates.end());
    part.file = *file;
    part.first_piece = state.pieces.size();
    for (const CheckpointPiece& piece : index->pieces)
        state.pieces.push_back({piece, state.parts.size(), packed_runs(piece.region)});
    part.index = std::move(*index);
    state.parts.push_back(std::move(part));
    return ok();
}

// Groups the pieces by tensor; all pieces of one agree on its shape and type.
Status collect_entries(Checkpoint::State& state) {
    std::vector<std::size_t> order(state.pieces.size());
    for (std::size_t i = 0; i < order.size(); ++i)
        order[i] = i;
    const auto key = [&](std::size_t i) {
        const CheckpointPiece& piece = state.pieces[i].piece;
        return std::tie(piece.kind, piece.name);
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
    for (const std::size_t i : order) {
        const CheckpointPiece& piece = state.pieces[i].piece;
        if (state.entries.empty() || state.entries.back().kind != piece.kind ||
            state.entries.back().name != piece.name) {
            state.entries.push_back({piece.kind, piece.name, piece.region.stored_shape(), piece.dtype});
            state.pieces_of.emplace_back();
        }
        const Checkpoint::Entry& entry = state.entries.back();
        if (!(entry.shape == piece.region.stored_shape()) || entry.dtype != piece.dtype)
            return unreadable("two ranks give it different shapes or types",
                              fmt::format("{} {}", piece.kind, piece.name));
        state.pieces_of.back().push_back(i);
    }
    return ok();
}

}  // namespace

Status Checkpoint::State::whole(std::size_t at) const {
    const Piece& piece = pieces[at];
    {
        const std::scoped_lock lock(mutex);
        if (checked[at] == 1) return ok();
    }
    const std::uint32_t found = crc32c(bytes(piece));
    const bool fits = found == piece.piece.crc32c;
    {
        const std::scoped_lock lock(mutex);
        checked[at] = fits ? 1 : 2;
    }
    if (fits) return ok();
    return unreadable(fmt::format("is damaged: {} {} (bytes {} to {}) has the checksum {:08x}, not {:08x}",
                                  piece.piece.kind, piece.piece.name, piece.piece.begin,
                                  piece.piece.begin + piece.piece.bytes, found, piece.piece.crc32c),
                      parts[piece.part].path.string());
}

Status Checkpoint::State::whole_part(const Part& part) const {
    const auto head = part.file->bytes().first(static_cast<std::size_t>(part.index.head_bytes));
    if (crc32c(head) != part.index.head_crc32c)
        return unreadable("is damaged: its header has another checksum than its index says",
                          part.path.string());
    for (std::size_t i = 0; i < part.index.pieces.size(); ++i)
        if (const Status intact = whole(part.first_piece + i); !intact) return intact;
    return ok();
}

const CheckpointState& Checkpoint::state() const {
    return state_->manifest.state;
}
const std::filesystem::path& Checkpoint::path() const {
    return state_->path;
}
int Checkpoint::world() const {
    return static_cast<int>(state_->parts.size());
}
std::span<const Checkpoint::Entry> Checkpoint::entries() const {
    return state_->entries;
}

const Checkpoint::Entry* Checkpoint::find(std::string_view kind, std::string_view name) const {
    const auto at = std::lower_bound(state_->entries.begin(), state_->entries.end(), std::tie(kind, name),
                                     [](const Entry& entry, const auto& key) {
                                         return std::tuple<std::string_view, std::string_view>(
                                                    entry.kind, entry.name) < key;
                                     });
    return at != state_->entries.end() && at->kind == kind && at->name == name ? &*at : nullptr;
}

Status Checkpoint::read(std::string_view kind, std::string_view name, const TensorRegion& region, DType dtype,
                        void* into) const {
    const std::string what = fmt::format("{}: {} {}", state_->path.string(), kind, name);
    const Entry* const entry = find(kind, name);
    if (entry == nullptr) {
        std::vector<std::string> names;
        for (const Entry& one : state_->entries)
            if (one.kind == kind) names.push_back(one.name);
        const std::string near = nearest(name, names);
        return unreadable("is not in the checkpoint", what,
                          near.empty() ? "" : fmt::format("did you mean '{}'?", near));
    }
    if (const Status legal = check_region(region, what); !legal) return legal;
    const Shape wanted = region.stored_shape();
    if (!(entry->shape == wanted))
        return unreadable(
            fmt::format(
                "has shape [{}], the model needs [{}]",
                fmt::join(entry->shape.dims.begin(), entry->shape.dims.begin() + entry->shape.rank, ", "),
                fmt::join(wanted.dims.begin(), wanted.dims.begin() + wanted.rank, ", ")),
            what);
    if ((entry->dtype == DType::I32) != (dtype == DType::I32))
        return unreadable(
            fmt::format("is stored as {}, asked for as {}", to_string(entry->dtype), to_string(dtype)), what);

    auto* const target = static_cast<std::byte*>(into);
    const std::size_t from_size = bytes_of(entry->dtype), to_size = bytes_of(dtype);
    clear_bytes(target, static_cast<std::size_t>(region.elements()) * to_size);
    const std::vector<ElementRun> runs = runs_of(region);
    std::int64_t needed = 0;
    for (const ElementRun& run : runs)
        needed += run.length;
    std::vector<std::pair<std::int64_t, std::int64_t>> filled;  // local begin, end
    for (const std::size_t at : state_->pieces_of[static_cast<std::size_t>(entry - state_->entries.data())]) {
        const std::vector<SharedRun> shared = shared_runs(state_->pieces[at].runs, runs);
        if (shared.empty()) continue;
        if (const Status intact = state_->whole(at); !intact) return intact;
        const std::byte* const source = state_->bytes(state_->pieces[at]).data();
        for (const SharedRun& run : shared) {
            convert_elements(source + static_cast<std::size_t>(run.from) * from_size, entry->dtype,
                             target + static_cast<std::size_t>(run.to) * to_size, dtype, run.length);
            filled.emplace_back(run.to, run.to + run.length);
        }
    }
    std::sort(filled.begin(), filled.end());
    std::int64_t covered = 0, end = 0;
    for (const auto& [from, to] : filled) {
        covered += std::max<std::int64_t>(0, to - std::max(from, end));
        end = std::max(end, to);
    }
    if (covered != needed)
        return unreadable(fmt::format("{} of {} elements were written by no rank", needed - covered, needed),
                          what);
    return ok();
}

Status Checkpoint::verify(int share, int shares) const {
    TW_CHECK(share >= 0 && share < shares);
    for (auto part = static_cast<std::size_t>(share); part < state_->parts.size();
         part += static_cast<std::size_t>(shares))
        if (const Status intact = state_->whole_part(state_->parts[part]); !intact) return intact;
    return ok();
}

std::vector<std::int64_t> checkpoint_steps(const std::filesystem::path& folder) {
    std::vector<std::int64_t> steps;
    std::error_code error;
    for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
         at.increment(error)) {
        if (const auto step = named_step(at->path())) steps.push_back(*step);
    }
    std::sort(steps.rbegin(), steps.rend());
    return steps;
}

Result<Checkpoint> open_checkpoint(const std::filesystem::path& folder, std::int64_t step) {
    return open_checkpoint(folder / step_folder(step));
}

Result<Checkpoint> open_checkpoint(const std::filesystem::path& path) {
    auto state = std::make_shared<Checkpoint::State>();
    state->path = path;
    const std::filesystem::path manifest = state->path / "manifest.json";
    std::error_code error;
    if (!std::filesystem::exists(manifest, error))
        return unreadable("is torn: it has no manifest.json, saving it did not come to its end",
                          state->path.string());
    const auto text = read_text_file(manifest);
    if (!text) return text.errors();
    auto parsed = manifest_from_text(*text, manifest.string());
    if (!parsed) return parsed.errors();
    state->manifest = std::move(*parsed);
    const std::int64_t step = state->manifest.state.step;
    if (named_step(path).value_or(step) != step)
        return unreadable(fmt::format("is of step {}", step), manifest.string());
    for (int rank = 0; rank < static_cast<int>(state->manifest.parts.size()); ++rank)
        if (const Status opened = open_part(rank, *state); !opened) return opened.errors();
    if (const Status collected = collect_entries(*state); !collected) return collected.errors();
    state->checked.assign(state->pieces.size(), 0);
    return Checkpoint(std::move(state));
}

Result<FoundCheckpoint> find_checkpoint(const std::filesystem::path& folder, int rank, int world,
                                        const SmallestOf& smallest_of) {
    constexpr std::int64_t kNone = -1;
    const auto agreed = [&](std::int64_t own) -> Result<Smallest> {
        return smallest_of ? smallest_of(own) : Result<Smallest>(Smallest{own, rank});
    };
    FoundCheckpoint found;
    Errors errors;
    const auto refuse = [&](std::int64_t step, Error error) {
        found.refused.push_back(fmt::format("step {}: {}", step, to_string(error)));
        errors.push_back(std::move(error));
    };
    const std::vector<std::int64_t> listed = checkpoint_steps(folder);
    for (auto next = listed.begin();;) {
        const auto chosen = agreed(next == listed.end() ? kNone : *next);
        if (!chosen) return chosen.errors();
        const std::int64_t step = chosen->value;
        // A file system may show a folder to one rank before it shows it to another.
        for (; next != listed.end() && *next > step; ++next)
            refuse(*next, unreadable(fmt::format("rank {} does not find it", chosen->rank),
                                     (folder / step_folder(*next)).string()));
        if (step == kNone) break;
        if (next != listed.end() && *next == step) ++next;
        auto checkpoint = open_checkpoint(folder, step);
        Status intact = checkpoint ? checkpoint->verify(rank, world) : Status(checkpoint.errors());
        const auto all = agreed(intact ? 1 : 0);
        if (!all) return all.errors();
        if (all->value == 1) {
            found.checkpoint = std::move(*checkpoint);
            return found;
        }
        if (intact)
            intact = unreadable("another rank found it damaged", (folder / step_folder(step)).string());
        refuse(step, intact.errors().front());
    }
    if (!errors.empty()) return errors;
    return found;
}

}  // namespace tw
