#!/usr/bin/env python3
"""Submits what `trainwright launch --to slurm --submit` writes to a real Slurm of two emulated nodes.

    slurm_test.py --bin build/bin [--log FILE]

A plan with pp 2 and dp 2 runs as four ranks on the two nodes, and its losses are those of one process. A second job is signalled
ahead of its time limit (the file's --signal): it saves and ends, and a third one goes on to the losses of one process. Prints the
jobs' output (also to --log). Says SKIPPED and why where there is no Slurm, or no trainwright-exec that talks MPI.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import slurm_cluster

ROOT = Path(__file__).resolve().parents[2]
STEPS = 5
TOLERANCE = 1e-4  # relative, of each step's loss; reductions add in another order


def plan_for(dp, pp, nodes):
    document = json.loads((ROOT / "tests/golden/inputs/tiny.json").read_text())
    plan = document["plan"]
    plan["mesh"].update(dp=dp, pp=pp)
    plan["microbatches"] = plan["global_batch"] // plan["microbatch"] // dp
    plan["precision"].update(compute="fp32", parameters="fp32", master_weights=False)
    del plan["stages"]  # split evenly
    document["cluster"].update(name=f"cpu:{2 * nodes}", groups=[{"node": "cpu", "count": nodes}])
    return document


def losses(folder):
    return [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


class Jobs:
    def __init__(self, slurm, programs, work):
        self.slurm, self.work = slurm, work
        self.trainwright, self.executor = programs
        self.shown = []

    def alone(self, steps):
        """Losses of one process."""
        subprocess.run([self.executor, "one.json", "--steps", str(steps), "--log", f"one-{steps}", "--quiet"], cwd=self.work, check=True,
                       timeout=300)
        return losses(self.work / f"one-{steps}")

    def submit(self, name, steps, *words):
        """The job's losses, when it has left the queue; its output is kept."""
        # The nodes share this machine: TCP has to use loopback, which Open MPI leaves out by itself, and its shared-memory
        # segments, named by job and local rank, would collide.
        submitted = self.slurm.run(self.trainwright, "launch", "four.json", "--to", "slurm", "-o", f"{name}.sbatch", "--submit",
                                   "--exec", self.executor, "--job-name", name, "--env",
                                   "OMPI_MCA_btl=^vader,OMPI_MCA_btl_tcp_if_include=lo,OMPI_MCA_mpi_yield_when_idle=1",
                                   "--steps", str(steps), "--log", name, *words, cwd=self.work)
        if submitted.returncode != 0:
            sys.exit(f"{submitted.stderr}\n{self.slurm.logs()}")
        job = submitted.stdout.strip()
        finished = self.slurm.wait_for(job, 300)
        output = self.work / f"{name}-{job}.out"
        text = (self.work / f"{name}.sbatch").read_text() + "\n" + (output.read_text() if output.exists() else "no output\n")
        print(text)
        self.shown.append(text)
        if not finished or not (self.work / name / "metrics.jsonl").exists():
            sys.exit(f"the job did not finish\n{self.slurm.logs()}")
        return losses(self.work / name)


def expect_same(what, got, expected):
    print(f"{what}:", *got, "\nlosses of one process:", *expected)
    same = len(got) == len(expected) and all(abs(a - b) <= TOLERANCE * abs(b) for a, b in zip(got, expected))
    if not same:
        sys.exit(f"{what}: NOT the same")


def signalled(jobs):
    """Three minutes, of which the signal leaves two: the job saves, and another one goes on."""
    cut = jobs.submit("signalled", 10000, "--time", "3", "--checkpoint", "ckpt", "--inject", "slow:rank=0,ms=500")
    steps = sorted(int(step.name[5:]) for step in (jobs.work / "ckpt").glob("step-*"))
    if steps != [len(cut)] or f"interrupted after {len(cut)} of 10000 steps" not in jobs.shown[-1]:
        sys.exit(f"the signalled job did {len(cut)} steps and left checkpoints after {steps}\n{jobs.slurm.logs()}")
    rest = jobs.submit("resumed", len(cut) + STEPS, "--resume", "ckpt")
    expect_same("losses of a job that was signalled, and of one that went on", cut + rest, jobs.alone(len(cut) + STEPS))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=Path)
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    trainwright, executor = (options.bin.resolve() / name for name in ("trainwright", "trainwright-exec"))
    reason = slurm_cluster.why_not()
    if not reason and not executor.exists():
        reason = f"{executor} is not built"
    if not reason and shutil.which("mpirun") is None:
        reason = "there is no MPI"
    if reason:
        print(f"SKIPPED: {reason}: submitting to Slurm was NOT tested")
        return 0

    with tempfile.TemporaryDirectory(prefix="trainwright-job-") as name, slurm_cluster.SlurmCluster() as slurm:
        work = Path(name)
        (work / "one.json").write_text(json.dumps(plan_for(1, 1, 1)))
        (work / "four.json").write_text(json.dumps(plan_for(2, 2, 2)))
        jobs = Jobs(slurm, (trainwright, executor), work)
        expect_same("losses of the Slurm job", jobs.submit("trainwright", STEPS), jobs.alone(STEPS))
        signalled(jobs)
        if options.log:
            options.log.write_text("\n".join(jobs.shown))
    return 0


if __name__ == "__main__":
    sys.exit(main())
