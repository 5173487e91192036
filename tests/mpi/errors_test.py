#!/usr/bin/env python3
"""What one rank finds wrong while the others wait for it ends all of them, with that rank's message and its exit code;
nothing hangs and no invariant breaks on the way out."""
import argparse
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

LIMIT_S = 120


class Errors:
    def __init__(self, folder, bin_folder):
        self.folder, self.trainwright, self.rank = folder, bin_folder / "trainwright", bin_folder / "trainwright-exec"
        self.cases = 0

    def plan(self, name, fix, *words, model="gpt2-tiny", cluster="cpu:2", precision="fp32"):
        path = self.folder / name
        subprocess.run([self.trainwright, "plan", "--model", model, "--cluster", cluster, "--global-batch", "4",
                        "--seq-len", "32", "--precision", precision, "--fix", fix, "-o", path, *words],
                       check=True, stdout=subprocess.DEVNULL)
        return path

    def synchronised(self, name, plan, method):
        """The same plan with another synchronisation of gradients."""
        document = json.loads(plan.read_text())
        document["plan"]["gradient_sync"], document["plan"]["zero_stage"] = method, 0
        path = self.folder / name
        path.write_text(json.dumps(document))
        return path

    def ends(self, what, command, code, *said):
        self.cases += 1
        try:
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            sys.exit(f"{what}: still running after {LIMIT_S} s")
        told = done.stdout + done.stderr
        if done.returncode != code:
            sys.exit(f"{what}: exit code {done.returncode}, not {code}\n{told[-3000:]}")
        for text in said:
            if text not in told:
                sys.exit(f"{what}: '{text}' is not said\n{told[-3000:]}")
        if "internal error" in told or "CHECK(" in told:
            sys.exit(f"{what}: an invariant broke\n{told[-3000:]}")
        return told

    def run(self, what, plan, options, code, *said):
        steps = [] if "--steps" in options else ["--steps", "6"]
        self.ends(what, [self.trainwright, "run", plan, *steps, *options], code, *said)

    def unlike(self, what, plan, first, second, code, *said):
        """Rank 0 and rank 1 with options of their own."""
        mpirun = ["mpirun", "--oversubscribe", "--bind-to", "none"]
        if os.geteuid() == 0:
            mpirun.insert(1, "--allow-run-as-root")
        command = [self.rank, plan, "--steps", "6"]
        self.ends(what, [*mpirun, "-n", "1", *command, *first, ":", "-n", "1", *command, *second], code, *said)


    def stopped(self, what, plan, *said):
        """Rank 1 is stopped ahead of its first instruction."""
        mpirun = ["mpirun", "--oversubscribe", "--bind-to", "none"]
        if os.geteuid() == 0:
            mpirun.insert(1, "--allow-run-as-root")
        command = [self.rank, plan, "--steps", "6", "--watchdog", "2s"]
        self.ends(what, [*mpirun, "-n", "1", *command, ":", "-n", "1", "sh", "-c", 'kill -STOP $$; exec "$@"', "sh", *command],
                  1, *said)


def corrupted_copy(folder, name, harm):
    copy = folder.parent / name
    shutil.copytree(folder, copy)
    for file in copy.glob("step-*/rank-*.safetensors"):
        harm(file)
    return copy


def flip_all(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of the programs")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        errors = Errors(folder, arguments.bin)
        replicas, pipeline = errors.plan("dp.json", "dp=2,zero=1"), errors.plan("pp.json", "pp=2,schedule=1f1b")

        for plan in (replicas, pipeline):
            errors.run(f"a full disk under {plan.stem}", plan,
                       ["--checkpoint", folder / f"full-{plan.stem}", "--every", "2", "--inject", "full-disk:rank=1,bytes=1000"], 1,
                       "rank 1", "No space left on device")
            errors.run(f"a NaN under {plan.stem}", plan, ["--inject", "nan:rank=1,step=2"], 1, "is not finite", "step 2")
        zero_bubble = errors.plan("zb.json", "pp=2,schedule=zb-h1")
        errors.run("a NaN that no norm sees", zero_bubble, ["--clip", "0", "--inject", "nan:rank=1,step=2"], 1,
                   "rank 1", "is not finite", "step 2")

        for method in ("top-k", "8-bit"):
            plan = errors.synchronised(f"{method}.json", replicas, method)
            errors.run(f"a NaN under {method}", plan, ["--inject", "nan:rank=1,step=2"], 1, "rank 1 (PP0 DP1 TP0), step 2:",
                       "is not finite")
        # One program of all steps: the step is that of the instruction.
        untied = folder / "untied.json"
        untied.write_text(json.dumps({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4,
                                      "num_attention_heads": 4, "vocab_size": 256, "max_position_embeddings": 64,
                                      "hidden_act": "silu", "tie_word_embeddings": False}))
        stream = errors.plan("stream.json", "pp=2,schedule=pipedream-2bw", model=untied)
        errors.run("a NaN where nothing flushes", stream, ["--inject", "nan:rank=1,step=2"], 1, "rank 1", "is not finite",
                   "step 2:")
        errors.run("a fault after the last step", pipeline, ["--inject", "kill:rank=1,step=9"], 2, "step 9 is not there")
        half = errors.plan("half.json", "dp=2,zero=1", cluster="h100:2", precision="fp16")
        errors.run("steps that overflow fp16", half, ["--steps", "2", "--loss-scale", "1e9"], 0, "overflow, not updated",
                   "the gradient of 2 of 2 steps overflowed fp16")
        long = errors.plan("long.json", "cp=2", cluster="h100:2")
        errors.ends("a plan that is legal and not run", [errors.trainwright, "check", long], 0,
                    "trainwright run does not run it: /plan/mesh/cp: the executor has no context parallelism")
        module = folder / "no-module.so"
        told = errors.ends("no CUDA", ["env", f"TRAINWRIGHT_CUDA_MODULE={module}", errors.trainwright, "run", replicas,
                                       "--backend", "cuda"], 1, "no CUDA module")
        if told.count("no CUDA module") != 1:
            sys.exit(f"every rank says that CUDA is missing\n{told}")
        errors.stopped("a rank that never starts", replicas, "rank 0 has not met the others for 4 s: still in MPI_Init")

        # A reader who never comes holds rank 0 back, whose part of MPI_Finalize rank 1 waits for.
        fifo = folder / "result"
        os.mkfifo(fifo)
        errors.unlike("a rank that does not end", replicas, ["--watchdog", "2s", "--result", fifo], ["--watchdog", "2s"], 1,
                      "rank 1 has not met the others for 4 s: still in MPI_Finalize")

        errors.unlike("data that rank 1 cannot read", replicas, [], ["--data", folder / "missing.txt"], 5, "rank 1",
                      "missing.txt")
        short = folder / "short.txt"
        short.write_text("too short")
        errors.run("data that nobody can use", replicas, ["--data", short], 5, "a sample takes")
        beyond = folder / "beyond.bin"
        beyond.write_bytes(struct.pack("<2000H", *([7] * 1999), 60000))
        errors.run("a token beyond the vocabulary", replicas, ["--steps", "400", "--data", beyond], 5,
                   "60000", "vocabulary")

        saved = folder / "saved"
        subprocess.run([errors.trainwright, "run", pipeline, "--steps", "4", "--checkpoint", saved, "--every", "2", "--json"],
                       check=True, stdout=subprocess.DEVNULL)
        errors.run("every checkpoint is damaged", pipeline, ["--resume", corrupted_copy(saved, "harmed", flip_all)], 5,
                   "rank-0000", "step")
        errors.unlike("rank 1 sees no checkpoint", pipeline, ["--resume", saved], ["--resume", folder / "nowhere"], 5,
                      "rank 1")
        errors.run("another seed than the checkpoint's", pipeline, ["--resume", saved, "--seed", "5"], 2,
                   "another data or seed")
        occupied = folder / "occupied"
        occupied.write_text("a file")
        errors.run("no folder for figures", replicas, ["--log", occupied], 1, "occupied")
        errors.run("no folder for the trace", replicas, ["--trace", folder / "none" / "trace.json"], 1, "trace.json")
        errors.run("no folder for checkpoints", replicas, ["--checkpoint", occupied / "deeper"], 1, "occupied")
        errors.run("a rank that hangs", pipeline, ["--inject", "hang:rank=1,step=2", "--watchdog", "3s"], 1,
                   "missing: rank 1")
    print(f"{errors.cases} errors of single ranks")


if __name__ == "__main__":
    main()
