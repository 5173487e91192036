#include "models/formats/kineto_args.hpp"

#include <array>
#include <cctype>

#include "models/formats/json_slice.hpp"
#include "models/formats/text_lines.hpp"

namespace tw {
namespace {

namespace js = json_slice;

std::string letters_of(std::string_view text) {
    std::string plain;
    for (const char c : text.substr(0, 80)) {
        if (std::isalpha(static_cast<unsigned char>(c)) != 0)
            plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return plain;
}

// Longest words first: "reduce" is inside "reducescatter".
struct Word {
    std::string_view text;
    CollectiveKind kind;
};
constexpr std::array<Word, 8> kWords = {{{"allreduce", CollectiveKind::AllReduce},
                                         {"allgather", CollectiveKind::AllGather},
                                         {"reducescatter", CollectiveKind::ReduceScatter},
                                         {"alltoall", CollectiveKind::AllToAll},
                                         {"broadcast", CollectiveKind::Broadcast},
                                         {"sendrecv", CollectiveKind::SendRecv},
                                         {"reduce", CollectiveKind::Reduce},
                                         {"bcast", CollectiveKind::Broadcast}}};

struct Type {
    std::string_view name;
    int bytes;
};
constexpr std::array<Type, 17> kTypes = {{{"float", 4},
                                          {"bfloat16", 2},
                                          {"half", 2},
                                          {"double", 8},
                                          {"byte", 1},
                                          {"char", 1},
                                          {"bool", 1},
                                          {"short", 2},
                                          {"int", 4},
                                          {"long", 8},
                                          {"float8_e4m3fn", 1},
                                          {"float8_e5m2", 1},
                                          {"float8_e4m3fnuz", 1},
                                          {"float8_e5m2fnuz", 1},
                                          {"float32", 4},
                                          {"float16", 2},
                                          {"float64", 8}}};

}  // namespace

bool is_collective_kernel(std::string_view name) {
    return name.starts_with("nccl") || name.starts_with("rccl") || name.starts_with("void nccl");
}

std::optional<CollectiveKind> collective_by_name(std::string_view name) {
    const std::string plain = letters_of(name);
    for (const Word& word : kWords) {
        if (plain.find(word.text) != std::string::npos) return word.kind;
    }
    if (plain == "send" || plain == "recv") return CollectiveKind::SendRecv;
    return std::nullopt;
}

int dtype_bytes(std::string_view dtype) {
    std::string lower;
    for (const char c : dtype.substr(0, 40))
        lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    for (const Type& type : kTypes) {
        if (type.name == lower) return type.bytes;
    }
    return 0;
}

std::optional<std::int64_t> external_id(std::string_view args) {
    const auto id = js::integer(js::find(args, "External id"));
    return id ? id : js::integer(js::find(args, "external id"));
}

KinetoCollective collective_of(std::string_view kernel_name, std::string_view args) {
    KinetoCollective collective;
    // "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)": the arguments behind the bracket name nothing.
    const std::string_view head = kernel_name.substr(0, kernel_name.find('('));
    collective.kind = collective_by_name(head.substr(0, 60));
    std::int64_t in = 0, out = 0;
    int element = 0;
    js::Members members(args);
    while (members.next()) {
        const std::string_view key = members.key(), value = members.value();
        if (key == "Collective name") {
            if (const auto kind = collective_by_name(js::unquoted(value))) collective.kind = kind;
        } else if (key == "In msg nelems") {
            in = js::integer(value).value_or(0);
        } else if (key == "Out msg nelems") {
            out = js::integer(value).value_or(0);
        } else if (key == "Group size") {
            const auto size = js::integer(value).value_or(0);
            if (size > 0 && size < 1 << 24) collective.group_size = static_cast<int>(size);
        } else if (key == "dtype") {
            element = dtype_bytes(js::unquoted(value));
        } else if (key == "Process Group Name") {
            collective.group = excerpt(js::text_of(value), 80);
        }
    }
    // nccl-tests' size: what all ranks end up with, or give, together.
    std::int64_t elements = in;
    if (collective.kind == CollectiveKind::AllGather || elements <= 0) elements = std::max(in, out);
    if (elements > 0 && elements < std::int64_t{1} << 50) collective.bytes = elements * element;
    return collective;
}

}  // namespace tw
