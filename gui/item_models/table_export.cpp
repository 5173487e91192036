// Tables as files.
#include <QFile>
#include <QFileInfo>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <cmath>

#include "base/si_format.hpp"
#include "gui/item_models/value_table.hpp"

namespace tw::gui {
namespace {

QString heading(const QAbstractItemModel& model, int column) {
    const QString title = model.headerData(column, Qt::Horizontal, Qt::DisplayRole).toString();
    const QString unit = model.headerData(column, Qt::Horizontal, Qt::UserRole).toString();
    return unit.isEmpty() ? title : QString("%1 [%2]").arg(title, unit);
}

QVariant value(const QAbstractItemModel& model, int row, int column) {
    const QModelIndex index = model.index(row, column);
    const QVariant value = model.data(index, kSortRole);
    return value.isValid() ? value : model.data(index, Qt::DisplayRole);
}

bool is_number(const QVariant& value) {
    return value.typeId() == QMetaType::Double || value.typeId() == QMetaType::Int ||
           value.typeId() == QMetaType::LongLong;
}

QString text_of(const QVariant& value) {
    if (value.typeId() != QMetaType::Double) return value.toString();
    const double number = value.toDouble();
    return std::isfinite(number) ? QString::fromStdString(format_exact(number)) : QString();
}

QString quoted(QString text, char separator) {
    if (separator == '\t') return text.replace('\t', ' ').replace('\n', ' ');
    if (!text.contains(separator) && !text.contains('"') && !text.contains('\n')) return text;
    return '"' + text.replace("\"", "\"\"") + '"';
}

QString as_json(const QAbstractItemModel& model) {
    QJsonArray rows;
    for (int r = 0; r < model.rowCount(); ++r) {
        QJsonObject row;
        for (int c = 0; c < model.columnCount(); ++c) {
            const QVariant v = value(model, r, c);
            const bool number = is_number(v) && std::isfinite(v.toDouble());
            const bool absent = is_number(v) && !number;
            row.insert(heading(model, c), absent   ? QJsonValue(QJsonValue::Null)
                                          : number ? QJsonValue(v.toDouble())
                                                   : QJsonValue(v.toString()));
        }
        rows.append(row);
    }
    return QString::fromUtf8(QJsonDocument(rows).toJson());
}

}  // namespace

QString export_table(const QAbstractItemModel& model, TableFileFormat format) {
    if (format == TableFileFormat::Json) return as_json(model);
    const char separator = format == TableFileFormat::Csv ? ',' : '\t';
    const QString end = format == TableFileFormat::Csv ? "\r\n" : "\n";
    QString text;
    for (int r = -1; r < model.rowCount(); ++r) {
        for (int c = 0; c < model.columnCount(); ++c) {
            if (c > 0) text += separator;
            text += quoted(r < 0 ? heading(model, c) : text_of(value(model, r, c)), separator);
        }
        text += end;
    }
    return text;
}

QString write_table(const QAbstractItemModel& model, const QString& path) {
    const QString suffix = QFileInfo(path).suffix().toLower();
    TableFileFormat format = TableFileFormat::Csv;
    if (suffix == "tsv" || suffix == "txt") {
        format = TableFileFormat::Tsv;
    } else if (suffix == "json") {
        format = TableFileFormat::Json;
    } else if (suffix != "csv") {
        return QString("%1: tables are written as .csv, .tsv or .json").arg(path);
    }
    QFile file(path);
    const QByteArray bytes = export_table(model, format).toUtf8();
    if (!file.open(QIODevice::WriteOnly) || file.write(bytes) != bytes.size() || !file.flush())
        return QString("%1: %2").arg(path, file.errorString());
    return {};
}

}  // namespace tw::gui
