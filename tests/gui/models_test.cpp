// Item models under Qt's own tester, tables as files, fields of plans.
#include <QAbstractItemModelTester>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QTemporaryDir>
#include <cmath>

#include "gui/item_models/plans_model.hpp"
#include "gui/item_models/report_rows.hpp"
#include "gui/item_models/value_table.hpp"
#include "gui/worker/fix_edit.hpp"
#include "gui/worker/plan_fields.hpp"
#include "gui/worker/tasks.hpp"
#include "plan/check_plan.hpp"
#include "plan/fix_spec.hpp"
#include "sim/report/report.hpp"
#include "tests/gui/window_fixtures.hpp"

namespace tw::gui {
namespace {

using Mode = QAbstractItemModelTester::FailureReportingMode;

TEST(Models, PlansModelIsConsistentWhileASearchRuns) {
    Workbench workbench;
    PlansModel model(workbench);
    PlansFilter filter;
    filter.setSourceModel(&model);
    const QAbstractItemModelTester of_model(&model, Mode::Fatal), of_filter(&filter, Mode::Fatal);
    find_small_plans(workbench);
    EXPECT_EQ(model.rowCount(), static_cast<int>(workbench.plans().size()));
    const int id = workbench.plans()[1].id;
    EXPECT_EQ(model.entry(model.index_of(id))->id, id);
    workbench.keep_plan();
    EXPECT_EQ(model.rowCount(), static_cast<int>(workbench.plans().size()));
    workbench.undo().undo();
    workbench.start_search();
    ASSERT_TRUE(wait_idle(workbench));
    EXPECT_EQ(workbench.plans()[1].id, id);  // the same plan keeps its id
}

TEST(Models, TheFilterUnderstandsWordsMeasuresAndFields) {
    Workbench workbench;
    PlansModel model(workbench);
    PlansFilter filter;
    filter.setSourceModel(&model);
    find_small_plans(workbench);
    const auto feasible = static_cast<int>(std::ranges::count_if(
        workbench.plans(), [](const PlanEntry& e) { return e.origin != PlanOrigin::Infeasible; }));
    EXPECT_EQ(filter.rowCount(), feasible);
    EXPECT_EQ(filter.set_filter("dp=2"), "");
    for (int row = 0; row < filter.rowCount(); ++row)
        EXPECT_EQ(model.entry(filter.mapToSource(filter.index(row, 0)))->plan.mesh.dp, 2);
    EXPECT_EQ(filter.set_filter("step<1ns"), "");
    EXPECT_EQ(filter.rowCount(), 0);
    EXPECT_EQ(filter.set_filter("mem<1PiB step>1ns"), "");
    EXPECT_EQ(filter.rowCount(), feasible);
    // Bounds that are included are.
    EXPECT_EQ(filter.set_filter("dp<=1"), "");
    const int narrow = filter.rowCount();
    EXPECT_EQ(filter.set_filter("dp<2"), "");
    EXPECT_EQ(filter.rowCount(), narrow);
    EXPECT_EQ(filter.set_filter("dp>=2"), "");
    EXPECT_EQ(filter.rowCount(), feasible - narrow);
    EXPECT_EQ(filter.set_filter("dp>2"), "");
    EXPECT_EQ(filter.rowCount(), 0);
    EXPECT_NE(filter.set_filter("colour=7"), "");
    // A value that is none of its measure's is said, and filters nothing.
    for (const char* wrong : {"step<30x", "mfu>40GB", "mem<1.2.3GiB", "rate>5q", "dp<8x", "money<5%"}) {
        EXPECT_NE(filter.set_filter(wrong), "") << wrong;
        EXPECT_EQ(filter.rowCount(), feasible) << wrong;
    }
    for (const char* right : {"step<30", "mfu<100%", "rate>0k", "alike<1000", "recompute=none"})
        EXPECT_EQ(filter.set_filter(right), "") << right;
    EXPECT_EQ(filter.set_filter("nosuchschedule"), "");
    EXPECT_EQ(filter.rowCount(), 0);
}

TEST(Models, SortingPutsUnknownValuesLast) {
    ValueTable table;
    const QAbstractItemModelTester tester(&table, Mode::Fatal);
    table.set_columns({{"a", {}, "s", true}});
    table.set_rows({{{"", std::nan("")}}, {{"2", 2.0}}, {{"1", 1.0}}, {{"3", 3.0}}});
    ValueSort sort;
    sort.setSourceModel(&table);
    const QAbstractItemModelTester of_sort(&sort, Mode::Fatal);
    for (const Qt::SortOrder order : {Qt::AscendingOrder, Qt::DescendingOrder}) {
        sort.sort(0, order);
        EXPECT_EQ(sort.index(0, 0).data().toString(), order == Qt::AscendingOrder ? "1" : "3");
        EXPECT_EQ(sort.index(3, 0).data().toString(), "");
    }
    table.append_row({{"4", 4.0}});
    EXPECT_EQ(sort.index(0, 0).data().toString(), "4");
}

TEST(Models, TablesAreWrittenWithTheirValues) {
    ValueTable table;
    table.set_columns({{"name"}, {"time", {}, "s", true}});
    table.set_rows({{{"a, \"b\""}, {"12.1 ms", 0.0121}}, {{"c"}, {"", std::nan("")}}});
    EXPECT_EQ(export_table(table, TableFileFormat::Csv),
              "name,time [s]\r\n\"a, \"\"b\"\"\",0.0121\r\nc,\r\n");
    EXPECT_EQ(export_table(table, TableFileFormat::Tsv), "name\ttime [s]\na, \"b\"\t0.0121\nc\t\n");
    const QJsonArray rows =
        QJsonDocument::fromJson(export_table(table, TableFileFormat::Json).toUtf8()).array();
    ASSERT_EQ(rows.size(), 2);
    EXPECT_DOUBLE_EQ(rows[0].toObject()["time [s]"].toDouble(), 0.0121);
    EXPECT_TRUE(rows[1].toObject()["time [s]"].isNull());
    const QTemporaryDir folder;
    EXPECT_EQ(write_table(table, folder.filePath("t.csv")), "");
    EXPECT_NE(write_table(table, folder.filePath("t.xls")), "");
    EXPECT_NE(write_table(table, folder.filePath("none/t.csv")), "");
}

TEST(Models, ReportTablesAreConsistentAndAddUp) {
    Workbench workbench;
    find_small_plans(workbench);
    const auto report = workbench.shown().report;
    ValueTable table;
    const QAbstractItemModelTester tester(&table, Mode::Fatal);
    table.set_columns(breakdown_columns(false));
    table.set_rows(breakdown_rows(*report));
    double sum = 0;
    for (int row = 0; row < table.rowCount(); ++row)
        sum += table.index(row, 1).data(kSortRole).toDouble();
    EXPECT_NEAR(sum, report->step_time_s, 1e-6 * report->step_time_s);
    table.set_columns(figure_columns("A", "B"));
    table.set_rows(figure_rows(report.get(), report.get()));
    for (int row = 0; row < table.rowCount(); ++row) {
        const QVariant change = table.index(row, 3).data(kSortRole);
        EXPECT_TRUE(change.typeId() != QMetaType::Double || std::isnan(change.toDouble()) ||
                    change.toDouble() == 0)
            << row;
        // Nothing has no sign.
        const QString text = table.index(row, 3).data().toString();
        EXPECT_TRUE(text.isEmpty() || text.startsWith("0.0 ")) << text.toStdString();
    }
}

TEST(Models, PlansOfOneNameAreToldApart) {
    std::vector<PlanEntry> entries(3);
    entries[1].plan.overlap.tp = !entries[0].plan.overlap.tp;
    entries[2].plan.mesh.tp = 2;
    tell_apart(entries);
    EXPECT_NE(plan_name(entries[0]), plan_name(entries[1]));
    EXPECT_TRUE(entries[0].detail.starts_with("hide tp ")) << entries[0].detail;
    EXPECT_EQ(entries[2].detail, "");
    EXPECT_EQ(plan_name(entries[2]), summary(entries[2].plan));
    // Alone it needs no more than its summary.
    entries.pop_back();
    entries.pop_back();
    tell_apart(entries);
    EXPECT_EQ(entries[0].detail, "");
}

TEST(PlanFields, DerivedFieldsFollow) {
    gui::Setup setup = small_setup();
    setup.model = "gpt3-175b";
    setup.cluster = "a100:1024";
    setup.global_batch = 1536;
    setup.seq_len = 0;
    setup.fix = "tp=8,pp=16,mbs=1,schedule=1f1b";
    setup.top = 1;
    const auto study = make_study(setup);
    ASSERT_TRUE(study);
    const auto found = search_plans(*study, setup, nullptr, {});
    ASSERT_TRUE(found);
    ASSERT_FALSE(found->plans.empty());
    const ParallelPlan& plan = found->plans.front().plan;
    EXPECT_EQ(field_text(plan, "dp"), "8");
    EXPECT_EQ(field_text(plan, "microbatches"), "192");
    const auto changed = with_field(**study, plan, "tp", "4");
    ASSERT_TRUE(changed);
    EXPECT_EQ(changed->mesh.dp, 16);
    EXPECT_EQ(changed->microbatches, 96);
    EXPECT_FALSE(with_field(**study, plan, "tp", "7"));
    EXPECT_FALSE(with_field(**study, plan, "mbs", "1000"));
    EXPECT_FALSE(with_field(**study, plan, "mbs", "two"));
    EXPECT_FALSE(with_field(**study, plan, "schedule", "1f2b"));
    EXPECT_FALSE(with_field(**study, plan, "dp ", "8"));
    const auto split = with_field(**study, plan, "pp", "8");
    ASSERT_TRUE(split);
    EXPECT_EQ(split->stage_count(), 8);
    const auto differences = field_differences(plan, *changed);
    EXPECT_EQ(differences.size(), 3U);  // tp, dp, microbatches
}

TEST(PlanFields, StagesStayOnTheSlowestDevicesOfAMixedCluster) {
    gui::Setup setup = small_setup();
    setup.cluster_text = R"({"schema": "trainwright/cluster", "version": 1, "name": "mixed",
                             "groups": [{"node": "dgx-h100"}, {"node": "dgx-a100"}]})";
    setup.fix = "pp=4,tp=1,cp=1,mbs=1,schedule=1f1b";
    setup.top = 1;
    const auto study = make_study(setup);
    ASSERT_TRUE(study) << to_string(study.errors());
    const auto found = search_plans(*study, setup, nullptr, {});
    ASSERT_TRUE(found) << to_string(found.errors());
    ASSERT_FALSE(found->plans.empty());
    const auto changed = with_field(**study, found->plans.front().plan, "pp", "2");
    ASSERT_TRUE(changed) << to_string(changed.errors());
    EXPECT_EQ(changed->stages.at(0).node_group, 0);
    EXPECT_EQ(changed->stages.at(1).node_group, 1);
    EXPECT_TRUE(check_entry(**study, *changed).empty());
}

TEST(PlanFields, OfferedValuesAreJudged) {
    const auto study = make_study(small_setup());
    ASSERT_TRUE(study);
    const auto found = search_plans(*study, small_setup(), nullptr, {});
    ASSERT_TRUE(found);
    const ParallelPlan& plan = found->plans.front().plan;
    for (const PlanField& field : plan_fields()) {
        if (field.derived || field.free) continue;
        const auto values = field_values(**study, plan, field.key);
        ASSERT_FALSE(values.empty()) << field.key;
        bool own = false;
        for (const FieldValue& value : values) {
            own |= value.text == field_text(plan, field.key);
            const auto changed = with_field(**study, plan, field.key, value.text);
            if (value.text == field_text(plan, field.key)) continue;
            const bool legal = changed && check_entry(**study, *changed).empty();
            EXPECT_EQ(legal, value.refusal.empty())
                << field.key << " " << value.text << ": " << value.refusal;
        }
        EXPECT_TRUE(own) << field.key;
    }
}

// An expert's degrees, ZeRO over groups and the first blocks alone are fields as the search has them.
TEST(PlanFields, ShardsBlocksAndExpertsAreRead) {
    const auto study = make_study(small_setup());
    ASSERT_TRUE(study);
    const auto found = search_plans(*study, small_setup(), nullptr, {});
    ASSERT_TRUE(found);
    ParallelPlan plan = found->plans.front().plan;
    plan.zero_stage = 2;
    plan.zero_shard = 8;
    EXPECT_EQ(field_text(plan, "zero"), "2/8");
    plan.mesh.etp = 4;
    EXPECT_EQ(field_text(plan, "etp"), "4");
    plan.mesh.etp = 1;
    const auto blocks = with_field(**study, plan, "recompute", "full:1");
    ASSERT_TRUE(blocks) << to_string(blocks.errors());
    EXPECT_EQ(blocks->stages.front().recompute_layers, 1);
    EXPECT_EQ(field_text(*blocks, "recompute"), "full:1");
    const auto plain = with_field(**study, *blocks, "zero", "1");
    ASSERT_TRUE(plain);
    EXPECT_EQ(plain->zero_shard, 0);
    EXPECT_EQ(field_text(*plain, "recompute"), "full:1");
    for (const char* wrong : {"4", "0/2", "2/", "2/all", "x"})
        EXPECT_FALSE(with_field(**study, plan, "zero", wrong)) << wrong;
    EXPECT_FALSE(with_field(**study, plan, "recompute", "full:0"));
}

TEST(PlanFields, ConstraintsOfferWhatIsSearched) {
    gui::Setup setup = small_setup();
    setup.model = "mixtral-8x22b";
    setup.cluster = "h100:16";
    const auto study = make_study(setup);
    ASSERT_TRUE(study);
    const auto offers = [&](const char* key, const char* value) {
        const auto values = constraint_values(**study, 64, key);
        return std::ranges::find(values, value) != values.end();
    };
    EXPECT_TRUE(offers("etp", "8"));
    EXPECT_TRUE(offers("vpp", "24"));
    EXPECT_FALSE(offers("vpp", "25"));
    EXPECT_TRUE(offers("zero", "3/8"));
    EXPECT_TRUE(offers("recompute", "full:4"));
    // Every value is one that --fix takes.
    for (const char* key : constraint_keys())
        for (const std::string& value : constraint_values(**study, 64, key))
            EXPECT_TRUE(parse_fix(std::string(key) + "=" + value)) << key << "=" << value;
}

TEST(PlanFields, AToggledConstraintLeavesTheOthers) {
    const std::vector<std::string> tp = {"1", "2", "4", "8"}, zero = {"0", "1", "2", "3"};
    EXPECT_EQ(toggled_fix("", "tp", "4", true, tp), "tp=4");
    EXPECT_EQ(toggled_fix("etp=2, recompute=full:2,zero=2/8", "tp", "4", true, tp),
              "etp=2,recompute=full:2,zero=2/8,tp=4");
    EXPECT_EQ(toggled_fix("tp=4,etp=2", "tp", "2", true, tp), "tp=2|4,etp=2");
    EXPECT_EQ(toggled_fix("tp=2..8,etp=2", "tp", "4", false, tp), "tp=2|8,etp=2");
    EXPECT_EQ(toggled_fix("tp=2..8,etp=2", "tp", "", false, tp), "etp=2");
    // Of the key itself, too, what is not offered stays.
    EXPECT_EQ(toggled_fix("zero=2/16|0", "zero", "1", true, zero), "zero=0|1|2/16");
    EXPECT_EQ(toggled_fix("zero=1..2/8", "zero", "3", true, zero), "zero=3|1..2/8");
    // A key that nobody knows is not ours to take away.
    EXPECT_EQ(toggled_fix("tq=4", "tp", "4", true, tp), "tq=4,tp=4");
    // A pasted label is the spec that it stands for.
    EXPECT_EQ(typed_fix(" \"tp4 pp2 dp2 mbs1 1f1b\" "), "tp4 pp2 dp2 mbs1 1f1b");
    const auto label = parse_fix(toggled_fix("tp4 pp2 dp2 mbs1 1f1b", "tp", "8", true, tp));
    ASSERT_TRUE(label) << to_string(label.errors());
    EXPECT_TRUE(label->tp.allows(4) && label->tp.allows(8) && label->pp.allows(2));
    EXPECT_FALSE(label->pp.allows(1));
    EXPECT_TRUE(fix_allows("4..8|16", "8"));
    EXPECT_FALSE(fix_allows("4..8|16", "12"));
    EXPECT_EQ(fix_choices("tp=4|8, sp=on").at("sp"), "on");
}

// The scatter's front holds nothing that a found plan beats in time and in memory.
TEST(Tasks, PlansOfTheTradeOffAreNotBeaten) {
    gui::Setup setup = small_setup();
    setup.model = "llama3-8b";
    setup.cluster = "h100:16";
    setup.global_batch = 64;
    setup.seq_len = 4096;
    const auto study = make_study(setup);
    ASSERT_TRUE(study);
    const auto found = search_plans(*study, setup, nullptr, {});
    ASSERT_TRUE(found);
    int front = 0;
    for (const PlanEntry& entry : found->plans) {
        front += entry.front ? 1 : 0;
        for (const PlanEntry& other : found->plans) {
            const bool beats = &other != &entry && other.evaluation.step_time <= entry.evaluation.step_time &&
                               other.evaluation.peak_device_bytes <= entry.evaluation.peak_device_bytes;
            EXPECT_FALSE(entry.front && beats) << summary(entry.plan) << " / " << summary(other.plan);
        }
    }
    EXPECT_GT(front, 0);
}

TEST(Study, AMixedClusterNamesAllItsDevices) {
    const auto h100 = load_cluster("h100:16"), a100 = load_cluster("a100:16"), one = load_cluster("cpu:2");
    ASSERT_TRUE(h100 && a100 && one);
    Cluster mixed = *h100;
    mixed.groups.push_back(a100->groups.front());
    EXPECT_EQ(devices_text(mixed), "16 × h100 + 16 × " + a100->groups.front().device.name + " on 4 nodes");
    EXPECT_TRUE(devices_text(*one).ends_with(" on 1 node")) << devices_text(*one);
}

// As the command line's --for.
TEST(Study, TheFrameworkOfTheSetupIsThatOfTheRequest) {
    gui::Setup setup = small_setup();
    setup.framework = "deepspeed";
    const auto study = make_study(setup);
    ASSERT_TRUE(study);
    const auto request = make_request(**study, setup);
    ASSERT_TRUE(request) << to_string(request.errors());
    EXPECT_EQ(request->target, TargetFramework::DeepSpeed);
    setup.framework = "deepsped";
    const auto wrong = make_request(**study, setup);
    ASSERT_FALSE(wrong);
    EXPECT_EQ(wrong.error().context.substr(0, 9), "framework") << wrong.error().context;
}

// Whatever a rank waits for is its bubble; the part of it that other ranks cause has another name.
TEST(Models, OneNameMeansOneQuantity) {
    Workbench workbench;
    find_small_plans(workbench);
    for (const auto& row : breakdown_rows(*workbench.shown().report))
        EXPECT_NE(row.front().text, "bubble");
}

}  // namespace
}  // namespace tw::gui
