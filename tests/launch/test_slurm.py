#!/usr/bin/env python3
"""Ranks as processes that srun starts, or ztrain and mpirun in a batch script.

    test_slurm.py ZTRAIN SOURCE_ROOT [TEST ...]

Needs Slurm's daemons and munged installed, which it starts for itself, and root; else exit status 77.
"""
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import time
import unittest

import test_launch
from test_launch import ENDLESS, ROOTLY, Case, main

SLURM = """
ClusterName=one
SlurmctldHost={host}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmctldPort={port}
SlurmdPort={next}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/d.pid
SlurmctldLogFile={folder}/ctld.log
SlurmdLogFile={folder}/d.log
ReturnToService=2
KillWait=5
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""


@unittest.skipUnless(os.geteuid() == 0 and all(map(shutil.which, ["srun", "slurmd", "slurmctld", "munged"])),
                     "needs root, Slurm and munge (Debian: slurm-wlm munge)")
class Slurm(Case):
    def setUp(self):
        super().setUp()
        for name in ["state", "spool", "munge"]:
            (self.folder / name).mkdir()
        self.folder.chmod(0o755)
        munge = self.folder / "munge"
        (munge / "key").write_bytes(os.urandom(1024))
        (munge / "key").chmod(0o600)
        port = 20000 + os.getpid() % 10000 * 2
        (self.folder / "slurm.conf").write_text(SLURM.format(host=os.uname().nodename.split(".")[0], folder=self.folder, port=port,
                                                             next=port + 1, cores=os.cpu_count()))
        self.env = {"SLURM_CONF": str(self.folder / "slurm.conf")}
        self.mpi = "pmi2" if b"libmpich" in test_launch.ZTRAIN.read_bytes() else "pmix"
        self.daemons = []
        self.addCleanup(self.stop)
        self.serve("munged", "--foreground", "--force", f"--key-file={munge}/key", f"--socket={munge}/socket", f"--pid-file={munge}/pid",
                   f"--log-file={munge}/log", f"--seed-file={munge}/seed")
        while not (munge / "socket").exists():
            time.sleep(0.05)
        self.serve("slurmctld", "-D", "-c")
        self.serve("slurmd", "-D")
        for _ in range(100):
            state = subprocess.run(["sinfo", "-h", "-o", "%t"], capture_output=True, text=True, env={**os.environ, **self.env}).stdout
            if state.strip() == "idle":
                return
            time.sleep(0.2)
        self.skipTest(f"slurmd does not come up here: {(self.folder / 'd.log').read_text()[-300:]}")

    def serve(self, *words):
        self.daemons.append(subprocess.Popen(words, env={**os.environ, **self.env}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.wait(30)

    def test_srun_gives_the_same_run(self):
        said = self.run_it("srun", f"--mpi={self.mpi}", "-n", "2", "--overcommit", *self.words(), env=self.env)
        self.assertEqual(self.hash_of(said), self.as_threads())

    def test_srun_without_what_mpi_needs_is_refused_with_a_hint(self):
        for how in {"none", "pmi2", "pmix"} - {self.mpi}:
            said = self.run_it("srun", f"--mpi={how}", "-n", "2", "--overcommit", *self.words(), code=None, env=self.env)
            self.assertIn("srun started 2 ranks without what MPI needs", self.one_error(said))
            self.assertIn(f"hint: srun --mpi={self.mpi}", said)

    def test_a_batch_script_starts_ranks_in_either_way(self):
        script = self.folder / "job.sh"
        for line in [["--ranks", "2"], ["mpirun", "-n", "2"]]:
            words = self.words(*(line if line[0] == "--ranks" else []))
            script.write_text("#!/bin/sh\n" + shlex.join(map(str, [*(line if line[0] == "mpirun" else []), *words])))
            out = self.folder / "job.out"
            self.run_it("sbatch", "--wait", "-n", "2", "--overcommit", "-o", out, script, env=self.env | ROOTLY)
            self.assertEqual(self.hash_of(out.read_text()), self.as_threads())

    def lose(self, number, limit):
        """What srun says, and has to say within `limit` seconds, when rank 1 gets a signal that takes the step along."""
        process, _ = self.start("srun", f"--mpi={self.mpi}", "--kill-on-bad-exit", "-n", "2", "--overcommit",
                                *self.words(steps=ENDLESS), env=self.env)
        ranks = self.ranks()
        os.kill(ranks[1], number)
        began = time.monotonic()
        said = process.communicate(timeout=60)[1]
        self.assertLess(time.monotonic() - began, limit)
        self.assertNotEqual(process.returncode, 0, said)
        self.assertEqual([pid for pid in ranks.values() if pathlib.Path(f"/proc/{pid}").exists()], [])
        return said

    def test_a_rank_that_is_killed_takes_the_step_along(self):
        self.assertIn("task 1: Killed", self.lose(signal.SIGKILL, limit=10))

    def test_a_rank_that_is_stopped_takes_the_step_along(self):
        self.assertRegex(self.one_error(self.lose(signal.SIGSTOP, limit=30)), r"lost rank 1 on \S+: stopped at step \d+, waited for in ")

    def test_a_rank_that_fails_before_the_others_meet_it_ends_the_step(self):
        # before MPI has started only srun can end them, and does where it is told to
        script = self.folder / "rank.sh"
        script.write_text(f'#!/bin/sh\n[ "$SLURM_PROCID" = 1 ] && set -- "$@" --data cifar10:none\nexec "$@"\n')
        script.chmod(0o755)
        said = self.run_it("srun", f"--mpi={self.mpi}", "--kill-on-bad-exit", "-n", "2", "--overcommit", script, *self.words(), code=None,
                           env=self.env)
        self.assertIn("none: No such file", self.one_error(said))
        self.assertIn("task 1: Exited with exit code 4", said)

    def test_a_stop_signal_saves_and_stops(self):
        process, run = self.start("srun", f"--mpi={self.mpi}", "--kill-on-bad-exit", "-n", "2", "--overcommit",
                                  *self.words(steps=ENDLESS), env=self.env)
        os.kill(self.ranks()[1], signal.SIGTERM)
        said = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, said)
        self.assertNotIn("ztrain: error", said)
        self.assertTrue(list((run / "checkpoints").glob("step-*")), said)

    def ranks(self):
        """Process by rank, of the ranks that slurmd's daemon for the step has started."""
        found = {}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                environment = (folder / "environ").read_bytes().split(b"\0")
                if f"SLURM_CONF={self.folder}/slurm.conf".encode() in environment and (folder / "comm").read_text().strip() == "ztrain":
                    found[next(int(e.split(b"=")[1]) for e in environment if e.startswith(b"SLURM_PROCID="))] = int(folder.name)
            except (OSError, StopIteration):
                pass
        return found


if __name__ == "__main__":
    sys.exit(main())
