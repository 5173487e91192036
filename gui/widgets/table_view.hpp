// The look and the manners of every table: dense rows, sorting by value, copying as TSV.
#pragma once

#include <QHash>
#include <QTableView>
#include <utility>

namespace tw::gui {

class TableView : public QTableView {
    Q_OBJECT

  public:
    // `name` is what a screen reader says.
    explicit TableView(const QString& name, QWidget* parent = nullptr);

    // Shows the model in its own order; with `sorted`, behind a ValueSort.
    void show_model(QAbstractItemModel* model, bool sorted = false);
    // To their contents, until the user sets a width; one takes what is left.
    // `whole`: also that one is never narrower than its texts; what does not fit beside it scrolls.
    void fit_columns(int stretched = -1, bool whole = false);
    // Texts that do not fit go on in further lines of their row: nothing is cut off but single long words.
    // For tables of a few hundred rows.
    // `least`: average characters of a column of texts, should it need so many.
    void wrap_texts(int least = 11);
    void copy_selection() const;               // all rows where none is selected
    [[nodiscard]] int content_height() const;  // of all rows with the heading

  protected:
    void changeEvent(QEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void paintEvent(QPaintEvent* event) override;  // with the frame of what has the focus
    void focusInEvent(QFocusEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;
    bool viewportEvent(QEvent* event) override;  // what is cut off is said by a tip

  private:
    void set_density();
    void follow_model();
    void fit_wrapped();
    void fit_rows();
    void fit_rows_soon();
    [[nodiscard]] int lines_of(const QString& text, int width);
    [[nodiscard]] int content_width(int column) const;
    [[nodiscard]] int longest_word(int column) const;
    [[nodiscard]] int text_margin() const;  // of a cell, both sides
    [[nodiscard]] int least_width() const;
    int stretched_ = -1;
    bool whole_ = false;
    bool fitting_ = false, by_hand_ = false;  // who sets the widths
    bool wraps_ = false, fit_due_ = false;
    int least_wrapped_ = 0;                      // average characters
    QHash<std::pair<QString, int>, int> lines_;  // of texts in a width: most of a table stays as it is
};

}  // namespace tw::gui
