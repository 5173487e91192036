// A frame's rows on several cores: for work of a millisecond or two, which must not wait for a thread that is
// not there.
#pragma once

#include <cstddef>
#include <functional>

namespace tw::gui {

// Calls work(0) to work(count - 1), each once, in any order, on this thread and on those that are free.
// Returns when all have returned. `work` touches nothing that another call of it does.
void in_parallel(std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace tw::gui
