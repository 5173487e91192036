#include "gui/item_models/value_table.hpp"

#include <QApplication>
#include <QFont>
#include <QPalette>

#include "base/check.hpp"
#include "gui/widgets/theme.hpp"

namespace tw::gui {

void ValueTable::set_columns(std::vector<TableColumn> columns) {
    beginResetModel();
    rows_.clear();
    columns_ = std::move(columns);
    endResetModel();
}

void ValueTable::set_rows(std::vector<std::vector<Cell>> rows) {
    for (const auto& row : rows)
        TW_CHECK(row.size() == columns_.size());
    beginResetModel();
    rows_ = std::move(rows);
    endResetModel();
}

void ValueTable::append_row(std::vector<Cell> row) {
    TW_CHECK(row.size() == columns_.size());
    const auto at = static_cast<int>(rows_.size());
    beginInsertRows({}, at, at);
    rows_.push_back(std::move(row));
    endInsertRows();
}

int ValueTable::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}

int ValueTable::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(columns_.size());
}

QVariant tone_data(Tone tone, int role) {
    if (role == Qt::ForegroundRole) {
        const Tones t = tones(QApplication::palette());
        switch (tone) {
            case Tone::Faint:
                return t.faint;
            case Tone::Good:
                return t.good;
            case Tone::Bad:
                return t.bad;
            case Tone::Warning:
                return t.warning;
            case Tone::Plain:
            case Tone::Strong:
                return {};
        }
    }
    if (role == Qt::FontRole && tone == Tone::Strong) {
        QFont font = QApplication::font();
        font.setBold(true);
        return font;
    }
    return {};
}

QVariant ValueTable::data(const QModelIndex& index, int role) const {
    if (!checkIndex(index, CheckIndexOption::IndexIsValid | CheckIndexOption::ParentIsInvalid)) return {};
    const auto column = static_cast<std::size_t>(index.column());
    const Cell& cell = rows_[static_cast<std::size_t>(index.row())][column];
    switch (role) {
        case Qt::DisplayRole:
            return cell.text;
        case Qt::ToolTipRole:
            return cell.tip.isEmpty() ? QVariant() : QVariant(cell.tip);
        case Qt::TextAlignmentRole:
            return QVariant((columns_[column].number ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
        case kSortRole:
            return cell.value.isValid() ? cell.value : QVariant(cell.text);
        case kToneRole:
            return static_cast<int>(cell.tone);
        case Qt::ForegroundRole:
        case Qt::FontRole:
            return tone_data(cell.tone, role);
        default:
            return {};
    }
}

QVariant ValueTable::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || section < 0 || section >= columnCount()) return {};
    const TableColumn& column = columns_[static_cast<std::size_t>(section)];
    switch (role) {
        case Qt::DisplayRole:
            return column.title;
        case Qt::ToolTipRole:
            return column.help.isEmpty() ? QVariant() : QVariant(column.help);
        case Qt::UserRole:
            return column.unit;
        case Qt::TextAlignmentRole:
            return QVariant((column.number ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
        default:
            return {};
    }
}

}  // namespace tw::gui
