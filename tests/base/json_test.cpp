#include "base/json.hpp"

#include <sstream>

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

TEST(ParseJson, SaysWhere) {
    const auto twice = parse_json(R"({"plan": {"mesh": {"tp": 8, "pp": 1, "tp": 4}}})", "doc.json");
    ASSERT_FALSE(twice);
    EXPECT_EQ(to_string(twice.error()), "doc.json: /plan/mesh/tp: not a JSON document: duplicate key 'tp'");
    const auto cut = parse_json("{\"stages\": [1,\n{\"a/b\": tru", "doc.json");
    ASSERT_FALSE(cut);
    EXPECT_EQ(cut.error().context, "doc.json:2, byte 27");
    EXPECT_TRUE(cut.error().message.ends_with(", at /stages/1/a~1b")) << cut.error().message;
    const auto deep = parse_json(std::string(65, '['), "doc.json");
    ASSERT_FALSE(deep);
    EXPECT_NE(deep.error().message.find("nested deeper than 64"), std::string::npos);
}

TEST(ParseJson, ANulByteIsNoEnd) {
    using namespace std::string_literals;
    for (const std::string& text :
         {"{\"a\": 1}\n\0"s, "{\"a\": 1}\n\0 and more"s, "{\"a\":\n\0 1}"s, "\0"s, "[\"\n\0\"]"s}) {
        const auto result = parse_json(text, "doc.json");
        ASSERT_FALSE(result) << text;
        EXPECT_EQ(result.error().message, "not a JSON document: a NUL byte");
    }
    EXPECT_EQ(parse_json("{}\n\0{}"s, "doc.json").error().context, "doc.json:2, byte 4");
    EXPECT_TRUE(parse_json("[\"\\u0000\"]", "doc.json"));
}

TEST(ParseJson, DuplicatesAmongManyKeys) {
    std::string text = "{";
    for (int i = 0; i < 100'000; ++i)
        text += "\"k" + std::to_string(i) + "\":" + std::to_string(i) + ",";
    const auto good = parse_json(text + "\"last\":0}", "doc.json");
    ASSERT_TRUE(good);
    EXPECT_EQ(good->size(), 100'001U);
    EXPECT_FALSE(parse_json(text + "\"k5\":0}", "doc.json"));
    EXPECT_FALSE(parse_json(text + "\"k99999\":0}", "doc.json"));
}

TEST(ParseJson, RefusesMoreValuesThanFitInMemory) {
    std::string text = "[0";
    for (std::size_t i = 0; i < kMaxJsonValues; ++i)
        text += ",0";
    const auto result = parse_json(text + "]", "doc.json");
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().message.find("more than 16777216 values"), std::string::npos);
}

TEST(ParseJson, SkipsAByteOrderMark) {
    EXPECT_TRUE(parse_json("\xEF\xBB\xBF{}", "doc.json"));
    EXPECT_EQ(without_byte_order_mark("\xEF\xBB\xBF{}"), "{}");
    EXPECT_EQ(without_byte_order_mark("{}"), "{}");
    std::istringstream stream("\xEF\xBB\xBFgenerator 1f1b");
    EXPECT_EQ(read_text_stream(stream, "stream").value(), "generator 1f1b");
    EXPECT_FALSE(parse_json(std::string("\xFF\xFE{\0}\0", 6), "utf-16.json"));
}

TEST(JsonObject, NullIsNoValueInOurOwnDocuments) {
    const Json document = *parse_json(R"({"tp": null, "pp": null, "list": null})", "doc");
    Errors errors;
    const JsonObject object(document, "/mesh", errors);
    object.integer_or("tp", 1, 1, 8);
    object.integer("pp", 1, 8);
    object.array("list");
    object.finish();
    EXPECT_EQ(to_string(errors),
              "/mesh/pp: is null, a value is required\n/mesh/list: is null, a value is required\n"
              "/mesh/tp: is null (hint: leave the key out for its default, or give a value)");
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

TEST(ReadSchema, AnEmptyOneIsWrong) {
    const Json document = *parse_json(R"({"schema": "", "version": 1})", "");
    Errors errors;
    read_schema(JsonObject(document, "/cluster", errors), "cluster", 1);
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_EQ(to_string(errors[0]), "/cluster/schema: is '', expected 'trainwright/cluster'");
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
