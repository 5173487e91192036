#include "models/formats/chakra.hpp"

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

// AttributeProto: name 1, doc_string 2, then one value: int64 9, uint64 13, bool 27 (et_def.proto).
struct Attribute {
    std::string_view name, text;
    std::uint64_t value = 0;
    int field = 0;
};
constexpr int kUint64 = 13;

Attribute read_attribute(std::string_view bytes) {
    Attribute attribute;
    Wire wire(bytes);
    std::uint64_t number = 0;
    std::string_view chunk;
    while (const int field = wire.field(number, chunk)) {
        if (field == 1) {
            attribute.name = chunk;
        } else if (field != 2) {
            attribute.field = field;
            attribute.value = number;
            attribute.text = chunk;
        }
    }
    return attribute;
}

// Node: id 1, name 2, type 3, ..., attr 10.
bool read_node(std::string_view bytes, ChakraTrace& trace) {
    Wire wire(bytes);
    std::uint64_t number = 0;
    std::string_view chunk;
    int type = 0;
    std::int64_t size = 0;
    while (const int field = wire.field(number, chunk)) {
        if (field == 2 && trace.first_name.empty()) trace.first_name = excerpt(chunk);
        if (field == 3) type = static_cast<int>(number);
        if (field != 10) continue;
        const Attribute attribute = read_attribute(chunk);
        if (attribute.name == "comm_size") {
            size = static_cast<std::int64_t>(attribute.value & 0x7fff'ffff'ffff'ffffULL);
            trace.sizes_of_wrong_type = trace.sizes_of_wrong_type || attribute.field == kUint64;
        }
    }
    if (wire.bad()) return false;
    ++trace.nodes;
    trace.compute += type == 4 ? 1 : 0;
    trace.send += type == 5 ? 1 : 0;
    trace.receive += type == 6 ? 1 : 0;
    trace.collective += type == 7 ? 1 : 0;
    std::int64_t& sum = type == 7 ? trace.collective_bytes : trace.sent_bytes;
    if (type == 7 || type == 5) sum = size > (std::int64_t{1} << 60) - sum ? sum : sum + size;
    return true;
}

bool is_version(std::string_view text) {
    return !text.empty() && text.size() <= 32 && text[0] >= '0' && text[0] <= '9';
}

// GlobalMetadata: version 1, attr 2; older converters leave the version to an attribute "schema".
std::optional<std::string> read_metadata(std::string_view bytes) {
    Wire wire(bytes);
    std::uint64_t number = 0;
    std::string_view chunk, version;
    while (const int field = wire.field(number, chunk)) {
        if (field > 2) return std::nullopt;
        if (field == 1) version = chunk;
        if (field == 2 && version.empty()) {
            const Attribute attribute = read_attribute(chunk);
            if (attribute.name == "schema") version = attribute.text;
        }
    }
    if (wire.bad() || !is_version(version)) return std::nullopt;
    return excerpt(version);
}

}  // namespace

bool looks_like_chakra(std::string_view bytes) {
    Wire wire(bytes);
    const std::string_view metadata = wire.chunk();
    return !wire.bad() && !metadata.empty() && read_metadata(metadata).has_value();
}

Result<ChakraTrace> parse_chakra(std::string_view bytes, std::string_view name) {
    ChakraTrace trace;
    Wire wire(bytes);
    const auto version = read_metadata(wire.chunk());
    if (!version || wire.bad())
        return Error{ErrorCode::Unreadable, "does not begin with Chakra's metadata", std::string(name), ""};
    trace.version = *version;
    while (!wire.done()) {
        const std::size_t at = wire.at();
        const std::string_view node = wire.chunk();
        if (wire.bad() || !read_node(node, trace)) {
            return Error{
                ErrorCode::Unreadable,
                "a message that is no node of Chakra's, behind " + std::to_string(trace.nodes) + " nodes",
                std::string(name) + ": byte " + std::to_string(at), ""};
        }
    }
    return trace;
}

}  // namespace tw
