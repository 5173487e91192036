#!/usr/bin/env python3
"""What scripts/gpu_check judges, without a GPU."""

import importlib.machinery
import importlib.util
import json
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("gpu_check", str(ROOT / "scripts/gpu_check"))
gpu_check = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
loader.exec_module(gpu_check)

GOOD = [
    {"name": "build", "status": 0},
    {"name": "tests", "status": 0, "ran": True},
    {"name": "losses", "status": 0, "measured": {"losses": [7.6, 7.5], "largest_difference_from_cpu": 2e-6}},
    {"name": "gpt2-124m", "skipped": "3 s left, 15 s wanted"},
]


class Verdict(unittest.TestCase):
    def failures_with(self, name, **changed):
        return gpu_check.failures([{**part, **changed} if part["name"] == name else part for part in GOOD])

    def test_what_passed_passes(self):
        self.assertEqual(gpu_check.failures(GOOD), [])

    def test_tests_that_did_not_run_fail(self):
        skipped = "1/1 Test #9: gpu.kernels ......***Skipped   0.02 sec\n100% tests passed, 0 tests failed out of 1\n"
        self.assertFalse(gpu_check.tests_ran(skipped))
        self.assertTrue(gpu_check.tests_ran("1/1 Test #9: gpu.kernels ......   Passed    0.52 sec\n"))
        self.assertEqual(self.failures_with("tests", ran=False), ["tests: no GPU test was run"])
        self.assertEqual(gpu_check.failures(GOOD[:1]), ["tests: not run"])

    def test_a_part_that_failed_fails(self):
        self.assertEqual(self.failures_with("build", status=2), ["build: exit status 2"])

    def test_losses_that_differ_or_are_no_numbers_fail(self):
        self.assertEqual(len(self.failures_with("losses", measured={"losses": [7.6], "largest_difference_from_cpu": 0.01})), 1)
        self.assertEqual(len(self.failures_with("losses", measured={"losses": [7.6, None], "largest_difference_from_cpu": None})), 2)


class Parts(unittest.TestCase):
    def test_one_that_takes_too_long_ends_with_all_that_it_started(self):
        with tempfile.TemporaryDirectory() as folder:
            check = gpu_check.Check(Path(folder), 60)
            check.end = time.monotonic() + 1
            began = time.monotonic()
            # The background process holds the pipes: they close when it dies.
            self.assertFalse(check.part("slow", ["sh", "-c", "echo begun; sleep 50 & sleep 50"], 0))
            self.assertLess(time.monotonic() - began, 20)
            self.assertEqual(json.loads((Path(folder) / "gpu_check.json").read_text())["parts"][0]["status"], 124)
            self.assertEqual((Path(folder) / "slow.log").read_text(), "begun\n")

    def test_the_last_line_is_what_was_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            check = gpu_check.Check(Path(folder), 60)
            self.assertTrue(check.part("one", ["sh", "-c", "echo words; echo '{\"mfu\": 0.4}'; echo more >&2"], 0, keep=True))
            self.assertEqual(check.result["parts"][0]["measured"], {"mfu": 0.4})
            self.assertFalse(check.part("two", ["sh", "-c", "echo words"], 0, keep=True))


if __name__ == "__main__":
    unittest.main()
