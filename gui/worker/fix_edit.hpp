// Editing the text of --fix key by key: what the edit does not concern stays as it was typed.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tw::gui {

// The choices of a spec by key: "tp=4|8,sp=on" -> {tp: "4|8", sp: "on"}. A plan's label is read as the spec
// that it stands for.
std::map<std::string, std::string> fix_choices(std::string_view spec);

// Whether a choice has a value among its words and ranges: "4..8|16" allows "8".
bool fix_allows(std::string_view choice, std::string_view value);

// The spec with `value` allowed for `key` or no longer; "" allows anything. `legal`: the key's values that
// are offered. Words that are none of them ("2/8", "full:2") and all other keys stay.
std::string toggled_fix(std::string_view spec, std::string_view key, std::string_view value, bool on,
                        std::span<const std::string> legal);

// What a user typed or pasted: without the blanks and quotes around it.
std::string typed_fix(std::string_view text);

}  // namespace tw::gui
