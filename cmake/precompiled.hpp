// What most sources include of other libraries, compiled once (cmake/precompiled_headers.cmake). No header of
// ours belongs here: each would rebuild everything when it changes.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <boost/graph/adjacency_list.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
