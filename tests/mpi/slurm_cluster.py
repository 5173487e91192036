"""A real Slurm on this machine: one controller and two emulated nodes on loopback, in a folder of its own.

    with SlurmCluster(nodes=2, cpus=2) as slurm:
        subprocess.run(["sbatch", ...], env=slurm.environment)

Needs slurmctld, slurmd and munged (Debian: slurm-wlm) and root: slurmd starts jobs for other users. Nothing outside the
folder is touched, but for the ports that the daemons listen on.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch", "srun")

CONFIGURATION = """\
ClusterName=trainwright
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
SlurmdSpoolDir={folder}/spool-%n
StateSaveLocation={folder}/state
TmpFS={folder}/tmp-%n
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=100000,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
KillWait=5
"""


def why_not():
    """Why no cluster can be started here; empty where one can."""
    missing = [name for name in DAEMONS if shutil.which(name) is None and not Path("/usr/sbin", name).exists()]
    if missing:
        return f"{', '.join(missing)} not found (Debian: slurm-wlm)"
    return "" if os.geteuid() == 0 else "slurmd needs root"


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class SlurmCluster:
    def __init__(self, nodes=2, cpus=2):
        self.nodes, self.cpus = nodes, cpus
        self.folder = Path(tempfile.mkdtemp(prefix="trainwright-slurm-"))
        self.folder.chmod(0o755)
        self.environment = dict(os.environ, SLURM_CONF=str(self.folder / "slurm.conf"))
        self.environment["PATH"] += ":/usr/sbin"

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_):
        self._stop()

    def logs(self):
        return "\n".join(f"== {path.name}\n{path.read_text(errors='replace')[-3000:]}" for path in sorted((self.folder / "log").iterdir()))

    def run(self, *words, **options):
        return subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=60, **options)

    def wait_for(self, job, seconds):
        """Waits until the job has left the queue; False where it has not by then."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not self.run("squeue", "--noheader", f"--jobs={job}").stdout.strip():
                return True
            time.sleep(0.5)
        return False

    def _start(self):
        host = socket.gethostname()
        ports = free_ports(self.nodes + 1)
        for name in ("log", "state", *(f"{kind}-n{i}" for kind in ("tmp", "spool") for i in range(self.nodes))):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(64))
        key.chmod(0o600)
        text = CONFIGURATION.format(folder=self.folder, host=host, controller_port=ports[0])
        for i in range(self.nodes):
            text += f"NodeName=n{i} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[i + 1]} CPUs={self.cpus} RealMemory=500 State=UNKNOWN\n"
        text += "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
        (self.folder / "slurm.conf").write_text(text)
        munge = [f"--{option}={self.folder}/{name}" for option, name in (("socket", "munge.socket"), ("key-file", "munge.key"),
                 ("log-file", "log/munged.log"), ("pid-file", "munged.pid"), ("seed-file", "munge.seed"))]
        self._daemon("munged", "--force", "--num-threads=1", *munge)
        self._daemon("slurmctld", "-c")
        for i in range(self.nodes):
            self._daemon("slurmd", "-N", f"n{i}")
        end = time.monotonic() + 60
        while time.monotonic() < end:
            states = self.run("sinfo", "--noheader", "--Node", "--format=%T").stdout.split()
            if states.count("idle") == self.nodes:
                return
            time.sleep(0.5)
        raise RuntimeError("the nodes did not come up\n" + self.logs())

    def _daemon(self, *words):
        # A daemon keeps its standard streams: pipes would never end.
        done = subprocess.run(words, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=60)
        if done.returncode != 0:
            raise RuntimeError(f"{words[0]} did not start\n" + self.logs())

    def _stop(self):
        def pids():
            found = []
            for path in self.folder.glob("*.pid"):
                text = path.read_text().strip()
                if text.isdigit() and Path("/proc", text).exists():
                    found.append(int(text))
            return found

        # The controller first, munged last: the others need it to say good-bye.
        order = [*self.folder.glob("slurmctld.pid"), *self.folder.glob("slurmd-*.pid"), *self.folder.glob("munged.pid")]
        for path in order:
            text = path.read_text().strip()
            if text.isdigit() and Path("/proc", text).exists():
                os.kill(int(text), 15)
        end = time.monotonic() + 15
        while pids() and time.monotonic() < end:
            time.sleep(0.1)
        for pid in pids():
            os.kill(pid, 9)
        shutil.rmtree(self.folder, ignore_errors=True)
