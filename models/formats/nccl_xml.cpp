#include "models/formats/nccl_xml.hpp"

#include <algorithm>
#include <charconv>
#include <set>

#include <pugixml.hpp>

#include "models/formats/text_lines.hpp"

namespace tw {
namespace {

constexpr int kMaxDepth = 64;

// GB/s; NCCL src/graph/topo.h, xml.cc (kvDictPciGen).
double pci_rate(std::string_view speed, std::int64_t width) {
    const std::string_view number = trim(speed.substr(0, speed.find("GT/s")));
    const double transfers = parse_number(number).value_or(0);
    double lane = 60;
    for (const auto& [rate, value] :
         {std::pair{2.5, 15.0}, {5.0, 30.0}, {8.0, 60.0}, {16.0, 120.0}, {32.0, 240.0}, {64.0, 480.0}}) {
        if (transfers == rate) lane = value;
    }
    return static_cast<double>(width == 0 ? 16 : width) * lane / 80;
}

// GB/s of one NVLink and direction; NCCL src/graph/topo.h.
double nvlink_rate(int sm) {
    if (sm >= 100) return 40.1;
    if (sm >= 90) return 20.6;
    if (sm == 86) return 12;
    if (sm >= 70) return 20;
    return sm >= 60 ? 18 : 0;
}

class XmlReader {
  public:
    XmlReader(std::string_view text, std::string_view name) : text_(text), name_(name) {}

    bool load(std::string_view root) {
        const auto result =
            document_.load_buffer(text_.data(), text_.size(), pugi::parse_default, pugi::encoding_utf8);
        if (!result) {
            fail_at(result.offset, std::string("not XML: ") + result.description());
            return false;
        }
        if (root != document_.document_element().name()) {
            fail_at(document_.document_element().offset_debug(),
                    "the root is <" + excerpt(document_.document_element().name()) + ">, expected <" +
                        std::string(root) + ">");
            return false;
        }
        return true;
    }

    [[nodiscard]] pugi::xml_node root() const { return document_.document_element(); }

    // An attribute's number; `fallback` where it is absent or empty.
    double number(pugi::xml_node node, const char* key, double fallback, double low, double high) {
        const std::string_view value = node.attribute(key).value();
        if (trim(value).empty()) return fallback;
        const auto parsed = parse_number(trim(value));
        if (!parsed || *parsed < low || *parsed > high) {
            fail_at(node.offset_debug(), std::string(node.name()) + " " + key + "=" + quote(value) +
                                             " is not a number in [" + compact(low) + ", " + compact(high) +
                                             "]");
            return fallback;
        }
        return *parsed;
    }
    int integer(pugi::xml_node node, const char* key, int fallback, int low, int high) {
        return static_cast<int>(number(node, key, fallback, low, high));
    }
    // "0x030200"; 0 where absent.
    std::uint32_t hex(pugi::xml_node node, const char* key) {
        std::string_view value = node.attribute(key).value();
        if (value.empty()) return 0;
        if (value.starts_with("0x")) value.remove_prefix(2);
        std::uint32_t parsed = 0;
        const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed, 16);
        if (error != std::errc{} || end != value.data() + value.size()) {
            fail_at(node.offset_debug(),
                    std::string(node.name()) + " " + key + "=" + quote(value) + " is not hexadecimal");
            return 0;
        }
        return parsed;
    }

    void fail_at(std::ptrdiff_t offset, std::string message) {
        if (errors.size() >= 20) return;
        const auto end = std::clamp<std::ptrdiff_t>(offset, 0, static_cast<std::ptrdiff_t>(text_.size()));
        const auto line = std::count(text_.begin(), text_.begin() + end, '\n') + 1;
        errors.push_back(unreadable_line(name_, static_cast<std::size_t>(line), std::move(message)));
    }

    Errors errors;

  private:
    std::string_view text_, name_;
    pugi::xml_document document_;
};

class TopologyReader {
  public:
    TopologyReader(XmlReader& xml, NcclTopology& topology) : xml_(xml), topology_(topology) {}

    void read() {
        for (const pugi::xml_node node : xml_.root().children()) {
            if (std::string_view(node.name()) != "cpu") {
                unknown_.insert(excerpt(node.name()));
                continue;
            }
            NcclCpu cpu{.numa = xml_.integer(node, "numaid", -1, -1, 1 << 20),
                        .arch = excerpt(node.attribute("arch").value()),
                        .vendor = excerpt(node.attribute("vendor").value())};
            read_children(node, cpu.numa, 0);
            topology_.cpus.push_back(std::move(cpu));
        }
        topology_.switches.assign(switches_.begin(), switches_.end());
        for (const std::string& name : unknown_)
            topology_.warnings.push_back("element <" + name + "> is not understood");
    }

  private:
    void read_children(pugi::xml_node parent, int numa, int depth) {
        if (depth > kMaxDepth) return xml_.fail_at(parent.offset_debug(), "nested deeper than 64 levels");
        for (const pugi::xml_node node : parent.children()) {
            const std::string_view kind = node.name();
            if (kind == "pci") {
                read_pci(node, numa, depth);
            } else if (kind == "nic") {
                read_nic(parent, node, numa);
            } else if (kind != "gpu") {  // a GPU was read with its pci
                unknown_.insert(excerpt(kind));
            }
        }
    }

    void read_pci(pugi::xml_node node, int numa, int depth) {
        ++topology_.pci_devices;
        const std::uint32_t device_class = xml_.hex(node, "class");
        if (device_class >> 16 == 0x02) ++topology_.pci_nics;
        const pugi::xml_node described = node.child("gpu");
        if (device_class >> 16 == 0x03 || described) {
            NcclGpu gpu;
            gpu.bus_id = excerpt(node.attribute("busid").value());
            gpu.numa = numa;
            const int width = xml_.integer(node, "link_width", 0, 0, 64);
            gpu.pci = BytesPerSecond(pci_rate(node.attribute("link_speed").value(), width) * 1e9);
            gpu.path = path_;
            if (described) read_gpu(described, gpu);
            topology_.gpus.push_back(std::move(gpu));
        }
        path_.push_back(topology_.pci_devices);
        read_children(node, numa, depth + 1);
        path_.pop_back();
    }

    void read_gpu(pugi::xml_node node, NcclGpu& gpu) {
        gpu.described = true;
        gpu.dev = xml_.integer(node, "dev", -1, -1, 1 << 20);
        gpu.sm = xml_.integer(node, "sm", 0, 0, 10'000);
        gpu.rank = xml_.integer(node, "rank", -1, -1, 1 << 30);
        int links = 0;
        for (const pugi::xml_node child : node.children()) {
            const std::string_view kind = child.name();
            if (kind == "nvlink") {
                NcclNvLink link{.target = excerpt(child.attribute("target").value()),
                                .count = xml_.integer(child, "count", 1, 0, 1024),
                                .target_class = xml_.hex(child, "tclass")};
                links += link.count;
                if (link.target_class >> 8 == 0x0680) switches_.insert(link.target);
                if (link.target == gpu.bus_id) {
                    topology_.warnings.push_back("GPU " + gpu.bus_id + " has an NVLink to itself");
                }
                gpu.links.push_back(std::move(link));
            } else if (kind != "c2c") {
                unknown_.insert(excerpt(kind));
            }
        }
        gpu.nvlink = BytesPerSecond(nvlink_rate(gpu.sm) * links * 1e9);
    }

    // `parent`: the card's <pci>, or the <cpu> of a port that is behind none.
    void read_nic(pugi::xml_node parent, pugi::xml_node node, int numa) {
        BytesPerSecond pci;
        std::vector<int> path = path_;
        if (std::string_view(parent.name()) == "pci") {
            const int width = xml_.integer(parent, "link_width", 0, 0, 64);
            pci = BytesPerSecond(pci_rate(parent.attribute("link_speed").value(), width) * 1e9);
            path.pop_back();  // the card itself
        }
        for (const pugi::xml_node child : node.children()) {
            if (std::string_view(child.name()) != "net") {
                unknown_.insert(excerpt(child.name()));
                continue;
            }
            const double megabits = xml_.number(child, "speed", 0, 0, 1e9);
            topology_.nets.push_back({.name = excerpt(child.attribute("name").value()),
                                      .numa = numa,
                                      .dev = xml_.integer(child, "dev", -1, -1, 1 << 20),
                                      .port = xml_.integer(child, "port", 0, 0, 1 << 20),
                                      .speed = BytesPerSecond(megabits * 1e6 / 8),
                                      .gdr = xml_.integer(child, "gdr", 0, 0, 1) == 1,
                                      .pci = pci,
                                      .path = path});
        }
    }

    XmlReader& xml_;
    NcclTopology& topology_;
    std::set<std::string> switches_, unknown_;
    std::vector<int> path_;
};

bool root_is(std::string_view text, std::string_view root) {
    // The first element: behind a declaration and comments.
    std::string_view rest = trim(text);
    if (rest.starts_with("\xef\xbb\xbf")) rest.remove_prefix(3);
    while (rest.starts_with("<?") || rest.starts_with("<!--")) {
        const std::string_view closing = rest.starts_with("<?") ? "?>" : "-->";
        const auto end = rest.find(closing);
        if (end == std::string_view::npos) return false;
        rest = trim(rest.substr(end + closing.size()));
    }
    if (!rest.starts_with('<') || !rest.substr(1).starts_with(root)) return false;
    const std::string_view after = rest.substr(1 + root.size());
    return !after.empty() && std::string_view(" \t\r\n>/").find(after.front()) != std::string_view::npos;
}

}  // namespace

std::string nccl_pattern_name(int pattern) {
    switch (pattern) {
        case 1:
            return "balanced tree";
        case 2:
            return "split tree";
        case 3:
            return "tree";
        case 4:
            return "ring";
        case 5:
            return "NVLS";
        case 6:
            return "CollNet direct";
        default:
            return "pattern " + std::to_string(pattern);
    }
}

bool looks_like_nccl_topology(std::string_view text) {
    return root_is(text, "system");
}
bool looks_like_nccl_graphs(std::string_view text) {
    return root_is(text, "graphs");
}

Result<NcclTopology> parse_nccl_topology(std::string_view text, std::string_view name) {
    XmlReader xml(text, name);
    NcclTopology topology;
    if (xml.load("system")) {
        TopologyReader(xml, topology).read();
        if (topology.cpus.empty()) xml.fail_at(0, "a <system> without any <cpu>");
    }
    if (!xml.errors.empty()) return xml.errors;
    return topology;
}

Result<NcclGraphs> parse_nccl_graphs(std::string_view text, std::string_view name) {
    XmlReader xml(text, name);
    NcclGraphs result;
    if (!xml.load("graphs")) return xml.errors;
    for (const pugi::xml_node node : xml.root().children("graph")) {
        NcclGraph graph;
        graph.id = xml.integer(node, "id", 0, 0, 1 << 20);
        graph.pattern = xml.integer(node, "pattern", 0, 0, 1 << 20);
        graph.channels = xml.integer(node, "nchannels", 0, 0, 1 << 20);
        graph.speed_intra = xml.number(node, "speedintra", 0, 0, 1e6);
        graph.speed_inter = xml.number(node, "speedinter", 0, 0, 1e6);
        graph.type_intra = excerpt(node.attribute("typeintra").value());
        graph.type_inter = excerpt(node.attribute("typeinter").value());
        const auto listed = node.children("channel");
        const auto channels = std::distance(listed.begin(), listed.end());
        if (channels != 0 && channels != graph.channels) {
            result.warnings.push_back("graph " + std::to_string(graph.id) + " announces " +
                                      std::to_string(graph.channels) + " channels and lists " +
                                      std::to_string(channels));
        }
        const auto gpus = node.child("channel").children("gpu");
        graph.gpus = static_cast<int>(std::distance(gpus.begin(), gpus.end()));
        result.graphs.push_back(std::move(graph));
    }
    if (result.graphs.empty()) xml.fail_at(0, "<graphs> without any <graph>");
    if (!xml.errors.empty()) return xml.errors;
    return result;
}

}  // namespace tw
