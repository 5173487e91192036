#include "models/formats/topo_matrix.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "models/formats/text_lines.hpp"

namespace tw {
namespace {

constexpr std::size_t kMaxDevices = 512;

struct PathName {
    TopoPath path;
    std::string_view name;
};
constexpr std::array<PathName, 8> kPaths = {{{TopoPath::Self, "X"},
                                             {TopoPath::Pix, "PIX"},
                                             {TopoPath::Pxb, "PXB"},
                                             {TopoPath::Phb, "PHB"},
                                             {TopoPath::Node, "NODE"},
                                             {TopoPath::Sys, "SYS"},
                                             {TopoPath::PeerOk, "OK"},
                                             {TopoPath::PeerNo, "NS"}}};

// Without terminal escapes ("\x1b[4m"), which nvidia-smi prints around its header.
std::string without_escapes(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\x1b' && i + 1 < text.size() && text[i + 1] == '[') {
            i += 2;
            while (i < text.size() && (text[i] < '@' || text[i] > '~'))
                ++i;
            continue;
        }
        out += text[i];
    }
    return out;
}

// Device names of a header line, which ends where the affinities begin; empty where this is no header.
std::vector<std::string> header_devices(std::string_view line) {
    const auto tokens = split_tokens(line);
    std::vector<std::string> names;
    if (tokens.empty() || tokens[0] != "GPU0" || (tokens.size() > 1 && tokens[1] == "X")) return names;
    for (const std::string_view token : tokens) {
        if (token == "CPU" || token == "NUMA" || names.size() > kMaxDevices) break;
        names.push_back(excerpt(token));
    }
    return names;
}

std::optional<TopoCell> read_cell(std::string_view token) {
    for (const PathName& known : kPaths) {
        if (token == known.name) return TopoCell{.path = known.path};
    }
    for (const std::string_view no : {"CNS", "GNS", "TNS", "U"}) {
        if (token == no) return TopoCell{.path = TopoPath::PeerNo};
    }
    if (token == "SOC") return TopoCell{.path = TopoPath::Sys};  // drivers before 387
    if (token.starts_with("NV")) {
        const auto links = parse_integer(token.substr(2));
        if (links && *links > 0 && *links <= 1024)
            return TopoCell{TopoPath::NvLink, static_cast<int>(*links)};
    }
    return std::nullopt;
}

// Reads one row into device and cells; the message of what is wrong, or "".
std::string read_row(const std::vector<std::string_view>& tokens, TopoDevice& device,
                     std::vector<TopoCell>& cells, std::size_t count) {
    if (tokens.size() < count + 1) {
        return "row " + device.name + " has " + std::to_string(tokens.size() - 1) + " cells, the header " +
               std::to_string(count);
    }
    for (std::size_t i = 1; i <= count; ++i) {
        const auto cell = read_cell(tokens[i]);
        if (!cell) {
            return "row " + device.name + ": " + quote(tokens[i]) +
                   " is no connection (X, NV#, PIX, PXB, PHB, NODE, SYS)";
        }
        cells.push_back(*cell);
    }
    if (tokens.size() > count + 1) device.cpus = excerpt(tokens[count + 1]);
    if (tokens.size() > count + 2) device.numa = excerpt(tokens[count + 2]);
    return "";
}

}  // namespace

std::string to_string(const TopoCell& cell) {
    if (cell.path == TopoPath::NvLink) return "NV" + std::to_string(cell.nvlinks);
    for (const PathName& known : kPaths) {
        if (cell.path == known.path) return std::string(known.name);
    }
    return "?";
}

int TopoMatrix::gpus() const {
    return static_cast<int>(
        std::count_if(devices.begin(), devices.end(), [](const auto& d) { return d.gpu; }));
}

bool TopoMatrix::peer_status() const {
    for (const auto& row : cells) {
        for (const TopoCell& cell : row) {
            if (cell.path == TopoPath::PeerOk || cell.path == TopoPath::PeerNo) return true;
        }
    }
    return false;
}

bool TopoMatrix::all_pairs_nvlink() const {
    for (std::size_t i = 0; i < devices.size(); ++i) {
        for (std::size_t j = 0; j < devices.size(); ++j) {
            if (i != j && devices[i].gpu && devices[j].gpu && cells[i][j].path != TopoPath::NvLink)
                return false;
        }
    }
    return gpus() >= 2;
}

int TopoMatrix::nvlinks_of(int gpu) const {
    const auto row = static_cast<std::size_t>(gpu);
    int sum = 0, largest = 0, smallest = 1 << 20;
    for (std::size_t j = 0; j < devices.size(); ++j) {
        if (j == row || !devices[j].gpu) continue;
        const int links = cells[row][j].path == TopoPath::NvLink ? cells[row][j].nvlinks : 0;
        sum += links;
        largest = std::max(largest, links);
        smallest = std::min(smallest, links);
    }
    // Up to 18 links a GPU exist; equal cells that add up to more come from a switch, where each shows all
    // links.
    return largest == smallest && sum > 18 ? largest : sum;
}

bool looks_like_topo_matrix(std::string_view text) {
    const std::string plain = without_escapes(text.substr(0, 1 << 14));
    for (const std::string_view line : split_lines(plain)) {
        if (!header_devices(line).empty()) return true;
    }
    return false;
}

Result<TopoMatrix> parse_topo_matrix(std::string_view text, std::string_view name) {
    const std::string plain = without_escapes(text);
    TopoMatrix matrix;
    Errors errors;
    std::vector<std::string> columns;
    std::map<std::string, std::string, std::less<>> adapters;
    std::size_t number = 0, row = 0;
    for (const std::string_view line : split_lines(plain)) {
        ++number;
        if (columns.empty()) {
            columns = header_devices(line);
            continue;
        }
        const auto tokens = split_tokens(line);
        if (tokens.empty()) continue;
        if (tokens[0].starts_with("NIC") && tokens[0].ends_with(':') && tokens.size() == 2) {
            adapters[std::string(tokens[0].substr(0, tokens[0].size() - 1))] = excerpt(tokens[1]);
        }
        if (row >= columns.size() || tokens[0] != columns[row]) continue;
        TopoDevice device;
        device.name = columns[row];
        device.gpu = columns[row].starts_with("GPU");
        std::vector<TopoCell> cells;
        const std::string wrong = read_row(tokens, device, cells, columns.size());
        if (!wrong.empty()) {
            errors.push_back(unreadable_line(name, number, wrong));
        } else if (cells[row].path != TopoPath::Self) {
            errors.push_back(unreadable_line(
                name, number,
                "row " + device.name + " does not have its X in column " + std::to_string(row + 1)));
        }
        matrix.devices.push_back(std::move(device));
        matrix.cells.push_back(std::move(cells));
        ++row;
    }
    if (columns.empty()) {
        return Error{ErrorCode::Unreadable, "no header 'GPU0 GPU1 ...' of nvidia-smi topo -m",
                     std::string(name), ""};
    }
    if (columns.size() > kMaxDevices) {
        return Error{ErrorCode::Unreadable, "more than " + std::to_string(kMaxDevices) + " devices",
                     std::string(name), ""};
    }
    if (errors.empty() && row < columns.size()) {
        errors.push_back({ErrorCode::Unreadable,
                          "no row " + columns[row] + " although there is such a column", std::string(name),
                          ""});
    }
    if (!errors.empty()) return errors;
    for (TopoDevice& device : matrix.devices) {
        const auto adapter = adapters.find(device.name);
        if (adapter != adapters.end()) device.adapter = adapter->second;
    }
    for (std::size_t i = 0; i < row; ++i) {
        for (std::size_t j = i + 1; j < row; ++j) {
            if (matrix.cells[i][j] != matrix.cells[j][i] && matrix.warnings.size() < 8) {
                matrix.warnings.push_back(columns[i] + " to " + columns[j] + " is " +
                                          to_string(matrix.cells[i][j]) + ", back " +
                                          to_string(matrix.cells[j][i]));
            }
        }
    }
    return matrix;
}

}  // namespace tw
