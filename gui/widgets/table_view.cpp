#include "gui/widgets/table_view.hpp"

#include <QApplication>
#include <QClipboard>
#include <QEvent>
#include <QHeaderView>
#include <QHelpEvent>
#include <QPainter>
#include <QRegularExpression>
#include <QScopedValueRollback>
#include <QScrollBar>
#include <QStyledItemDelegate>
#include <QTimer>
#include <QToolTip>
#include <algorithm>
#include <cmath>
#include <utility>

#include "gui/item_models/value_sort.hpp"
#include "gui/item_models/value_table.hpp"
#include "gui/widgets/theme.hpp"

namespace tw::gui {
namespace {

constexpr int kRows = 40;          // by whose texts the widths of columns are chosen
constexpr int kMostWrapped = 500;  // rows; those after them have a line each
constexpr int kLongWord = 16;      // characters; longer ones are names of files and keys, and may be broken

// Long words with places where a line may end: after the punctuation within names of files, paths and keys.
// None ends at an arrow, between what was and what is.
QString breakable(const QString& text) {
    static const QRegularExpression inside(QStringLiteral("([/_.:,-])"));
    QStringList words =
        QString(text).replace(QStringLiteral(" → "), QStringLiteral("\u00a0→\u00a0")).split(' ');
    for (QString& word : words)
        if (word.size() > kLongWord) word.replace(inside, QStringLiteral("\\1\u200b"));  // no width
    return words.join(' ');
}

// Shows what can be broken; the model, and so what is copied, stays as it is.
class WrappingDelegate : public QStyledItemDelegate {
  public:
    using QStyledItemDelegate::QStyledItemDelegate;
    [[nodiscard]] QString displayText(const QVariant& value, const QLocale& locale) const override {
        return breakable(QStyledItemDelegate::displayText(value, locale));
    }
};

}  // namespace

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
        if (stretched_ >= 0) fit_columns(stretched_, whole_);
    });
    // Widths that the user chose stay.
    connect(horizontalHeader(), &QHeaderView::sectionResized, this, [this] {
        by_hand_ = by_hand_ || (!fitting_ && (QApplication::mouseButtons() & Qt::LeftButton) != 0);
        if (wraps_ && !fitting_) fit_rows();
    });
}

void TableView::set_density() {
    verticalHeader()->setMinimumSectionSize(12);
    verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 4);
}

void TableView::show_model(QAbstractItemModel* model, bool sorted) {
    if (!sorted) {
        setModel(model);
        return follow_model();
    }
    auto* proxy = new ValueSort(this);
    proxy->setSourceModel(model);
    setModel(proxy);
    setSortingEnabled(true);
    horizontalHeader()->setSortIndicator(-1, Qt::AscendingOrder);
    proxy->sort(-1);
    follow_model();
}

// Rows of other texts have other heights.
void TableView::follow_model() {
    connect(model(), &QAbstractItemModel::layoutChanged, this, &TableView::fit_rows_soon);
    connect(model(), &QAbstractItemModel::modelReset, this, &TableView::fit_rows_soon);
}

// Once for changes that come together; what nobody sees waits until it is painted.
void TableView::fit_rows_soon() {
    if (!wraps_ || std::exchange(fit_due_, true)) return;
    QTimer::singleShot(0, this, [this] {
        if (!visibleRegion().isEmpty()) fit_rows();
    });
}

void TableView::wrap_texts(int least) {
    least_wrapped_ = least;
    wraps_ = true;
    setWordWrap(true);
    setItemDelegate(new WrappingDelegate(this));
    setVerticalScrollMode(ScrollPerPixel);  // a high row is scrolled through, too
    if (model() != nullptr) fit_columns(stretched_, whole_);
}

// Numbers as wide as they are. Texts share what is left: narrow ones get what they need, wide ones the rest
// in equal parts, none less than its longest word, up to two fifths of the view, and than some words. What
// does not fit so scrolls.
void TableView::fit_wrapped() {
    const int room = viewport()->width();
    std::vector<std::pair<int, int>> texts;  // width, column
    int left = room;
    for (int c = 0; c < model()->columnCount(); ++c) {
        if (isColumnHidden(c)) continue;
        const int width = std::max(content_width(c) + 6, horizontalHeader()->minimumSectionSize());
        const int alignment = model()->headerData(c, Qt::Horizontal, Qt::TextAlignmentRole).toInt();
        if ((alignment & Qt::AlignRight) != 0) {
            setColumnWidth(c, width);
            left -= width;
        } else {
            texts.emplace_back(width, c);
        }
    }
    std::ranges::sort(texts);
    for (std::size_t i = 0; i < texts.size(); ++i) {
        const auto [wanted, column] = texts[i];
        const int share = left / static_cast<int>(texts.size() - i);
        const int least = std::max(std::min(longest_word(column) + 6, room * 2 / 5),
                                   std::min(wanted, fontMetrics().averageCharWidth() * least_wrapped_));
        const int width =
            std::max({least, std::min(wanted, share), horizontalHeader()->minimumSectionSize()});
        setColumnWidth(column, width);
        left -= width;
    }
    if (left > 0 && stretched_ >= 0) setColumnWidth(stretched_, columnWidth(stretched_) + left);
    horizontalScrollBar()->setValue(0);
}

void TableView::fit_rows() {
    fit_due_ = false;
    if (model() == nullptr) return;
    const double line = QFontMetricsF(font()).height();
    for (int row = 0; row < model()->rowCount(); ++row) {
        int lines = 1;
        for (int c = 0; c < model()->columnCount() && row < kMostWrapped; ++c)
            if (!isColumnHidden(c))
                lines = std::max(lines, lines_of(model()->index(row, c).data().toString(), columnWidth(c)));
        setRowHeight(row, lines == 1 ? verticalHeader()->defaultSectionSize()
                                     : static_cast<int>(std::ceil(lines * line)) + 4);
    }
}

int TableView::lines_of(const QString& text, int width) {
    constexpr qsizetype kKept = 20'000;
    const std::pair key(text, width);
    if (const auto known = lines_.constFind(key); known != lines_.constEnd()) return *known;
    // As the delegate breaks it; a pixel less, so that it never has fewer lines than are drawn.
    const int room = std::max(1, width - text_margin() - 1);
    int lines = 1;
    if (fontMetrics().horizontalAdvance(text) > room) {
        const QRect box =
            fontMetrics().boundingRect(QRect(0, 0, room, 1 << 16), Qt::TextWordWrap, breakable(text));
        lines = static_cast<int>(std::lround(box.height() / QFontMetricsF(font()).height()));
    }
    if (lines_.size() >= kKept) lines_.clear();
    return lines_[key] = lines;
}

void TableView::fit_columns(int stretched, bool whole) {
    stretched_ = stretched;
    whole_ = whole;
    if (model() == nullptr) return;
    if (by_hand_) {
        if (wraps_) fit_rows();
        return;
    }
    const QScopedValueRollback fitting(fitting_, true);
    if (wraps_) {
        fit_wrapped();
        return fit_rows();
    }
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
    if (whole) {
        setColumnWidth(stretched, std::max(columnWidth(stretched), room - others));
        horizontalScrollBar()->setValue(0);
        return;
    }
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
    const int margin = text_margin();
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

int TableView::longest_word(int column) const {
    static const QRegularExpression ends(QStringLiteral("[ \u200b]"));
    int longest = 0;
    for (int row = 0; row < std::min(kRows, model()->rowCount()); ++row)
        for (const QString& word : breakable(model()->index(row, column).data().toString()).split(ends))
            longest = std::max(longest, fontMetrics().horizontalAdvance(word));
    return longest + text_margin();
}

int TableView::text_margin() const {
    return 2 * (style()->pixelMetric(QStyle::PM_FocusFrameHMargin, nullptr, this) + 1);
}

// Of the stretched column: some words of its longest text.
int TableView::least_width() const {
    const int most = fontMetrics().averageCharWidth() * 14;
    return std::min(most, std::max(content_width(stretched_), fontMetrics().averageCharWidth() * 8));
}

int TableView::content_height() const {
    const int rows = model() == nullptr ? 0 : model()->rowCount();
    return horizontalHeader()->sizeHint().height() +
           (wraps_ ? verticalHeader()->length() : rows * verticalHeader()->defaultSectionSize()) + 4 +
           horizontalScrollBar()->sizeHint().height();
}

void TableView::changeEvent(QEvent* event) {
    QTableView::changeEvent(event);
    if (event->type() != QEvent::FontChange && event->type() != QEvent::StyleChange) return;
    set_density();
    lines_.clear();
    fit_rows_soon();
}

void TableView::resizeEvent(QResizeEvent* event) {
    QTableView::resizeEvent(event);
    if (stretched_ >= 0) fit_columns(stretched_, whole_);
}

void TableView::paintEvent(QPaintEvent* event) {
    QTableView::paintEvent(event);
    if (std::exchange(fit_due_, false)) fit_rows_soon();
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
