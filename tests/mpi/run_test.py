#!/usr/bin/env python3
"""Trains a tiny model over mpirun: every layout gives one process's losses, every gradient synchronisation what it must, a
killed rank is started again to the same losses, a checkpoint goes on under another layout, a hanging rank is named."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

LAYOUTS = ["pp=2,schedule=1f1b", "pp=2,schedule=zb-h1", "pp=2,schedule=gpipe,recompute=full", "tp=2", "dp=2,zero=0",
           "dp=2,zero=3", "pp=2,vpp=2,schedule=interleaved", "pp=2,schedule=dualpipev"]


# Gradient synchronisation, semantics, options; whether losses are those of sums (else they fall).
SYNCHRONISATIONS = [("ps-sync", "synchronous", [], True), ("top-k", "synchronous", ["--density", "1"], True),
                    ("8-bit", "synchronous", [], False), ("top-k", "synchronous", ["--density", "0.05"], False),
                    ("local-sgd", "local-steps", ["--local-steps", "3"], False),
                    ("ps-async", "asynchronous", ["--staleness", "1"], False), ("ps-async", "asynchronous", [], False)]


class Runs:
    def __init__(self, trainwright, folder):
        self.trainwright, self.folder = trainwright, folder

    def plan(self, name, cluster, fix):
        path = self.folder / name
        subprocess.run([self.trainwright, "plan", "--model", "gpt2-tiny", "--cluster", cluster, "--global-batch", "8",
                        "--seq-len", "64", "--precision", "fp32", "--fix", fix, "-o", path],
                       check=True, stdout=subprocess.DEVNULL)
        return path

    def run(self, plan, *options, code=0):
        done = subprocess.run([self.trainwright, "run", plan, "--json", *options], capture_output=True, text=True,
                              timeout=300)
        if done.returncode != code:
            sys.exit(f"{plan.name} {' '.join(map(str, options))}: exit code {done.returncode}, not {code}\n{done.stderr}")
        return [s["loss"] for s in json.loads(done.stdout)["steps"]] if code == 0 else done.stderr


def expect_equal(what, got, expected, tolerance):
    for step, (a, b) in enumerate(zip(got, expected, strict=True)):
        if abs(a - b) > tolerance * abs(b):
            sys.exit(f"{what}: loss {a} at step {step}, not {b}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of the programs")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        runs = Runs(arguments.bin / "trainwright", folder)
        alone = runs.run(runs.plan("alone.json", "cpu:1", "pp=1"), "--steps", "6")
        if not alone[-1] < alone[0] - 0.5:
            sys.exit(f"the loss does not fall: {alone}")
        for number, fix in enumerate(LAYOUTS):
            losses = runs.run(runs.plan(f"layout{number}.json", "cpu:2", fix), "--steps", "6")
            expect_equal(fix + ", step 0", losses[:1], alone[:1], 1e-6)
            expect_equal(fix, losses, alone, 1e-4)

        for number, (sync, semantics, options, sums) in enumerate(SYNCHRONISATIONS):
            document = json.loads((folder / "layout4.json").read_text())
            document["plan"].update(gradient_sync=sync, semantics=semantics)
            plan = folder / f"sync{number}.json"
            plan.write_text(json.dumps(document))
            losses = runs.run(plan, "--steps", "6", *options)
            if sums:
                expect_equal(sync, losses, alone, 1e-4)
            elif not losses[-1] < losses[0] - 0.3:
                sys.exit(f"{sync} {options}: the loss does not fall: {losses}")

        pipeline, tensor = folder / "layout0.json", folder / "layout3.json"
        killed = runs.run(pipeline, "--steps", "6", "--checkpoint", folder / "a", "--every", "2", "--restarts", "1",
                          "--inject", "kill:rank=1,step=3")
        expect_equal("after a kill", killed[-2:], alone[-2:], 1e-4)
        runs.run(pipeline, "--steps", "4", "--checkpoint", folder / "b")
        expect_equal("resumed under tp=2", runs.run(tensor, "--steps", "6", "--resume", folder / "b")[-2:], alone[-2:],
                     1e-4)
        message = runs.run(pipeline, "--steps", "4", "--inject", "hang:rank=1,step=2", "--watchdog", "3s", code=1)
        if "missing: rank 1" not in message:
            sys.exit(f"the watchdog does not name rank 1:\n{message}")
        message = runs.run(pipeline, "--steps", "4", "--inject", "nan:step=2", code=1)
        if "not finite" not in message:
            sys.exit(f"a NaN is not named:\n{message}")
    print(f"{len(LAYOUTS)} layouts, {len(SYNCHRONISATIONS)} gradient synchronisations, a kill, a resume under another layout, a hang and a NaN")


if __name__ == "__main__":
    main()
