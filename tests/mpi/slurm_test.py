#!/usr/bin/env python3
"""Submits what `trainwright launch --to slurm --submit` writes to a real Slurm of two emulated nodes.

    slurm_test.py --bin build/bin [--log FILE]

A plan with pp 2 and dp 2 runs as four ranks on the two nodes, and its losses are those of one process. Prints the job's
output (also to --log). Says SKIPPED and why where there is no Slurm, or no trainwright-exec that talks MPI.
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
        subprocess.run([executor, "one.json", "--steps", str(STEPS), "--log", "one", "--quiet"], cwd=work, check=True, timeout=300)

        # The nodes share this machine: TCP has to use loopback, which Open MPI leaves out by itself, and its shared-memory
        # segments, named by job and local rank, would collide.
        submitted = slurm.run(trainwright, "launch", "four.json", "--to", "slurm", "-o", "job.sbatch", "--submit", "--exec", executor,
                              "--env", "OMPI_MCA_btl=^vader,OMPI_MCA_btl_tcp_if_include=lo,OMPI_MCA_mpi_yield_when_idle=1",
                              "--steps", str(STEPS), "--log", "four", cwd=work)
        if submitted.returncode != 0:
            print(submitted.stderr, slurm.logs(), sep="\n")
            return 1
        job = submitted.stdout.strip()
        finished = slurm.wait_for(job, 240)
        output = work / f"trainwright-{job}.out"
        shown = (work / "job.sbatch").read_text() + "\n" + (output.read_text() if output.exists() else "no output\n")
        print(shown)
        if options.log:
            options.log.write_text(shown)
        if not finished or not (work / "four" / "metrics.jsonl").exists():
            print("the job did not finish", slurm.logs(), sep="\n")
            return 1
        alone, together = losses(work / "one"), losses(work / "four")
        print("losses of one process: ", *alone)
        print("losses of the Slurm job:", *together)
        same = len(alone) == len(together) == STEPS and all(abs(a - b) <= TOLERANCE * abs(a) for a, b in zip(alone, together))
        print("the same" if same else "NOT the same")
        return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
