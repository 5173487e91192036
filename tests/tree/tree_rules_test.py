#!/usr/bin/env python3
"""Each rule of tree_rules.py finds what it forbids and lets pass what it allows; run_docs.py sees a wrong document."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/tree"), str(ROOT / "tests/golden")]

import run_docs  # noqa: E402
import tree_rules  # noqa: E402


class Tree:
    """A repository of these files."""

    def __init__(self, files):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        subprocess.run(["git", "init", "-q", self.root], check=True)
        subprocess.run(["git", "-C", self.root, "add", "-A"], check=True)

    def __enter__(self):
        return self.root

    def __exit__(self, *_):
        self.folder.cleanup()


class Includes(unittest.TestCase):
    def violations(self, files):
        with Tree(files) as root:
            return tree_rules.check_includes(root)

    def test_upward_includes_are_found(self):
        pairs = [(folder, target) for folder in tree_rules.ALLOWED for target in tree_rules.ALLOWED]
        files = {f"{folder}/x.hpp": "#pragma once\n" for folder in tree_rules.ALLOWED}
        files |= {f"{folder}/to_{target}.cpp": f'#include "{target}/x.hpp"\n' for folder, target in pairs}
        found = {violation.split(":")[0] for violation in self.violations(files)}
        for folder, target in pairs:
            forbidden = target not in tree_rules.ALLOWED[folder]
            self.assertEqual(f"{folder}/to_{target}.cpp" in found, forbidden, f"{folder} -> {target}")

    def test_the_executor_does_not_see_the_simulator(self):
        self.assertNotIn("sim", tree_rules.ALLOWED["real_exec"])
        self.assertNotIn("sim", tree_rules.ALLOWED["profiler"])

    def test_the_layers_have_no_cycle(self):
        for folder, allowed in tree_rules.ALLOWED.items():
            for below in allowed - {folder}:
                self.assertNotIn(folder, tree_rules.ALLOWED[below], f"{folder} and {below} see each other")
                self.assertLessEqual(tree_rules.ALLOWED[below], allowed, f"{folder} sees {below} but not all below it")

    def test_dependencies_stay_where_they_belong(self):
        cases = [("sim/a.cpp", "CLI/CLI.hpp", 1), ("cli/a.cpp", "CLI/CLI.hpp", 0), ("plan/a.cpp", "nlohmann/json.hpp", 1),
                 ("base/json.hpp", "nlohmann/json.hpp", 0), ("plan/a.cpp", "QString", 1), ("gui/a.cpp", "QtGui/QColor", 0),
                 ("sim/a.cpp", "cuda_runtime.h", 1), ("real_exec/runtime/a.cpp", "mpi.h", 1),
                 ("real_exec/comm/mpi/a.cpp", "mpi.h", 0), ("real_exec/backend/cuda/a.cpp", "nccl.h", 0)]
        for name, header, count in cases:
            self.assertEqual(len(self.violations({name: f"#include <{header}>\n"})), count, f"{name} {header}")

    def test_json_is_decoded_at_the_edge(self):
        line = "void f(const JsonObject& object);\n"
        for name, count in [("plan/plan_json.cpp", 0), ("models/formats/hf.cpp", 0), ("plan/frameworks/megatron.cpp", 0),
                            ("plan/plan.cpp", 1), ("cli/plan.cpp", 1)]:
            self.assertEqual(len(self.violations({name: line})), count, name)

    def test_dead_and_relative_includes_are_found(self):
        self.assertEqual(len(self.violations({"sim/a.cpp": '#include "base/gone.hpp"\n'})), 1)
        self.assertEqual(len(self.violations({"sim/a.cpp": '#include "../base/x.hpp"\n'})), 1)


class Precompiled(unittest.TestCase):
    def test_what_is_only_precompiled_is_found(self):
        files = {"base/a.hpp": "#pragma once\n#include <vector>\n",
                 "base/a.cpp": '#include "base/a.hpp"\nstd::vector<int> v;\n// std::map\nauto s = "std::set";\n',
                 "base/b.cpp": '#include "base/a.hpp"\nstd::vector<int> v;\nstd::optional<int> o;\n',
                 "base/c.cpp": "#include <fmt/ranges.h>\n#include <map>\nauto s = fmt::format(x); std::tuple<> t;\n"}
        with Tree(files) as root:
            self.assertEqual([v.split(" needs")[0] for v in tree_rules.check_precompiled(root)], ["base/b.cpp:3: std::optional"])

    def test_every_precompiled_header_is_known(self):
        text = (ROOT / "cmake/precompiled.hpp").read_text()
        headers = {match.group(2) for match in map(tree_rules.INCLUDE.match, text.splitlines()) if match}
        # Every header of the library brings what of <utility> is used; includes allows nlohmann's to one header alone.
        self.assertEqual(headers - set(tree_rules.PRECOMPILED), {"utility", "nlohmann/json.hpp"})


class Length(unittest.TestCase):
    def test_the_limit_is_a_limit(self):
        with Tree({"a.cpp": "\n" * 500, "b.cpp": "\n" * 501, "c.json": "\n" * 900}) as root:
            self.assertEqual([v.split(":")[0] for v in tree_rules.check_length(root)], ["b.cpp"])


class Links(unittest.TestCase):
    def test_a_dead_link_is_found(self):
        text = "[a](a.md) [b](https://example.org/b) [c](docs/c.md#part)\n[d](gone.md)\n"
        with Tree({"a.md": text, "docs/c.md": "# part\n"}) as root:
            self.assertEqual(tree_rules.check_links(root), ["a.md:2: gone.md does not exist"])


class Documents(unittest.TestCase):
    def test_commands_are_found(self):
        text = "text\n```console\n$ a \\\n>   b\none\ntwo\n$ c\n```\n```sh\n$ not this\n```\n"
        commands = run_docs.find_commands(text.splitlines())
        self.assertEqual([(c.line, c.text, c.expected) for c in commands], [(3, "a b", ["one", "two"]), (7, "c", [])])

    def test_wildcards(self):
        self.assertTrue(run_docs.same(["step [...] ms", "[...]", "end"], ["step 12.1 ms", "x", "y", "end"]))
        self.assertTrue(run_docs.same(["[...]"], []))
        self.assertTrue(run_docs.same(["[...]", "end"], ["end", "end"]))
        self.assertFalse(run_docs.same(["step [...] ms"], ["step 12.1 us"]))
        self.assertFalse(run_docs.same(["a"], ["a", "b"]))
        self.assertFalse(run_docs.same(["a.c"], ["abc"]))

    def test_an_update_keeps_wildcards_that_match(self):
        self.assertEqual(run_docs.updated(["took [...] s", "old", "[...]", "end"], ["took 3 s", "new", "more", "end"]),
                         ["took [...] s", "[...]", "end"])
        self.assertEqual(run_docs.updated(["gone", "b"], ["a", "b", "c"]), ["a", "b", "c"])

    def test_an_update_puts_wildcards_back_where_the_line_has_changed(self):
        self.assertEqual(run_docs.updated(["12 plans in [...] s, best [...]"], ["x", "13 plans in 4.1 s, best 7"]),
                         ["x", "13 plans in [...] s, best [...]"])

    def test_a_wrong_document_fails_and_is_rewritten(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.md"
            path.write_text("```console\n$ echo one; exit 3\ntwo\n$ echo 5 s\n[...] s\n```\n")
            self.assertEqual(run_docs.check_file(path, Path(folder), False), (2, 1))
            self.assertEqual(run_docs.check_file(path, Path(folder), True), (2, 1))
            self.assertEqual(path.read_text(), "```console\n$ echo one; exit 3\none\n[exit 3]\n$ echo 5 s\n[...] s\n```\n")
            self.assertEqual(run_docs.check_file(path, Path(folder), False), (2, 0))


if __name__ == "__main__":
    unittest.main()
