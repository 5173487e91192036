#include "real_exec/checkpoint/tensor_region.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>

#include <gtest/gtest.h>

#include "base/prng.hpp"
#include "real_exec/checkpoint/crc32c.hpp"
#include "real_exec/checkpoint/float_convert.hpp"
#include "tests/support/test_scale.hpp"

namespace tw {
namespace {

TensorRegion region(Shape shape, int axis, int parts, std::int64_t offset, std::int64_t extent) {
    TensorRegion out;
    out.full_shape = shape;
    out.axis = axis;
    out.parts = parts;
    out.offset = offset;
    out.extent = extent;
    return out;
}

// Every element of the shard by the definition: nested loops over outer index, block and row.
std::vector<std::int64_t> indices_by_definition(const TensorRegion& r) {
    std::int64_t outer = 1, inner = 1;
    for (int d = 0; d < r.full_shape.rank; ++d)
        (d < r.axis ? outer : inner) *= d == r.axis ? 1 : r.full_shape[d];
    const std::int64_t axis = r.full_shape[r.axis], block = axis / r.parts;
    std::vector<std::int64_t> all;
    for (std::int64_t o = 0; o < outer; ++o)
        for (std::int64_t p = 0; p < r.parts; ++p)
            for (std::int64_t e = 0; e < r.extent; ++e)
                for (std::int64_t i = 0; i < inner; ++i)
                    all.push_back((o * axis + p * block + r.offset + e) * inner + i);
    return {all.begin() + r.first, all.begin() + r.first + r.elements()};
}

// Places of padding rows as -1: they belong to no run.
std::vector<std::int64_t> stored_indices_by_definition(const TensorRegion& r) {
    std::vector<std::int64_t> all = indices_by_definition(r);
    for (std::int64_t& at : all)
        if (at >= r.stored_shape().elements()) at = -1;
    return all;
}

std::vector<std::int64_t> indices_by_runs(const TensorRegion& r) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(r.elements()), -1);
    for (const ElementRun& run : runs_of(r))
        for (std::int64_t i = 0; i < run.length; ++i)
            all[static_cast<std::size_t>(run.local + i)] = run.at + i;
    return all;
}

TEST(TensorRegion, WholeTensorsAndRowShardsAreOneRun) {
    EXPECT_EQ(runs_of(whole_region({4, 6})), (std::vector<ElementRun>{{0, 0, 24}}));
    EXPECT_EQ(runs_of(region({4, 6}, 0, 1, 2, 2)), (std::vector<ElementRun>{{12, 0, 12}}));
    EXPECT_EQ(runs_of(whole_region({})), (std::vector<ElementRun>{{0, 0, 1}}));
    EXPECT_TRUE(runs_of(region({4, 6}, 0, 1, 2, 0)).empty());
}

TEST(TensorRegion, AFusedTensorIsCutInEveryBlock) {
    // q|k|v of 2 rows each, the second of two tensor-parallel ranks has row 1 of each.
    EXPECT_EQ(runs_of(region({6, 5}, 0, 3, 1, 1)),
              (std::vector<ElementRun>{{5, 0, 5}, {15, 5, 5}, {25, 10, 5}}));
    // Columns: one run a row.
    EXPECT_EQ(runs_of(region({2, 6}, 1, 1, 3, 3)), (std::vector<ElementRun>{{3, 0, 3}, {9, 3, 3}}));
}

TEST(TensorRegion, PaddingRowsAreNotStored) {
    TensorRegion r = region({8, 3}, 0, 1, 4, 4);
    r.padded_from = 5;
    EXPECT_EQ(r.stored_shape(), (Shape{5, 3}));
    EXPECT_EQ(runs_of(r), (std::vector<ElementRun>{{12, 0, 3}}));
    r.offset = 6;
    r.extent = 2;
    EXPECT_TRUE(runs_of(r).empty());
    EXPECT_EQ(r.elements(), 6);
}

TEST(TensorRegion, RunsAreTheDefinition) {
    Prng random(7);
    for (int round = 0; round < scaled(2000); ++round) {
        const int rank = static_cast<int>(random.integer(1, 4));
        Shape shape;
        shape.rank = rank;
        for (int d = 0; d < rank; ++d)
            shape.dims[static_cast<std::size_t>(d)] = random.integer(1, 6);
        TensorRegion r;
        r.full_shape = shape;
        r.axis = static_cast<int>(random.integer(0, rank - 1));
        r.parts = static_cast<int>(random.integer(1, 3));
        r.full_shape.dims[static_cast<std::size_t>(r.axis)] *= r.parts;
        const std::int64_t block = r.full_shape[r.axis] / r.parts;
        r.offset = random.integer(0, block);
        r.extent = random.integer(0, block - r.offset);
        r.first = random.integer(0, r.shard_elements());
        r.count = random.integer(0, r.shard_elements() - r.first);
        if (random.integer(0, 2) == 0) r.padded_from = random.integer(0, r.full_shape[0]);
        ASSERT_TRUE(check_region(r, "t"));
        const auto wanted = stored_indices_by_definition(r);
        ASSERT_EQ(indices_by_runs(r), wanted);
        ASSERT_EQ(stored_elements(r), std::ssize(wanted) - std::ranges::count(wanted, -1));
        const auto runs = runs_of(r);
        for (std::size_t i = 1; i < runs.size(); ++i)
            ASSERT_LT(runs[i - 1].at + runs[i - 1].length, runs[i].at) << "adjacent runs are one";
    }
}

// As many runs as elements: counting them takes no time, whatever a document says.
TEST(TensorRegion, CountsWithoutMakingTheRuns) {
    TensorRegion columns = region({std::int64_t{1} << 44, 16}, 1, 1, 3, 1);
    EXPECT_EQ(stored_elements(columns), std::int64_t{1} << 44);
    columns.padded_from = 5;
    EXPECT_EQ(stored_elements(columns), 5);
    EXPECT_EQ(runs_of(columns).size(), 5U) << "padding is not walked through";
}

TEST(TensorRegion, SharedRunsMoveEveryCommonElement) {
    Prng random(11);
    for (int round = 0; round < scaled(500); ++round) {
        const Shape shape{12, 6};
        const auto draw = [&] {
            const int axis = static_cast<int>(random.integer(0, 1));
            const int parts = static_cast<int>(random.integer(1, 3));
            const std::int64_t block = shape[axis] / parts, offset = random.integer(0, block);
            TensorRegion r = region(shape, axis, parts, offset, random.integer(0, block - offset));
            r.first = random.integer(0, r.shard_elements());
            return r;
        };
        const TensorRegion from = draw(), to = draw();
        const auto source = indices_by_definition(from), target = indices_by_definition(to);
        std::vector<std::int64_t> moved(target.size(), -1);
        for (const SharedRun& run : shared_runs(runs_of(from), runs_of(to)))
            for (std::int64_t i = 0; i < run.length; ++i)
                moved[static_cast<std::size_t>(run.to + i)] = source[static_cast<std::size_t>(run.from + i)];
        for (std::size_t i = 0; i < target.size(); ++i) {
            const bool common = std::find(source.begin(), source.end(), target[i]) != source.end();
            ASSERT_EQ(moved[i], common ? target[i] : -1);
        }
    }
}

TEST(TensorRegion, NamesWhatIsWrong) {
    const auto message = [](const TensorRegion& r) {
        const Status status = check_region(r, "w");
        return status ? std::string() : status.error().message;
    };
    EXPECT_EQ(message(region({4, 6}, 2, 1, 0, 1)), "cut along axis 2 of 2");
    EXPECT_EQ(message(region({4, 6}, 0, 3, 0, 1)), "3 equal blocks of an axis of 4");
    EXPECT_EQ(message(region({4, 6}, 0, 2, 1, 2)), "range 1 + 2 of a block of 2");
    TensorRegion flat = region({4, 6}, 0, 1, 0, 2);
    flat.first = 10;
    flat.count = 3;
    EXPECT_EQ(message(flat), "elements 10 + 3 of a shard of 12");
    EXPECT_EQ(message(whole_region({std::int64_t{1} << 40, std::int64_t{1} << 40})),
              "dimension 1 is 1099511627776, which is no size of a tensor");
}

std::span<const std::byte> bytes_of_text(const std::string& text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(Crc32c, HasThePublishedValues) {
    // RFC 3720, appendix B.4: 32 zero bytes, 32 bytes of ones, 0..31; "123456789" is the polynomial's check
    // value.
    std::string ascending(32, '\0');
    std::iota(ascending.begin(), ascending.end(), '\0');
    for (const auto& crc : {crc32c, crc32c_by_tables}) {
        EXPECT_EQ(crc(bytes_of_text("123456789"), 0), 0xe3069283U);
        EXPECT_EQ(crc(bytes_of_text(std::string(32, '\0')), 0), 0x8a9136aaU);
        EXPECT_EQ(crc(bytes_of_text(std::string(32, '\xff')), 0), 0x62a8ab43U);
        EXPECT_EQ(crc(bytes_of_text(ascending), 0), 0x46dd794eU);
        EXPECT_EQ(crc({}, 0), 0U);
    }
}

TEST(Crc32c, ContinuesAndAgreesWithItsTables) {
    Prng random(3);
    std::string text(1000, '\0');
    for (char& c : text)
        c = static_cast<char>(random.next());
    for (const std::size_t cut : {0UL, 1UL, 7UL, 8UL, 500UL, 999UL, 1000UL}) {
        const auto all = bytes_of_text(text);
        EXPECT_EQ(crc32c(all.subspan(cut), crc32c(all.first(cut))), crc32c(all));
        EXPECT_EQ(crc32c_by_tables(all.subspan(cut), crc32c_by_tables(all.first(cut))), crc32c(all));
    }
}

TEST(FloatConvert, EveryHalfSurvivesTheWayThereAndBack) {
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
        const auto half = static_cast<std::uint16_t>(bits);
        const float f16 = float_from_f16(half), bf16 = float_from_bf16(half);
        if (std::isnan(f16)) {
            EXPECT_TRUE(std::isnan(float_from_f16(f16_from_float(f16))));
        } else {
            ASSERT_EQ(f16_from_float(f16), half) << bits;
        }
        if (std::isnan(bf16)) {
            EXPECT_TRUE(std::isnan(float_from_bf16(bf16_from_float(bf16))));
        } else {
            ASSERT_EQ(bf16_from_float(bf16), half) << bits;
        }
    }
}

TEST(FloatConvert, RoundsToNearestEven) {
    // IEEE 754 binary16: 1, 65504 the largest, 2^-24 the smallest; ties go to the even neighbour.
    EXPECT_EQ(f16_from_float(1.0F), 0x3c00);
    EXPECT_EQ(f16_from_float(65504.0F), 0x7bff);
    EXPECT_EQ(f16_from_float(65519.0F), 0x7bff);
    EXPECT_EQ(f16_from_float(65520.0F), 0x7c00);
    EXPECT_EQ(f16_from_float(-0x1.0p-24F), 0x8001);
    EXPECT_EQ(f16_from_float(0x1.0p-25F), 0x0000);  // halfway between 0 and the smallest
    EXPECT_EQ(f16_from_float(0x1.8p-24F), 0x0002);  // halfway between 1 and 2 units
    EXPECT_EQ(f16_from_float(1.0F + 0x1.0p-11F), 0x3c00);
    EXPECT_EQ(f16_from_float(1.0F + 0x1.8p-10F), 0x3c02);
    EXPECT_EQ(bf16_from_float(1.0F + 0x1.0p-8F), 0x3f80);
    EXPECT_EQ(bf16_from_float(1.0F + 0x1.8p-7F), 0x3f82);
    EXPECT_EQ(bf16_from_float(std::numeric_limits<float>::infinity()), 0x7f80);
}

}  // namespace
}  // namespace tw
