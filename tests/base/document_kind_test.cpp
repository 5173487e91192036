#include "base/document_kind.hpp"

#include <gtest/gtest.h>

namespace tw {
namespace {

TEST(DocumentKind, AnotherSchemaIsNamed) {
    const Status status = check_document_kind(Json{{"schema", "trainwright/trace"}}, "plan", "x.json");
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::Unreadable);
    EXPECT_EQ(status.error().context, "x.json: /schema");
    EXPECT_EQ(status.error().message, "is 'trainwright/trace', expected 'trainwright/plan'");
}

TEST(DocumentKind, NoSchemaAtAllIsNoDocumentOfOurs) {
    const Status status = check_document_kind(Json{{"hidden_size", 8}}, "plan");
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().context, "/schema");
}

TEST(DocumentKind, WhatMayBeOneIsLeftToItsReader) {
    EXPECT_TRUE(check_document_kind(Json{{"schema", "trainwright/plan"}}, "plan"));
    EXPECT_TRUE(check_document_kind(Json{{"version", 1}}, "plan"));  // its schema was forgotten
    EXPECT_TRUE(check_document_kind(Json{{"schema", 3}}, "plan"));
    EXPECT_TRUE(check_document_kind(Json::array(), "plan"));
}

}  // namespace
}  // namespace tw
