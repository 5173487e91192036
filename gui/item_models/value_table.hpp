// A table of values: what is shown, what is sorted and exported by, and in which tone. Everything in the
// window that is a table, but the plans, is one of these.
#pragma once

#include <QAbstractTableModel>
#include <QString>
#include <QVariant>
#include <vector>

namespace tw::gui {

inline constexpr int kSortRole = Qt::UserRole + 1;  // the value itself: a double, or the text
inline constexpr int kToneRole = Qt::UserRole + 2;  // Tone as int
inline constexpr int kRowKeyRole = Qt::UserRole + 3;

enum class Tone : unsigned char { Plain, Faint, Good, Bad, Warning, Strong };

struct TableColumn {
    QString title;
    QString help = {};
    QString unit = {};  // of exported values: "s", "B"; may be empty
    bool number = false;
};

struct Cell {
    QString text;
    QVariant value = {};  // invalid: the text
    Tone tone = Tone::Plain;
    QString tip = {};
};

class ValueTable : public QAbstractTableModel {
    Q_OBJECT

  public:
    explicit ValueTable(QObject* parent = nullptr) : QAbstractTableModel(parent) {}

    void set_columns(std::vector<TableColumn> columns);
    // Rows have as many cells as there are columns (CHECK).
    void set_rows(std::vector<std::vector<Cell>> rows);
    void append_row(std::vector<Cell> row);
    [[nodiscard]] const std::vector<std::vector<Cell>>& rows() const { return rows_; }

    [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
    [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

  private:
    std::vector<TableColumn> columns_;
    std::vector<std::vector<Cell>> rows_;
};

// What a cell of any of our models looks like beyond its text: colour of a tone, weight.
QVariant tone_data(Tone tone, int role);

enum class TableFileFormat : unsigned char { Csv, Tsv, Json };
// What is shown, in its order: numbers as numbers, in the unit that the heading names. CSV by RFC 4180; JSON
// as an array of objects.
QString export_table(const QAbstractItemModel& model, TableFileFormat format);
// By the suffix (.csv, .tsv, .json); an error text, or "" where it was written.
QString write_table(const QAbstractItemModel& model, const QString& path);

}  // namespace tw::gui
