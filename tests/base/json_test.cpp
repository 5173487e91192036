#include "base/json.hpp"

#include <gtest/gtest.h>

namespace tw {
namespace {

TEST(ParseJson, RefusesWhatALenientParserLetsPass) {
    for (const char* text :
         {"", "{", "{\"a\":1,\"a\":2}", "[1,]", "{\"a\":NaN}", "[1e999]", "{} {}", "\"\xff\"", "[\x01]"}) {
        const auto result = parse_json(text, "doc.json");
        ASSERT_FALSE(result.has_value()) << text;
        EXPECT_EQ(result.error().code, ErrorCode::Unreadable);
        EXPECT_TRUE(result.error().context.starts_with("doc.json"));
    }
    EXPECT_FALSE(parse_json(std::string(100000, '['), "deep").has_value());
    EXPECT_TRUE(parse_json("{\"a\": [1, 2.5, \"x\"]}", "doc.json").has_value());
}

TEST(JsonObject, CollectsAllErrorsWithPointers) {
    const Json document = *parse_json(R"({"layers": -1, "hidden": "x", "heasd": 4})", "doc");
    Errors errors;
    const JsonObject object(document, "/model", errors);
    object.integer("layers", 1, 1000);
    object.integer("hidden", 1, 1000);
    object.integer_or("heads", 2, 1, 1000);
    object.finish();
    ASSERT_EQ(errors.size(), 3U);
    EXPECT_EQ(errors[0].context, "/model/layers");
    EXPECT_EQ(errors[1].context, "/model/hidden");
    EXPECT_EQ(errors[2].context, "/model/heasd");
    EXPECT_NE(errors[2].hint.find("'heads'"), std::string::npos);
}

TEST(JsonObject, IntegersOutsideInt64AreErrorsNotWraps) {
    const Json document =
        *parse_json(R"({"a": 18446744073709551615, "b": 1e300, "c": 8.0, "d": 8.5})", "doc");
    Errors errors;
    const JsonObject object(document, "", errors);
    EXPECT_EQ(object.integer_or("a", 7, 0, 100), 7);
    EXPECT_EQ(object.integer_or("b", 7, 0, 100), 7);
    EXPECT_EQ(object.integer_or("c", 7, 0, 100), 8);
    EXPECT_EQ(object.integer_or("d", 7, 0, 100), 7);
    EXPECT_EQ(errors.size(), 3U);
}

TEST(ReadSchema, NamesBothKinds) {
    const Json document = *parse_json(R"({"schema": "trainwright/plan", "version": 9})", "doc");
    Errors errors;
    read_schema(JsonObject(document, "", errors), "cluster", 1);
    ASSERT_EQ(errors.size(), 2U);
    EXPECT_NE(errors[0].message.find("trainwright/cluster"), std::string::npos);
}

}  // namespace
}  // namespace tw
