#include "gui/widgets/table_view.hpp"

#include <QApplication>
#include <QClipboard>
#include <QEvent>
#include <QHeaderView>
#include <QHelpEvent>
#include <QPainter>
#include <QScopedValueRollback>
#include <QScrollBar>
#include <QToolTip>
#include <algorithm>

#include "gui/item_models/value_sort.hpp"
#include "gui/item_models/value_table.hpp"
#include "gui/widgets/theme.hpp"

namespace tw::gui {

TableView::TableView(const QString& name, QWidget* parent) : QTableView(parent) {
    setAccessibleName(name);
    setSelectionBehavior(SelectRows);
    setSelectionMode(ExtendedSelection);
    setAlternatingRowColors(true);
    setShowGrid(false);
    setWordWrap(false);
    setTabKeyNavigation(false);  // Tab leaves the table
    setHorizontalScrollMode(ScrollPerPixel);
    setFrameShape(NoFrame);
    verticalHeader()->hide();
    verticalHeader()->setSectionResizeMode(QHeaderView::Fixed);
    horizontalHeader()->setHighlightSections(false);
    horizontalHeader()->setMinimumSectionSize(24);
    horizontalHeader()->setSortIndicatorClearable(true);
    set_density();
    connect(horizontalHeader(), &QHeaderView::sortIndicatorChanged, this, [this] {
        if (stretched_ >= 0) fit_columns(stretched_);
    });
    // Widths that the user chose stay.
    connect(horizontalHeader(), &QHeaderView::sectionResized, this, [this] {
        by_hand_ = by_hand_ || (!fitting_ && (QApplication::mouseButtons() & Qt::LeftButton) != 0);
    });
}

void TableView::set_density() {
    verticalHeader()->setMinimumSectionSize(12);
    verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 4);
}

void TableView::show_model(QAbstractItemModel* model, bool sorted) {
    if (!sorted) return setModel(model);
    auto* proxy = new ValueSort(this);
    proxy->setSourceModel(model);
    setModel(proxy);
    setSortingEnabled(true);
    horizontalHeader()->setSortIndicator(-1, Qt::AscendingOrder);
    proxy->sort(-1);
}

void TableView::fit_columns(int stretched) {
    stretched_ = stretched;
    if (model() == nullptr || by_hand_) return;
    const QScopedValueRollback fitting(fitting_, true);
    int others = 0;
    for (int c = 0; c < model()->columnCount(); ++c) {
        if (isColumnHidden(c)) continue;
        setColumnWidth(c, content_width(c) + 6);
        if (c != stretched) others += columnWidth(c);
    }
    if (stretched < 0) return;
    // A third is the stretched one's, should it need so much; where the others do not fit beside that, none
    // of them is wider than 30 % of the view.
    const int room = viewport()->width();
    if (others + std::min(content_width(stretched), room / 3) > room) {
        others = 0;
        for (int c = 0; c < model()->columnCount(); ++c) {
            if (isColumnHidden(c) || c == stretched) continue;
            setColumnWidth(c, std::min(columnWidth(c), std::max(least_width(), room * 3 / 10)));
            others += columnWidth(c);
        }
    }
    setColumnWidth(stretched, std::max(least_width(), room - others));
    horizontalScrollBar()->setValue(0);
}

void TableView::copy_selection() const {
    if (model() == nullptr) return;
    if (!selectionModel()->hasSelection()) {
        QApplication::clipboard()->setText(export_table(*model(), TableFileFormat::Tsv));
        return;
    }
    QString text;
    for (int c = 0; c < model()->columnCount(); ++c)
        text += (c > 0 ? "\t" : "") + model()->headerData(c, Qt::Horizontal).toString();
    text += '\n';
    QModelIndexList rows = selectionModel()->selectedRows();
    std::ranges::sort(rows, [](const QModelIndex& a, const QModelIndex& b) { return a.row() < b.row(); });
    for (const QModelIndex& row : rows) {
        for (int c = 0; c < model()->columnCount(); ++c)
            text += (c > 0 ? "\t" : "") + row.siblingAtColumn(c).data().toString();
        text += '\n';
    }
    QApplication::clipboard()->setText(text);
}

// Of the heading and the first rows. By the width of the texts alone: delegates would lay each of them out,
// which costs more than a frame while a search adds rows.
int TableView::content_width(int column) const {
    constexpr int kRows = 40;
    const int margin = 2 * (style()->pixelMetric(QStyle::PM_FocusFrameHMargin, nullptr, this) + 1);
    const QHeaderView* header = horizontalHeader();
    // The style leaves room for an arrow in every heading; one has it.
    const bool sorts = header->isSortIndicatorShown() && header->sortIndicatorSection() == column;
    int widest =
        header->fontMetrics().horizontalAdvance(model()->headerData(column, Qt::Horizontal).toString()) +
        2 * style()->pixelMetric(QStyle::PM_HeaderMargin, nullptr, header) +
        (sorts ? style()->pixelMetric(QStyle::PM_HeaderMarkSize, nullptr, header) + margin : 0);
    for (int row = 0; row < std::min(kRows, model()->rowCount()); ++row) {
        const QModelIndex at = model()->index(row, column);
        const QString text = at.data().toString();
        const QVariant font = at.data(Qt::FontRole);
        const int width = font.isValid() ? QFontMetrics(font.value<QFont>()).horizontalAdvance(text)
                                         : fontMetrics().horizontalAdvance(text);
        widest = std::max(widest, width + margin);
    }
    return widest;
}

// Of the stretched column: some words of its longest text.
int TableView::least_width() const {
    const int most = fontMetrics().averageCharWidth() * 14;
    return std::min(most, std::max(content_width(stretched_), fontMetrics().averageCharWidth() * 8));
}

int TableView::content_height() const {
    const int rows = model() == nullptr ? 0 : model()->rowCount();
    return horizontalHeader()->sizeHint().height() + rows * verticalHeader()->defaultSectionSize() + 4 +
           horizontalScrollBar()->sizeHint().height();
}

void TableView::changeEvent(QEvent* event) {
    QTableView::changeEvent(event);
    if (event->type() == QEvent::FontChange || event->type() == QEvent::StyleChange) set_density();
}

void TableView::resizeEvent(QResizeEvent* event) {
    QTableView::resizeEvent(event);
    if (stretched_ >= 0) fit_columns(stretched_);
}

void TableView::paintEvent(QPaintEvent* event) {
    QTableView::paintEvent(event);
    if (!hasFocus()) return;
    QPainter painter(viewport());
    paint_focus(painter, viewport()->rect(), palette());
}

void TableView::focusInEvent(QFocusEvent* event) {
    QTableView::focusInEvent(event);
    viewport()->update();
}

void TableView::focusOutEvent(QFocusEvent* event) {
    QTableView::focusOutEvent(event);
    viewport()->update();
}

bool TableView::viewportEvent(QEvent* event) {
    if (event->type() == QEvent::ToolTip) {
        const auto* help = static_cast<QHelpEvent*>(event);
        const QModelIndex at = indexAt(help->pos());
        const bool cut = at.isValid() && sizeHintForIndex(at).width() > columnWidth(at.column());
        if (cut && !at.data(Qt::ToolTipRole).isValid()) {
            QToolTip::showText(help->globalPos(), at.data().toString(), viewport(), visualRect(at));
            return true;
        }
    }
    return QTableView::viewportEvent(event);
}

}  // namespace tw::gui
