#include "models/formats/chakra.hpp"

#include <functional>
#include <optional>

#include "models/formats/text_lines.hpp"

namespace tw {
namespace {

// Protobuf's wire format (protobuf.dev/programming-guides/encoding).
class Wire {
  public:
    explicit Wire(std::string_view bytes) : bytes_(bytes) {}

    [[nodiscard]] bool done() const { return at_ >= bytes_.size() || bad_; }
    [[nodiscard]] bool bad() const { return bad_; }
    [[nodiscard]] std::size_t at() const { return at_; }

    std::uint64_t varint() {
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift < 64; shift += 7) {
            if (at_ >= bytes_.size()) return fail();
            const auto byte = static_cast<unsigned char>(bytes_[at_++]);
            value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
            if (byte < 0x80) return value;
        }
        return fail();
    }

    std::string_view chunk() {
        const std::uint64_t size = varint();
        if (bad_ || size > bytes_.size() - at_) {
            fail();
            return {};
        }
        const std::string_view result = bytes_.substr(at_, size);
        at_ += size;
        return result;
    }

    // The next field's number, its value as a number or as bytes; 0 at the end.
    int field(std::uint64_t& number, std::string_view& bytes) {
        if (done()) return 0;
        const std::uint64_t tag = varint();
        number = 0;
        bytes = {};
        switch (tag & 7) {
            case 0:
                number = varint();
                break;
            case 1:
                skip(8);
                break;
            case 2:
                bytes = chunk();
                break;
            case 5:
                skip(4);
                break;
            default:
                fail();
        }
        if (bad_ || (tag >> 3) == 0 || (tag >> 3) > 536'870'911) {
            bad_ = true;
            return 0;
        }
        return static_cast<int>(tag >> 3);
    }

  private:
    std::uint64_t fail() {
        bad_ = true;
        return 0;
    }
    void skip(std::size_t count) {
        if (count > bytes_.size() - at_) {
            fail();
        } else {
            at_ += count;
        }
    }
    std::string_view bytes_;
    std::size_t at_ = 0;
    bool bad_ = false;
};

// AttributeProto: name 1, doc_string 2, then one value: int32 7, int64 9, uint64 13, bool 27, string 29
// (et_def.proto).
constexpr int kInt32 = 7, kInt64 = 9, kUint64 = 13, kBool = 27, kString = 29;

// Nothing where the value is of another type.
std::optional<ChakraAttribute> read_attribute(std::string_view bytes) {
    ChakraAttribute attribute;
    bool known = false;
    Wire wire(bytes);
    std::uint64_t number = 0;
    std::string_view chunk;
    while (const int field = wire.field(number, chunk)) {
        if (field == 1) attribute.name = chunk;
        const bool value =
            field == kInt32 || field == kInt64 || field == kUint64 || field == kBool || field == kString;
        known = known || value;
        if (field == kInt32) attribute.value = static_cast<std::int32_t>(number & 0xffff'ffffULL);
        if (field == kInt64) attribute.value = static_cast<std::int64_t>(number);
        if (field == kUint64) attribute.value = number;
        if (field == kBool) attribute.value = number != 0;
        if (field == kString) attribute.value = std::string(chunk);
    }
    return known ? std::optional(std::move(attribute)) : std::nullopt;
}

// A repeated number: packed into one field, or one a field.
void add_numbers(std::vector<std::uint64_t>& numbers, std::uint64_t number, std::string_view packed,
                 bool& bad) {
    if (packed.data() == nullptr) {
        numbers.push_back(number);
        return;
    }
    Wire wire(packed);
    while (!wire.done())
        numbers.push_back(wire.varint());
    bad = bad || wire.bad();
}

// Node: id 1, name 2, type 3, ctrl_deps 4, data_deps 5, start_time_micros 6, duration_micros 7, attr 10.
std::optional<ChakraNode> read_node(std::string_view bytes) {
    ChakraNode node;
    node.type = ChakraType{};
    Wire wire(bytes);
    std::uint64_t number = 0;
    std::string_view chunk;
    bool bad = false;
    while (const int field = wire.field(number, chunk)) {
        if (field == 1) node.id = number;
        if (field == 2) node.name = chunk;
        if (field == 3) node.type = static_cast<ChakraType>(number & 0xff);
        if (field == 4) add_numbers(node.control_dependencies, number, chunk, bad);
        if (field == 5) add_numbers(node.data_dependencies, number, chunk, bad);
        if (field == 6) node.start_us = number;
        if (field == 7) node.duration_us = number;
        if (field != 10) continue;
        if (auto attribute = read_attribute(chunk)) node.attributes.push_back(std::move(*attribute));
    }
    if (wire.bad() || bad) return std::nullopt;
    return node;
}

// A whole number of either width; 0 where it is none.
std::int64_t whole(const ChakraAttribute& attribute) {
    if (const auto* value = std::get_if<std::int64_t>(&attribute.value)) return *value;
    const auto* value = std::get_if<std::uint64_t>(&attribute.value);
    return value == nullptr ? 0 : static_cast<std::int64_t>(*value & 0x7fff'ffff'ffff'ffffULL);
}

void add_to(ChakraTrace& trace, const ChakraNode& node) {
    std::int64_t size = 0, operations = 0;
    for (const ChakraAttribute& attribute : node.attributes) {
        if (attribute.name == "num_ops") operations = whole(attribute);
        if (attribute.name != "comm_size") continue;
        size = whole(attribute) & 0x7fff'ffff'ffff'ffffLL;
        trace.sizes_of_wrong_type |= std::holds_alternative<std::uint64_t>(attribute.value);
    }
    if (trace.first_name.empty()) trace.first_name = excerpt(node.name);
    const bool collective = node.type == ChakraType::Collective, send = node.type == ChakraType::Send;
    const bool compute = node.type == ChakraType::Compute;
    ++trace.nodes;
    trace.compute += compute ? 1 : 0;
    trace.timed += compute && (node.duration_us > 0 || operations > 0) ? 1 : 0;
    trace.send += send ? 1 : 0;
    trace.receive += node.type == ChakraType::Receive ? 1 : 0;
    trace.collective += collective ? 1 : 0;
    std::int64_t& sum = collective ? trace.collective_bytes : trace.sent_bytes;
    if (collective || send) sum = size > (std::int64_t{1} << 60) - sum ? sum : sum + size;
}

bool is_version(std::string_view text) {
    return !text.empty() && text.size() <= 32 && text[0] >= '0' && text[0] <= '9';
}

// GlobalMetadata: version 1, attr 2; older converters leave the version to an attribute "schema".
std::optional<std::string> read_metadata(std::string_view bytes) {
    Wire wire(bytes);
    std::uint64_t number = 0;
    std::string_view chunk;
    std::string version, schema;
    while (const int field = wire.field(number, chunk)) {
        if (field > 2) return std::nullopt;
        if (field == 1) version = chunk;
        if (field == 2) {
            const auto attribute = read_attribute(chunk);
            if (!attribute || attribute->name != "schema") continue;
            if (const auto* text = std::get_if<std::string>(&attribute->value)) schema = *text;
        }
    }
    if (version.empty()) version = schema;
    if (wire.bad() || !is_version(version)) return std::nullopt;
    return excerpt(version);
}

}  // namespace

bool looks_like_chakra(std::string_view bytes) {
    Wire wire(bytes);
    const std::string_view metadata = wire.chunk();
    return !wire.bad() && !metadata.empty() && read_metadata(metadata).has_value();
}

namespace {

// Every node in turn; the version.
Result<std::string> each_node(std::string_view bytes, std::string_view name,
                              const std::function<void(ChakraNode)>& visit) {
    Wire wire(bytes);
    auto version = read_metadata(wire.chunk());
    if (!version || wire.bad())
        return Error{ErrorCode::Unreadable, "does not begin with Chakra's metadata", std::string(name), ""};
    for (std::int64_t nodes = 0; !wire.done(); ++nodes) {
        const std::size_t at = wire.at();
        auto node = read_node(wire.chunk());
        if (wire.bad() || !node) {
            return Error{ErrorCode::Unreadable,
                         "a message that is no node of Chakra's, behind " + std::to_string(nodes) + " nodes",
                         std::string(name) + ": byte " + std::to_string(at), ""};
        }
        visit(std::move(*node));
    }
    return std::move(*version);
}

}  // namespace

Result<ChakraTrace> parse_chakra(std::string_view bytes, std::string_view name) {
    ChakraTrace trace;
    auto version = each_node(bytes, name, [&](const ChakraNode& node) { add_to(trace, node); });
    if (!version) return version.errors();
    trace.version = std::move(*version);
    return trace;
}

Result<std::vector<ChakraNode>> read_chakra(std::string_view bytes, std::string_view name) {
    std::vector<ChakraNode> nodes;
    const auto version = each_node(bytes, name, [&](ChakraNode node) { nodes.push_back(std::move(node)); });
    if (!version) return version.errors();
    return nodes;
}

namespace {

void put_varint(std::string& out, std::uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        out += static_cast<char>((value & 0x7f) | 0x80);
    out += static_cast<char>(value);
}
void put_number(std::string& out, int field, std::uint64_t value) {
    put_varint(out, static_cast<std::uint64_t>(field) << 3);
    put_varint(out, value);
}
void put_bytes(std::string& out, int field, std::string_view bytes) {
    put_varint(out, (static_cast<std::uint64_t>(field) << 3) | 2);
    put_varint(out, bytes.size());
    out += bytes;
}
void put_packed(std::string& out, int field, const std::vector<std::uint64_t>& numbers) {
    if (numbers.empty()) return;
    std::string packed;
    for (const std::uint64_t number : numbers)
        put_varint(packed, number);
    put_bytes(out, field, packed);
}

std::string with_length(const std::string& message) {
    std::string out;
    put_varint(out, message.size());
    return out + message;
}

// A value of 0 is written too: the field says which type it is.
struct PutValue {
    std::string& out;
    void operator()(bool value) const { put_number(out, kBool, value ? 1 : 0); }
    void operator()(std::int32_t value) const {
        put_number(out, kInt32, static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
    }
    void operator()(std::int64_t value) const { put_number(out, kInt64, static_cast<std::uint64_t>(value)); }
    void operator()(std::uint64_t value) const { put_number(out, kUint64, value); }
    void operator()(const std::string& value) const { put_bytes(out, kString, value); }
};

}  // namespace

std::string chakra_head(std::string_view version) {
    std::string metadata;
    put_bytes(metadata, 1, version);
    return with_length(metadata);
}

std::string chakra_message(const ChakraNode& node) {
    std::string out;
    if (node.id != 0) put_number(out, 1, node.id);
    put_bytes(out, 2, node.name);
    put_number(out, 3, static_cast<std::uint64_t>(node.type));
    put_packed(out, 4, node.control_dependencies);
    put_packed(out, 5, node.data_dependencies);
    if (node.start_us != 0) put_number(out, 6, node.start_us);
    if (node.duration_us != 0) put_number(out, 7, node.duration_us);
    for (const ChakraAttribute& attribute : node.attributes) {
        std::string bytes;
        put_bytes(bytes, 1, attribute.name);
        std::visit(PutValue{bytes}, attribute.value);
        put_bytes(out, 10, bytes);
    }
    return with_length(out);
}

}  // namespace tw
