#include "gui/item_models/value_sort.hpp"

#include <cmath>

#include "gui/item_models/value_table.hpp"

namespace tw::gui {

ValueSort::ValueSort(QObject* parent) : QSortFilterProxyModel(parent) {
    setSortRole(kSortRole);
    setSortCaseSensitivity(Qt::CaseInsensitive);
    setDynamicSortFilter(true);
}

bool ValueSort::lessThan(const QModelIndex& left, const QModelIndex& right) const {
    const QVariant a = left.data(kSortRole), b = right.data(kSortRole);
    const bool numbers = a.typeId() == QMetaType::Double && b.typeId() == QMetaType::Double;
    if (!numbers) return QSortFilterProxyModel::lessThan(left, right);
    const double x = a.toDouble(), y = b.toDouble();
    if (std::isnan(x) || std::isnan(y)) {
        // Unknown values stay at the bottom.
        const bool last = sortOrder() == Qt::AscendingOrder ? !std::isnan(x) && std::isnan(y)
                                                            : std::isnan(x) && !std::isnan(y);
        return last;
    }
    if (x != y) return x < y;
    return sortOrder() == Qt::AscendingOrder ? left.row() < right.row() : left.row() > right.row();
}

}  // namespace tw::gui
