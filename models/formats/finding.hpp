// What looks wrong, or wants to be known, about a foreign document: named, so that a user can look it up and
// a test can count it. The names, their meaning and what to do are one table.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tw {

struct Finding {
    std::string name;      // of the table below
    std::string message;   // with the numbers
    std::size_t line = 0;  // 0: not of one line

    friend bool operator==(const Finding&, const Finding&) = default;
};

struct FindingKind {
    std::string_view name;
    bool suspect = true;  // false: nothing is wrong, but something was left out or assumed
    std::string_view meaning;
    std::string_view advice;
};

std::span<const FindingKind> finding_kinds();  // sorted by name
// CHECKs that the name is in the table.
const FindingKind& finding_kind(std::string_view name);
[[nodiscard]] bool is_suspect(const Finding& finding);

std::string to_string(const Finding& finding);  // "rate-unit: line 7: ..."
std::vector<std::string> to_strings(const std::vector<Finding>& findings);
[[nodiscard]] bool has_finding(const std::vector<Finding>& findings, std::string_view name);

}  // namespace tw
