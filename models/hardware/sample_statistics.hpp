// The median of repeated measurements and how well it is known.
#pragma once

#include <vector>

namespace tw {

// Of an even number the mean of the middle two; 0 where there is none.
double median_of(std::vector<double> values);

struct Interval {
    double low = 0, high = 0;
};

// The interval of the median at 95 %, from order statistics: ranks n/2 -+ 0.98 sqrt(n) (Conover 1999, section
// 3.2); of under six values their range.
Interval median_interval(std::vector<double> values);

// Half the interval over the median: how tight it is. 1 for under two values.
double relative_width(const std::vector<double>& values);

// The middle half's width over the median, over 1.349: a normal distribution's relative deviation.
double relative_spread(std::vector<double> values);

}  // namespace tw
