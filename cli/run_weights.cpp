// Files of weights and checkpoints, by their headers.
#include <array>
#include <fstream>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/si_format.hpp"
#include "cli/run_documents_json.hpp"
#include "models/formats/document_kinds.hpp"
#include "models/formats/text_lines.hpp"
#include "real_exec/checkpoint/checkpoint.hpp"
#include "real_exec/checkpoint/checkpoint_json.hpp"
#include "real_exec/checkpoint/safetensors.hpp"

namespace tw::cli {
namespace {

namespace fs = std::filesystem;

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
    std::int64_t product = 1;
    for (const std::int64_t size : shape)
        product *= size;
    return product;
}

// "model.layers.11.mlp.weight" is "model.layers.*.mlp.weight".
std::string pattern_of(std::string_view name) {
    std::string out;
    for (std::size_t begin = 0; begin <= name.size();) {
        const std::size_t end = std::min(name.find('.', begin), name.size());
        const std::string_view part = name.substr(begin, end - begin);
        const bool number = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
        out += (begin > 0 ? "." : "") + (number ? std::string("*") : std::string(part));
        begin = end + 1;
    }
    return out;
}

// Tensors of one pattern, type and shape are a line, in the order in which they first occur.
class TensorList {
  public:
    void add(std::string_view name, std::string_view dtype, const std::vector<std::int64_t>& shape) {
        const std::string text = fmt::format("{} [{}]", dtype, fmt::join(shape, ", "));
        const auto [found, is_new] = at_.try_emplace({pattern_of(name), text}, lines_.size());
        if (is_new) lines_.push_back({found->first.first, std::string(name), text, 0});
        ++lines_[found->second].count;
        elements_ += elements_of(shape);
        of_type_[std::string(dtype)] += elements_of(shape);
        ++tensors_;
    }
    [[nodiscard]] std::int64_t tensors() const { return tensors_; }
    [[nodiscard]] std::int64_t elements() const { return elements_; }
    [[nodiscard]] std::string types() const {
        if (of_type_.size() == 1) return of_type_.begin()->first;
        std::vector<std::string> parts;
        for (const auto& [type, elements] : of_type_)
            parts.push_back(fmt::format("{} {}", format_count(elements), type));
        return fmt::format("{}", fmt::join(parts, ", "));
    }
    void append_to(DocumentSummary& summary) const {
        constexpr std::size_t kMost = 200;
        for (std::size_t i = 0; i < std::min(kMost, lines_.size()); ++i) {
            const Line& line = lines_[i];
            summary.facts.emplace_back(
                excerpt(line.count > 1 ? line.pattern : line.first, 120),
                line.text + (line.count > 1 ? fmt::format(", {} of them", line.count) : ""));
        }
        if (lines_.size() > kMost)
            summary.facts.emplace_back("...", fmt::format("{} more names", lines_.size() - kMost));
    }

  private:
    struct Line {
        std::string pattern, first, text;
        std::int64_t count;
    };
    std::vector<Line> lines_;
    std::map<std::pair<std::string, std::string>, std::size_t> at_;
    std::map<std::string, std::int64_t> of_type_;
    std::int64_t tensors_ = 0, elements_ = 0;
};

std::string bytes_text(std::uintmax_t bytes) {
    return format_bytes(static_cast<double>(bytes));
}

// One checkpoint's own folder: by its name, also where saving it did not come to its end, or by its manifest,
// also where somebody gave it another name.
bool is_one_checkpoint(const fs::path& path) {
    const fs::path folder = path.filename().empty() ? path.parent_path() : path;
    const std::string name = folder.filename().string();
    if (name.starts_with("step-") && name.size() == 13 &&
        name.find_first_not_of("0123456789", 5) == std::string::npos)
        return true;
    const auto manifest = read_text_file(folder / "manifest.json");
    return manifest && documents::schema_of(*manifest) == "trainwright/checkpoint";
}

std::uintmax_t bytes_below(const fs::path& folder) {
    std::uintmax_t bytes = 0;
    std::error_code failed;
    for (fs::recursive_directory_iterator at(folder, failed), end; !failed && at != end;
         at.increment(failed)) {
        std::error_code ignored;
        if (at->is_regular_file(ignored)) bytes += at->file_size(ignored);
    }
    return bytes;
}

void add_state(DocumentSummary& summary, const Checkpoint& checkpoint) {
    const CheckpointState& state = checkpoint.state();
    summary.facts.emplace_back("model", state.model);
    summary.facts.emplace_back("plan", state.plan);
    summary.facts.emplace_back("steps done", format_count(state.step));
    summary.facts.emplace_back(
        "written by", fmt::format("{} {}", checkpoint.world(), checkpoint.world() == 1 ? "rank" : "ranks"));
    summary.facts.emplace_back("seed", std::to_string(state.seed));
    summary.facts.emplace_back("data", state.data);
    for (const auto& [name, value] : state.scalars)
        summary.facts.emplace_back(name, format_exact(value));
}

}  // namespace

bool is_safetensors_file(const fs::path& path) {
    std::error_code failed;
    if (!fs::is_regular_file(path, failed)) return false;
    if (path.extension() == ".safetensors") return true;
    // A header's length that fits the file, and the header's brace.
    std::ifstream file(path, std::ios::binary);
    std::array<unsigned char, 9> head{};
    if (!file.read(reinterpret_cast<char*>(head.data()), head.size())) return false;
    std::uint64_t length = 0;
    for (std::size_t i = 8; i-- > 0;)
        length = length << 8U | head[i];
    const std::uintmax_t size = fs::file_size(path, failed);
    return !failed && head[8] == '{' && length >= 2 && length <= size - 8 &&
           length <= static_cast<std::uint64_t>(kMaxSafetensorsHeader);
}

Result<DocumentSummary> describe_safetensors(const fs::path& path) {
    const auto file = SafetensorsFile::open(path);
    if (!file) return file.errors();
    TensorList tensors;
    for (const SafetensorsEntry& entry : file->header().entries)
        tensors.add(entry.name, entry.dtype, entry.shape);
    DocumentSummary summary;
    summary.kind = "safetensors weights";
    summary.title = fmt::format("{} tensors, {} parameters, {}", format_count(tensors.tensors()),
                                format_count(tensors.elements()), tensors.types());
    std::error_code failed;
    summary.facts = {{"tensors", format_count(tensors.tensors())},
                     {"parameters", format_count(tensors.elements())},
                     {"types", tensors.types()},
                     {"size", bytes_text(fs::file_size(path, failed))}};
    for (const auto& [key, value] : file->header().metadata)
        summary.facts.emplace_back("metadata " + key.substr(0, 40), value.substr(0, 80));
    tensors.append_to(summary);
    return summary;
}

bool is_checkpoint_folder(const fs::path& path) {
    std::error_code failed;
    if (!fs::is_directory(path, failed)) return false;
    return is_one_checkpoint(path) || !checkpoint_steps(path).empty();
}

Result<DocumentSummary> describe_checkpoint(const fs::path& path) {
    const bool one = is_one_checkpoint(path);
    std::vector<fs::path> places;
    if (one) places = {path};
    for (const std::int64_t step : one ? std::vector<std::int64_t>{} : checkpoint_steps(path))
        places.push_back(path / step_folder(step));
    DocumentSummary summary;
    summary.kind = "trainwright checkpoint";
    Errors errors;
    std::vector<std::string> whole;
    for (const fs::path& place : places) {
        const auto checkpoint = open_checkpoint(place);
        const std::uintmax_t bytes = bytes_below(place);
        const bool verifies = bytes <= static_cast<std::uintmax_t>(kVerifiedBytes);
        Errors found = checkpoint ? Errors{} : checkpoint.errors();
        if (checkpoint && whole.empty() && verifies) {
            if (const Status fits = checkpoint->verify(); !fits) found = fits.errors();
        }
        if (!found.empty()) {
            errors.insert(errors.end(), found.begin(), found.end());
            continue;
        }
        whole.push_back(std::to_string(checkpoint->state().step));
        if (whole.size() > 1) continue;
        TensorList weights, states;
        for (const Checkpoint::Entry& entry : checkpoint->entries()) {
            const std::vector<std::int64_t> shape(entry.shape.dims.begin(),
                                                  entry.shape.dims.begin() + entry.shape.rank);
            const bool weight = entry.kind == "weight" || entry.kind == "master";
            (weight ? weights : states).add(entry.name, safetensors_word(entry.dtype), shape);
        }
        summary.title = fmt::format("{} after step {}: {}", checkpoint->state().model, whole.front(),
                                    checkpoint->state().plan);
        add_state(summary, *checkpoint);
        summary.facts.emplace_back("weights",
                                   fmt::format("{} tensors, {} elements, {}", format_count(weights.tensors()),
                                               format_count(weights.elements()), weights.types()));
        if (states.tensors() > 0) {
            summary.facts.emplace_back(
                "optimizer states", fmt::format("{} tensors, {} elements, {}", format_count(states.tensors()),
                                                format_count(states.elements()), states.types()));
        }
        summary.facts.emplace_back("size", bytes_text(bytes));
        summary.facts.emplace_back("checksums",
                                   verifies ? "all fit" : "of the indexes fit, tensors not read");
        weights.append_to(summary);
    }
    if (whole.empty()) return errors;
    if (!one) {
        summary.facts.insert(summary.facts.begin() + 3,
                             {"checkpoints", fmt::format("after steps {}", fmt::join(whole, ", "))});
    }
    for (const Error& error : errors)
        summary.warnings.push_back(to_string(Errors{error}));
    return summary;
}

}  // namespace tw::cli
