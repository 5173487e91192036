#include "real_exec/checkpoint/safetensors.hpp"

#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/json.hpp"
#include "base/prng.hpp"
#include "real_exec/checkpoint/float_convert.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test_scale.hpp"

namespace tw {
namespace {

std::string length_bytes(std::uint64_t length) {
    std::string out;
    for (unsigned shift = 0; shift < 64; shift += 8)
        out += static_cast<char>(static_cast<unsigned char>((length >> shift) & 0xffU));
    return out;
}

std::string file_of(const std::string& header, std::size_t data_bytes) {
    return length_bytes(header.size()) + header + std::string(data_bytes, '\1');
}

Result<SafetensorsHeader> parse(const std::string& file) {
    return parse_safetensors_header(std::as_bytes(std::span(file.data(), file.size())),
                                    static_cast<std::int64_t>(file.size()), "t.safetensors");
}

std::string message_of(const std::string& file) {
    const auto header = parse(file);
    return header ? "accepted" : header.error().message;
}

TEST(Safetensors, ReadsAHeader) {
    const auto header = parse(file_of(
        R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2],"data_offsets":[24,28]},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"c":{"dtype":"I64","shape":[0,7],"data_offsets":[28,28]}})",
        28));
    ASSERT_TRUE(header) << to_string(header.errors());
    ASSERT_EQ(header->entries.size(), 3U);
    EXPECT_EQ(header->entries[0].name, "a");
    EXPECT_EQ(header->entries[0].shape, (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(header->entries[1].dtype, "BF16");
    EXPECT_EQ(header->metadata.at("format"), "pt");
}

TEST(Safetensors, NamesEveryDamage) {
    const auto one = [](const std::string& entry, std::size_t bytes = 8) {
        return message_of(file_of(R"({"a":)" + entry + "}", bytes));
    };
    EXPECT_EQ(message_of("abc"), "is truncated: 3 bytes, a safetensors file begins with 8 bytes of length");
    EXPECT_EQ(message_of(length_bytes(100) + "{}"), "is truncated: a header of 100 bytes in a file of 10");
    EXPECT_EQ(message_of(length_bytes(~std::uint64_t{0}) + "{}"),
              "its header of 18446744073709551615 bytes is longer than the format's 100000000");
    EXPECT_NE(message_of(file_of("{\"a\":", 0)), "accepted");
    EXPECT_EQ(message_of(file_of("[]", 0)), "the header is not an object");
    EXPECT_EQ(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,12]})"),
              "bytes 0 to 12 are out of range: the file has 8 bytes of data");
    EXPECT_EQ(one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"),
              "bytes 8 to 0 are out of range: the file has 8 bytes of data");
    EXPECT_EQ(one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
              "has 8 bytes, its type and shape need 12");
    EXPECT_EQ(one(R"({"dtype":"F99","shape":[2],"data_offsets":[0,8]})"), "unknown type 'F99'");
    EXPECT_EQ(one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]})"),
              "the shape has more elements than 63 bits count");
    EXPECT_EQ(one(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"),
              "holds something else than integers from 0 on");
    EXPECT_EQ(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})"), "data_offsets has 1 numbers, not 2");
    EXPECT_EQ(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})"),
              "the tensors end at byte 4 of 8 bytes of data");
    EXPECT_EQ(one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})"), "bytes 0 to 4 belong to no tensor");
    EXPECT_EQ(
        message_of(file_of(
            R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
            8)),
        "bytes 4 to 8 overlap 'a', which ends at 8");
    EXPECT_EQ(
        message_of(file_of(
            R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
            8)),
        "not a JSON document: duplicate key 'a'");
}

TEST(Safetensors, WritesWhatItReads) {
    const TemporaryFolder folder;
    const std::vector<float> a = {1, 2, 3, 4, 5, 6};
    const std::vector<std::uint16_t> b = {bf16_from_float(0.5F), bf16_from_float(-3)};
    const std::vector<SafetensorsSource> sources = {
        {"layer.a", DType::F32, {2, 3}, std::as_bytes(std::span(a))},
        {"layer.b", DType::BF16, {2}, std::as_bytes(std::span(b))}};
    const auto path = folder.path() / "model.safetensors";
    ASSERT_TRUE(write_safetensors(path, sources, {{"format", "pt"}}));
    EXPECT_FALSE(std::filesystem::exists(path.string() + ".tmp"));
    const auto file = SafetensorsFile::open(path);
    ASSERT_TRUE(file) << to_string(file.errors());
    EXPECT_EQ(file->header().data_begin % 8, 0);
    EXPECT_EQ(std::memcmp(file->bytes(*file->find("layer.a")).data(), a.data(), 24), 0);

    const auto weights = WeightFiles::open(folder.path());
    ASSERT_TRUE(weights);
    TensorRegion columns = whole_region({2, 3});
    columns.axis = 1;
    columns.offset = 1;
    columns.extent = 2;
    std::vector<float> got(4);
    ASSERT_TRUE(weights->read("layer.a", columns, DType::F32, got.data()));
    EXPECT_EQ(got, (std::vector<float>{2, 3, 5, 6}));
    got.resize(2);
    ASSERT_TRUE(weights->read("layer.b", whole_region({2}), DType::F32, got.data()));
    EXPECT_EQ(got, (std::vector<float>{0.5F, -3}));
    // Padding rows of the model are zeros.
    TensorRegion padded = whole_region({4, 3});
    padded.padded_from = 2;
    got.assign(12, 7);
    ASSERT_TRUE(weights->read("layer.a", padded, DType::F32, got.data()));
    EXPECT_EQ(got, (std::vector<float>{1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0}));

    const Status wrong = weights->read("layer.a", whole_region({3, 2}), DType::F32, got.data());
    ASSERT_FALSE(wrong);
    EXPECT_EQ(wrong.error().message, "has shape [2, 3], the model needs [3, 2]");
    const Status unknown = weights->read("layer.c", whole_region({3, 2}), DType::F32, got.data());
    ASSERT_FALSE(unknown);
    EXPECT_EQ(unknown.error().hint, "did you mean 'layer.a'?");
}

TEST(Safetensors, PipesAreWrittenInPlaceAndLinksFollowed) {
    const TemporaryFolder folder;
    const std::vector<float> values = {1, 2};
    const std::vector<SafetensorsSource> tensors = {{"a", DType::F32, {2}, std::as_bytes(std::span(values))}};
    const auto file = folder.path() / "model.safetensors", link = folder.path() / "link.safetensors",
               pipe = folder.path() / "pipe";
    std::filesystem::create_symlink("model.safetensors", link);
    ASSERT_TRUE(write_safetensors(link, tensors));
    EXPECT_TRUE(std::filesystem::is_symlink(link));
    EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(file)));

    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    std::string read;
    std::thread reader([&] {
        std::ifstream in(pipe, std::ios::binary);
        read.assign(std::istreambuf_iterator<char>(in), {});
    });
    const Status written = write_safetensors(pipe, tensors);
    reader.join();
    EXPECT_TRUE(written) << to_string(written.errors());
    EXPECT_TRUE(std::filesystem::is_fifo(pipe));
    std::ifstream in(file, std::ios::binary);
    EXPECT_EQ(read, std::string(std::istreambuf_iterator<char>(in), {}));
    EXPECT_FALSE(std::filesystem::exists(pipe.string() + ".tmp"));
}

TEST(Safetensors, NoTensorIsNamedAsTheMetadata) {
    const TemporaryFolder folder;
    const std::vector<float> values = {1, 2};
    const std::vector<SafetensorsSource> tensors = {
        {kMetadataName, DType::F32, {2}, std::as_bytes(std::span(values))}};
    const Status written = write_safetensors(folder.path() / "model.safetensors", tensors);
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().context, kMetadataName);
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "model.safetensors"));
}

TEST(Safetensors, AnIndexJoinsItsFiles) {
    const TemporaryFolder folder;
    const std::vector<float> values = {1, 2};
    const auto bytes = std::as_bytes(std::span(values));
    ASSERT_TRUE(write_safetensors(folder.path() / "model-1.safetensors",
                                  std::vector<SafetensorsSource>{{"x", DType::F32, {2}, bytes}}));
    ASSERT_TRUE(write_safetensors(folder.path() / "model-2.safetensors",
                                  std::vector<SafetensorsSource>{{"y", DType::F32, {2}, bytes}}));
    ASSERT_TRUE(write_text_file(
        folder.path() / "model.safetensors.index.json",
        R"({"metadata":{},"weight_map":{"x":"model-1.safetensors","y":"model-2.safetensors"}})"));
    const auto weights = WeightFiles::open(folder.path());
    ASSERT_TRUE(weights) << to_string(weights.errors());
    EXPECT_EQ(weights->names(), (std::vector<std::string>{"x", "y"}));
    ASSERT_TRUE(write_text_file(folder.path() / "model.safetensors.index.json",
                                R"({"weight_map":{"x":"../secret"}})"));
    EXPECT_FALSE(WeightFiles::open(folder.path()));
}

// Damaged files are read or refused, never a crash; what is accepted lies within the file.
TEST(SafetensorsFuzz, MutatedHeaders) {
    const std::string header =
        R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"BF16","shape":[2],"data_offsets":[24,28]}})";
    const std::string good = file_of(header, 28);
    ASSERT_TRUE(parse(good));
    for (std::size_t length = 0; length < good.size(); ++length)
        EXPECT_FALSE(parse(good.substr(0, length))) << "cut at " << length;
    Prng random(20'261'130);
    const std::string alphabet = "0123456789-.e\"{}[],:F B\\\xff\n";
    int accepted = 0;
    for (int round = 0; round < scaled(20'000); ++round) {
        std::string bad = good;
        for (std::int64_t n = random.integer(1, 4); n > 0; --n) {
            const auto at =
                static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(bad.size()) - 1));
            switch (random.integer(0, 3)) {
                case 0:
                    bad[at] = alphabet[static_cast<std::size_t>(random.integer(0, 25))];
                    break;
                case 1:
                    bad[at] = static_cast<char>(bad[at] ^ (1 << random.integer(0, 7)));
                    break;
                case 2:
                    bad.erase(at, static_cast<std::size_t>(random.integer(1, 5)));
                    break;
                default:
                    bad.insert(at, 1, alphabet[static_cast<std::size_t>(random.integer(0, 25))]);
            }
            if (bad.empty()) bad = " ";
        }
        const auto parsed = parse(bad);
        if (!parsed) continue;
        ++accepted;
        std::int64_t end = 0;
        for (const SafetensorsEntry& entry : parsed->entries) {
            ASSERT_EQ(entry.begin, end);
            end = entry.end;
        }
        ASSERT_EQ(parsed->data_begin + end, static_cast<std::int64_t>(bad.size()));
    }
    EXPECT_GT(accepted, 0) << "some mutations touch only names and data";
}

}  // namespace
}  // namespace tw
