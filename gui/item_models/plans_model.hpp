// The table of plans, and the filter over it.
#pragma once

#include <QAbstractTableModel>
#include <QStringList>
#include <string>
#include <vector>

#include "gui/item_models/value_sort.hpp"

namespace tw::gui {

struct PlanEntry;
class Workbench;

class PlansModel : public QAbstractTableModel {
    Q_OBJECT

  public:
    // Columns: rank, plan, then every measure, then why a plan is infeasible.
    static constexpr int kRank = 0, kPlan = 1, kFirstMeasure = 2;

    explicit PlansModel(Workbench& workbench, QObject* parent = nullptr);

    [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
    [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

    [[nodiscard]] const PlanEntry* entry(const QModelIndex& index) const;
    [[nodiscard]] QModelIndex index_of(int id) const;  // first column; invalid: none
    [[nodiscard]] static int rule_column();

  private:
    void follow();
    [[nodiscard]] QString rank_text(std::size_t row) const;

    Workbench& workbench_;
    std::vector<int> ids_;  // as the rows
};

// Words that must occur in the plan ("tp8 1f1b"), and conditions on measures: "step<30s mem<70GiB mfu>40%
// dp=8".
class PlansFilter : public ValueSort {
    Q_OBJECT

  public:
    explicit PlansFilter(QObject* parent = nullptr) : ValueSort(parent) {}

    // What is not understood, or "": such words filter nothing.
    QString set_filter(const QString& text);
    void set_show_infeasible(bool show);
    [[nodiscard]] bool show_infeasible() const { return infeasible_; }

  protected:
    [[nodiscard]] bool filterAcceptsRow(int row, const QModelIndex& parent) const override;

  private:
    struct Condition {
        std::string key;  // of a measure or a plan's field
        bool field = false;
        QString relation;  // "<", "<=", "=", ">=", ">"
        double value = 0;
        QString text;
    };
    QStringList words_;
    std::vector<Condition> conditions_;
    bool infeasible_ = false;
};

}  // namespace tw::gui
