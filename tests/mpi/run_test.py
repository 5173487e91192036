#!/usr/bin/env python3
"""Trains a tiny model over mpirun: every layout gives one process's losses, every gradient synchronisation what it must, a
killed rank is started again to the same losses, a checkpoint goes on under another layout, an interrupted run saves and goes on
(pipelines that never flush drain, asynchronous servers take in what was pushed) and reports what it did, a slow rank is named in
its trace, a hanging one by the watchdog."""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

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

    def changed(self, name, plan, tied=True, **keys):
        """A plan like another one, but for these keys."""
        document = json.loads(plan.read_text())
        document["plan"].update(keys)
        document["model"]["document"]["tied_embeddings"] = tied
        document.pop("order_digest", None)  # of the other plan's schedule
        path = self.folder / name
        path.write_text(json.dumps(document))
        return path

    def run(self, plan, *options, code=0):
        done = subprocess.run([self.trainwright, "run", plan, "--json", *options], capture_output=True, text=True,
                              timeout=300)
        if done.returncode != code:
            sys.exit(f"{plan.name} {' '.join(map(str, options))}: exit code {done.returncode}, not {code}\n{done.stderr}")
        return [s["loss"] for s in json.loads(done.stdout)["steps"]] if code == 0 else done.stderr


    def start(self, plan, *options):
        """A run whose steps are told line by line, in a session of its own."""
        return subprocess.Popen([self.trainwright, "run", plan, *map(str, options)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, start_new_session=True)

    def stragglers(self, plan, *options):
        """Who `compare` names in the trace of a run."""
        trace = self.folder / "slow.trace.json"
        self.run(plan, "--steps", "5", "--trace", trace, *options)
        done = subprocess.run([self.trainwright, "compare", plan, trace, "--json"], capture_output=True, text=True, timeout=300)
        if done.returncode not in (0, 4):
            sys.exit(f"compare: exit code {done.returncode}\n{done.stderr}")
        return [s["rank"] for s in json.loads(done.stdout)["stragglers"]]


def ranks_of(folder):
    """Processes of the ranks that keep checkpoints in this folder."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended
        if words[0].endswith(b"trainwright-exec") and str(folder).encode() in words:
            found.append(int(process.name))
    return sorted(found)


def cut_off(runs, plan, how, before=20):
    """Interrupted after its third step: a checkpoint and a trace, exit code 130. Where the checkpoint is, and the steps done."""
    folder = runs.folder / f"interrupted-{plan.stem}-{how}"
    trace = folder.with_suffix(".trace.json")
    run = runs.start(plan, "--steps", "40", "--checkpoint", folder, "--trace", trace, "--inject", "slow:rank=0,ms=150")
    told = []
    for line in run.stdout:
        told.append(line)
        if line.split()[:1] == ["3"]:
            break
    if how == "key":  # a terminal's, that all of the session's foreground processes get
        os.killpg(run.pid, signal.SIGINT)
    elif how == "rank":
        os.kill(ranks_of(folder)[-1], signal.SIGUSR1)
    else:
        run.terminate()
    began = time.monotonic()
    _, said = run.communicate(timeout=120)
    if run.returncode != 130:
        sys.exit(f"interrupted by {how}: exit code {run.returncode}, not 130\n{''.join(told)}{said}")
    if time.monotonic() - began > 60:
        sys.exit(f"interrupted by {how}: it took {time.monotonic() - began:.0f} s to end")
    steps = sorted(int(step.name[5:]) for step in folder.glob("step-*"))
    if len(steps) != 1 or not 4 <= steps[0] < before:
        sys.exit(f"interrupted by {how}: checkpoints after steps {steps}\n{said}")
    if json.loads(trace.read_text())["steps"] != steps[0]:
        sys.exit(f"interrupted by {how}: the trace does not end with step {steps[0]}")
    return folder, steps[0]


def interrupt(runs, plan, how, alone):
    """What is left of an interrupted run has one process's losses."""
    folder, done = cut_off(runs, plan, how)
    more = str(done + 3)
    expect_equal(f"after an interrupt by {how}", runs.run(plan, "--steps", more, "--resume", folder),
                 runs.run(alone, "--steps", more)[-3:], 1e-4)


def interrupt_without_flush(runs, plan):
    """A pipeline that never flushes drains: what goes on is what goes on from a run of so many steps."""
    folder, done = cut_off(runs, plan, "term")
    shorter = runs.folder / f"shorter-{plan.stem}"
    runs.run(plan, "--steps", str(done), "--checkpoint", shorter)
    more = str(done + 3)
    expect_equal(f"{plan.stem} after an interrupt", runs.run(plan, "--steps", more, "--resume", folder),
                 runs.run(plan, "--steps", more, "--resume", shorter), 1e-6)


def interrupt_servers(runs, plan):
    """Every push of every worker is in what asynchronous servers leave, and it goes on."""
    folder, done = cut_off(runs, plan, "term", before=40)  # up to 16 steps apart
    manifest = json.loads((folder / f"step-{done:08d}" / "manifest.json").read_text())
    updates = manifest["scalars"]["updates"] if "scalars" in manifest else manifest["state"]["scalars"]["updates"]
    if updates != 2 * done:
        sys.exit(f"asynchronous servers: {updates} updates after {done} steps of two workers")
    losses = runs.run(plan, "--steps", str(done + 6), "--resume", folder)
    if not losses[-1] < 6:  # ln 512 = 6.2 before the first step
        sys.exit(f"asynchronous servers: the loss after an interrupt is {losses}")


def interrupt_report(runs, plan):
    """What --json says of an interrupted run: the steps so far, and that it was interrupted."""
    log = runs.folder / "interrupted-log"
    run = runs.start(plan, "--steps", "200", "--json", "--log", log, "--inject", "slow:rank=0,ms=100")
    end = time.monotonic() + 120
    while not (log / "metrics.jsonl").exists() or len((log / "metrics.jsonl").read_text().splitlines()) < 3:
        if time.monotonic() > end:
            sys.exit("an interrupted report: no steps within two minutes")
        time.sleep(0.05)
    run.terminate()
    said, errors = run.communicate(timeout=120)
    report = json.loads(said) if run.returncode == 130 else {}
    steps = [s["step"] for s in report.get("steps", [])]
    if not report.get("interrupted") or steps != list(range(len(steps))) or not 3 <= len(steps) < 200:
        sys.exit(f"an interrupted report: exit code {run.returncode}, steps {steps}\n{errors}")
    if len(report["ranks"]) != 2 or f"interrupted after {len(steps)} of 200 steps" not in report["notes"]:
        sys.exit(f"an interrupted report: {report['ranks']}, {report['notes']}")


def interrupt_twice(runs, plan):
    """A second interrupt ends ranks that do not come to the end of their step, one or several."""
    run = runs.start(plan, "--steps", "9", "--checkpoint", runs.folder / "twice", "--inject", "slow:step=2,ms=300000")
    for line in run.stdout:
        if line.split()[:1] == ["0"]:
            break
    time.sleep(1)
    run.terminate()
    time.sleep(1)
    if run.poll() is not None:
        sys.exit(f"{plan.stem}: the first interrupt ended a run in the middle of a step")
    began = time.monotonic()
    run.terminate()
    run.communicate(timeout=60)
    if run.returncode != 130 or time.monotonic() - began > 20:
        sys.exit(f"{plan.stem} interrupted twice: exit code {run.returncode} after {time.monotonic() - began:.0f} s")


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
            plan = runs.changed(f"sync{number}.json", folder / "layout4.json", gradient_sync=sync, semantics=semantics)
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
        for plan, how in ((pipeline, "term"), (pipeline, "key"), (tensor, "rank"), (folder / "alone.json", "term")):
            interrupt(runs, plan, how, folder / "alone.json")
        for schedule, semantics in (("pipedream", "asynchronous"), ("pipedream-2bw", "bounded-staleness")):
            interrupt_without_flush(runs, runs.changed(f"{schedule}.json", pipeline, tied=False, schedule=schedule,
                                                       semantics=semantics))
        interrupt_servers(runs, folder / f"sync{len(SYNCHRONISATIONS) - 1}.json")
        interrupt_report(runs, pipeline)
        for plan in (folder / "alone.json", pipeline):
            interrupt_twice(runs, plan)
        for name, cluster, fix in (("pp4.json", "cpu:4", "pp=4"), ("dp2pp2.json", "cpu:4", "dp=2,pp=2"),
                                   ("tp2dp2.json", "cpu:4", "tp=2,dp=2,zero=1")):
            named = runs.stragglers(runs.plan(name, cluster, fix), "--inject", "slow:rank=1,ms=600")
            if named != [1]:
                sys.exit(f"{fix}: compare names {named}, rank 1 is slow")
        another = subprocess.run([runs.trainwright, "compare", pipeline, folder / "slow.trace.json"], capture_output=True,
                                 text=True, timeout=300)
        if another.returncode != 5 or "compare a run with the plan that it ran" not in another.stderr:
            sys.exit(f"compare takes the trace of another plan: exit code {another.returncode}\n{another.stderr}")
        message = runs.run(pipeline, "--steps", "4", "--inject", "hang:rank=1,step=2", "--watchdog", "3s", code=1)
        if "missing: rank 1" not in message:
            sys.exit(f"the watchdog does not name rank 1:\n{message}")
        message = runs.run(pipeline, "--steps", "4", "--inject", "nan:step=2", code=1)
        if "not finite" not in message:
            sys.exit(f"a NaN is not named:\n{message}")
    print(f"{len(LAYOUTS)} layouts, {len(SYNCHRONISATIONS)} gradient synchronisations, a kill, a resume under another layout, ten interrupts, "
          "three slow ranks, a hang and a NaN")


if __name__ == "__main__":
    main()
