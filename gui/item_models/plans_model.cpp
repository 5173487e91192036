#include "gui/item_models/plans_model.hpp"

#include <QRegularExpression>
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "base/si_format.hpp"
#include "gui/app/workbench.hpp"
#include "gui/item_models/value_table.hpp"
#include "gui/worker/plan_entry.hpp"
#include "gui/worker/plan_fields.hpp"

namespace tw::gui {
namespace {

// "30s", "70GiB" in seconds or bytes.
std::optional<double> parse_quantity(const QString& text, bool bytes) {
    const auto parsed = bytes ? parse_bytes(text.toStdString()) : parse_duration(text.toStdString());
    return parsed ? std::optional(*parsed) : std::nullopt;
}

// The value of a condition on a measure; nothing where it is not one of it. Without a unit: seconds, bytes.
std::optional<double> parse_value(const std::string& key, const QString& number, const QString& unit) {
    bool plain = false;
    const double value = number.toDouble(&plain);
    if (!plain) return std::nullopt;
    const bool rate = key == "tokens_per_s";
    if (unit.isEmpty()) return value;
    if (rate && unit == "k") return value * 1e3;
    if (rate && unit == "M") return value * 1e6;
    if ((key == "mfu" || key == "bubble_fraction") && unit == "%") return value / 100;
    if (key.ends_with("_s") && !rate) return parse_quantity(number + unit, false);
    if (key.ends_with("_bytes")) return parse_quantity(number + unit, true);
    return std::nullopt;
}

const char* legal_value(const std::string& key) {
    if (key == "tokens_per_s") return "500, 105k, 2M";
    if (key == "mfu" || key == "bubble_fraction") return "40%, 0.4";
    if (key.ends_with("_s")) return "30s, 250ms";
    return key.ends_with("_bytes") ? "70GiB, 80GB" : "3";
}

QString reasons(const PlanEntry& entry) {
    QStringList lines;
    for (const Error& error : entry.errors)
        lines.append(QString::fromStdString(to_string(error)));
    return lines.join('\n');
}

}  // namespace

PlansModel::PlansModel(Workbench& workbench, QObject* parent)
    : QAbstractTableModel(parent), workbench_(workbench) {
    connect(&workbench, &Workbench::plans_changed, this, &PlansModel::follow);
    connect(&workbench, &Workbench::pins_changed, this, [this] {
        if (!ids_.empty()) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, 0));
    });
    connect(&workbench, &Workbench::plan_updated, this, [this](int id) {
        const QModelIndex at = index_of(id);
        if (at.isValid()) Q_EMIT dataChanged(at, at.siblingAtColumn(columnCount() - 1));
    });
    follow();
}

int PlansModel::rule_column() {
    return kFirstMeasure + static_cast<int>(measures().size());
}

// Rows that stay are moved, not reset: a selection and the scroll position hold while a search goes on.
void PlansModel::follow() {
    std::vector<int> ids;
    for (const PlanEntry& entry : workbench_.plans())
        ids.push_back(entry.id);
    if (ids.size() != ids_.size()) {
        beginResetModel();
        ids_ = std::move(ids);
        endResetModel();
        return;
    }
    if (ids != ids_) {
        Q_EMIT layoutAboutToBeChanged();
        const QModelIndexList before = persistentIndexList();
        QModelIndexList after;
        for (const QModelIndex& at : before) {
            const auto found = std::ranges::find(ids, ids_[static_cast<std::size_t>(at.row())]);
            after.append(found == ids.end() ? QModelIndex()
                                            : index(static_cast<int>(found - ids.begin()), at.column()));
        }
        ids_ = std::move(ids);
        changePersistentIndexList(before, after);
        Q_EMIT layoutChanged();
    }
    if (!ids_.empty()) Q_EMIT dataChanged(index(0, 0), index(rowCount() - 1, columnCount() - 1));
}

int PlansModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(ids_.size());
}

int PlansModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : rule_column() + 1;
}

const PlanEntry* PlansModel::entry(const QModelIndex& index) const {
    if (!index.isValid() || index.row() >= rowCount()) return nullptr;
    // Rows are the plans in their order; between a change of the plans and ours they may differ.
    const auto row = static_cast<std::size_t>(index.row());
    const std::vector<PlanEntry>& plans = workbench_.plans();
    return row < plans.size() && plans[row].id == ids_[row] ? &plans[row] : workbench_.plan(ids_[row]);
}

QModelIndex PlansModel::index_of(int id) const {
    const auto found = std::ranges::find(ids_, id);
    return found == ids_.end() ? QModelIndex() : index(static_cast<int>(found - ids_.begin()), 0);
}

QString PlansModel::rank_text(std::size_t row) const {
    const PlanEntry* entry = workbench_.plan(ids_[row]);
    if (entry == nullptr) return {};
    QString text;
    const PlanEntry *a = workbench_.pinned(0), *b = workbench_.pinned(1);
    if (a != nullptr && a->id == entry->id) text += "A ";
    if (b != nullptr && b->id == entry->id) text += "B ";
    switch (entry->origin) {
        case PlanOrigin::Found:
            if (entry->front) return text + "front";
            return text + (entry->tied && row > 0 ? "=" : QString::number(row + 1));
        case PlanOrigin::Kept:
            return text + "kept";
        case PlanOrigin::Opened:
            return text + "file";
        case PlanOrigin::Infeasible:
            return text + "no";
    }
    return text;
}

QVariant PlansModel::data(const QModelIndex& index, int role) const {
    if (!checkIndex(index, CheckIndexOption::IndexIsValid | CheckIndexOption::ParentIsInvalid)) return {};
    const PlanEntry* entry = this->entry(index);
    if (entry == nullptr) return {};
    const int column = index.column();
    if (role == kRowKeyRole) return entry->id;
    if (role == Qt::TextAlignmentRole)
        return QVariant((column == kPlan || column == rule_column() ? Qt::AlignLeft : Qt::AlignRight) |
                        Qt::AlignVCenter);
    if (role == Qt::ForegroundRole && !entry->feasible())
        return tone_data(column == rule_column() ? Tone::Bad : Tone::Faint, role);
    if (role == Qt::ForegroundRole && !entry->evaluation.fits && column == kFirstMeasure + 4)
        return tone_data(Tone::Bad, role);
    if (role == Qt::FontRole && index.row() == 0 && entry->feasible() && column == kPlan)
        return tone_data(Tone::Strong, role);
    if (role == Qt::ToolTipRole) {
        if (!entry->feasible()) return reasons(*entry);
        if (column == kPlan) return QString::fromStdString(plan_name(*entry));
        return {};
    }
    if (column == kRank) {
        if (role == Qt::DisplayRole) return rank_text(static_cast<std::size_t>(index.row()));
        if (role == kSortRole) return static_cast<double>(index.row());
        return {};
    }
    if (column == kPlan)
        return role == Qt::DisplayRole || role == kSortRole
                   ? QVariant(QString::fromStdString(plan_name(*entry)))
                   : QVariant();
    if (column == rule_column()) {
        if (role != Qt::DisplayRole && role != kSortRole) return {};
        if (entry->feasible()) return entry->evaluation.fits ? QString() : QString("does not fit");
        const QString more =
            entry->errors.size() > 1 ? QString(" (and %1 more)").arg(entry->errors.size() - 1) : QString();
        return QString::fromStdString(entry->errors.front().message) + more;
    }
    const Measure& measure = measures()[static_cast<std::size_t>(column - kFirstMeasure)];
    const double value = measure.value(*entry);
    if (role == kSortRole) return value;
    if (role == Qt::DisplayRole)
        return std::isnan(value) ? QString() : QString::fromStdString(measure.text(value));
    return {};
}

QVariant PlansModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || section < 0 || section >= columnCount()) return {};
    if (role == Qt::TextAlignmentRole)
        return QVariant((section == kPlan || section == rule_column() ? Qt::AlignLeft : Qt::AlignRight) |
                        Qt::AlignVCenter);
    if (section == kRank) return role == Qt::DisplayRole ? QVariant("#") : QVariant();
    if (section == kPlan) return role == Qt::DisplayRole ? QVariant(tr("Plan")) : QVariant();
    if (section == rule_column()) return role == Qt::DisplayRole ? QVariant(tr("Rule")) : QVariant();
    const Measure& measure = measures()[static_cast<std::size_t>(section - kFirstMeasure)];
    if (role == Qt::DisplayRole) return QString::fromUtf8(measure.title);
    if (role == Qt::ToolTipRole) return QString::fromUtf8(measure.help);
    if (role == Qt::UserRole) return QString(QLatin1String(measure.unit)).replace("%", "1");
    return {};
}

QString PlansFilter::set_filter(const QString& text) {
    static const QRegularExpression condition("^([a-z_]+)(<=|>=|<|>|=)([0-9.]+)\\s*([a-zA-Z%]*)$");
    static const std::map<QString, const char*> names = {
        {"step", "step_time_s"},       {"time", "step_time_s"},
        {"rate", "tokens_per_s"},      {"mfu", "mfu"},
        {"mem", "peak_device_bytes"},  {"memory", "peak_device_bytes"},
        {"bubble", "bubble_fraction"}, {"exposed", "exposed_s"},
        {"money", "usd_per_step"},     {"alike", "near_identical"}};
    words_.clear();
    conditions_.clear();
    QString wrong;
    for (const QString& word : text.split(' ', Qt::SkipEmptyParts)) {
        const auto match = condition.match(word);
        if (!match.hasMatch()) {
            words_.append(word);
            continue;
        }
        const QString name = match.captured(1), number = match.captured(3), unit = match.captured(4);
        Condition c;
        c.relation = match.captured(2);
        c.text = number + unit;
        if (const auto measure = names.find(name); measure != names.end()) {
            c.key = measure->second;
            const auto value = parse_value(c.key, number, unit);
            if (!value) {
                wrong = tr("'%1' is no value of %2: %3").arg(c.text, name, tr(legal_value(c.key)));
                continue;
            }
            c.value = *value;
        } else if (find_field(name.toStdString()) != nullptr) {
            c.key = name.toStdString();
            c.field = true;
            // "2/8", "full" and the like are compared as texts.
            bool plain = false;
            c.value = c.text.toDouble(&plain);
            if (!plain) c.value = std::numeric_limits<double>::quiet_NaN();
            if (!plain && c.relation != "=") {
                wrong = tr("'%1' is no number").arg(c.text);
                continue;
            }
        } else {
            wrong = tr("'%1' is neither a measure (step, rate, mfu, mem, bubble, exposed, money, alike) nor "
                       "a field")
                        .arg(name);
            continue;
        }
        conditions_.push_back(c);
    }
    invalidateFilter();
    return wrong;
}

void PlansFilter::set_show_infeasible(bool show) {
    infeasible_ = show;
    invalidateFilter();
}

bool PlansFilter::filterAcceptsRow(int row, const QModelIndex& parent) const {
    const auto* model = qobject_cast<const PlansModel*>(sourceModel());
    const PlanEntry* entry = model == nullptr ? nullptr : model->entry(model->index(row, 0, parent));
    if (entry == nullptr) return false;
    if (!infeasible_ && entry->origin == PlanOrigin::Infeasible) return false;
    const QString name = QString::fromStdString(plan_name(*entry));
    for (const QString& word : words_)
        if (!name.contains(word, Qt::CaseInsensitive)) return false;
    const auto holds = [](double value, const QString& relation, double bound) {
        if (relation.endsWith('=') && value == bound) return true;
        return relation.startsWith('<') ? value < bound : relation.startsWith('>') && value > bound;
    };
    return std::ranges::all_of(conditions_, [&](const Condition& c) {
        if (!c.field) return holds(find_measure(c.key).value(*entry), c.relation, c.value);
        const QString text = QString::fromStdString(field_text(entry->plan, c.key));
        bool number = false;
        const double value = text.toDouble(&number);
        if (number && !std::isnan(c.value)) return holds(value, c.relation, c.value);
        return c.relation == "=" && text == c.text;
    });
}

}  // namespace tw::gui
