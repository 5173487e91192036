// Sorting of our tables.
#pragma once

#include <QSortFilterProxyModel>

namespace tw::gui {

// Sorts by kSortRole; NaN and empty come last in either order.
class ValueSort : public QSortFilterProxyModel {
    Q_OBJECT

  public:
    explicit ValueSort(QObject* parent = nullptr);

  protected:
    [[nodiscard]] bool lessThan(const QModelIndex& left, const QModelIndex& right) const override;
};

}  // namespace tw::gui
