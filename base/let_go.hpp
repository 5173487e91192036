// let_go: gives a vector's memory back, which clear() and an assignment of {} keep.
#pragma once

#include <vector>

namespace tw {

template <class T>
void let_go(std::vector<T>& values) {
    std::vector<T>().swap(values);
}

}  // namespace tw
