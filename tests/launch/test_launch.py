#!/usr/bin/env python3
"""Ranks as processes: started by ztrain, by mpirun, by torchrun's variables alone, on one host and on two (by srun: test_slurm.py);
and as threads.

    test_launch.py ZTRAIN SOURCE_ROOT [TEST ...]

The two hosts are network namespaces joined by a veth pair: needs root and `ip netns`, once more with sshd between them. What cannot be
had is skipped by name; exit status 77 where all is.
"""
import contextlib
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from onnx_bytes import INT64, external_tensor, model, node, npz, value_info  # noqa: E402

ZTRAIN = SOURCE = None
ROOTLY = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
          "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_btl_base_warn_component_unused": "0"}


ENDLESS = 100000  # steps of a run that goes on until it is ended
SSHD = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin")


def end(process):
    """What a failed test has left of a run: the second signal ends it at once, and its ranks."""
    for _ in range(2):
        if process.poll() is None:
            process.terminate()
            time.sleep(0.2)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stderr.close()


class Case(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.runs = 0

    def words(self, *more, model=None, config=None, steps=6):
        self.runs += 1
        return [ZTRAIN, "--model", model or SOURCE / "models/convnet.onnx", "--config", config or SOURCE / "configs/ds_config.json",
                "--steps", steps, "--output", self.folder / f"run{self.runs}", *more]

    def run_it(self, *words, code=0, env=None, **more):
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120,
                              env={**os.environ, **(env or {})}, **more)
        if code is not None:
            self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def start(self, *words, env=None):
        """A run of the last words(), once it has made its first step, and its folder. It ends with the test."""
        process = subprocess.Popen(list(map(str, words)), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, **(env or {})})
        self.addCleanup(end, process)
        self.await_steps(process, 1)
        return process, self.folder / f"run{self.runs}"

    def steps(self):
        """made by the run of the last words()"""
        metrics = self.folder / f"run{self.runs}" / "metrics.jsonl"
        return metrics.read_text().count("\n") if metrics.exists() else 0

    def await_steps(self, process, count):
        while self.steps() < count and process.poll() is None:
            time.sleep(0.05)

    def hash_of(self, said):
        found = re.findall(r"^weights: ([0-9a-f]{16})$", said, re.M)
        self.assertEqual(len(found), 1, said)
        return found[0]

    def as_threads(self, ranks=2, *more):
        return self.hash_of(self.run_it(*self.words("--ranks", ranks, "--set", "ztrain.parallel.communicator=thread", *more)))

    def one_error(self, said):
        lines = [line for line in said.splitlines() if line.startswith("ztrain: error: ")]
        self.assertEqual(len(lines), 1, said)
        return lines[0]


class Threads(Case):
    WORDS = ["--threads", 1, "--set", "ztrain.parallel.communicator=thread"]

    @unittest.skipUnless(len(os.sched_getaffinity(0)) > 1, "there is one core")
    def test_ranks_have_cores_of_their_own(self):
        cores = sorted(os.sched_getaffinity(0))
        half = len(cores) // 2
        process, _ = self.start(*self.words("--ranks", 2, *self.WORDS, steps=ENDLESS))
        taken = {frozenset(os.sched_getaffinity(int(task.name))) for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir()}
        self.assertLessEqual({frozenset(cores[:half]), frozenset(cores[half:2 * half])}, taken)

    def test_more_ranks_than_cores_share_them(self):
        ranks = len(os.sched_getaffinity(0)) + 1
        said = self.run_it(*self.words("--ranks", ranks, "--set", f"train_batch_size={8 * ranks}", *self.WORDS))
        self.assertRegex(said, r"  cores +rank 0: \S+, shared; rank 1: \S+, shared")


@unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun")
class Ranks(Case):
    def test_processes_leave_the_weights_of_threads(self):
        for ranks, more in [(2, []), (4, []), (2, ["--set", "zero_optimization.stage=3"]), (2, ["--set", "pipeline.stages=2"])]:
            said = self.run_it(*self.words("--ranks", ranks, *more))
            run = self.folder / f"run{self.runs}"
            self.assertIn("processes over MPI", said)
            self.assertEqual(len((run / "metrics.jsonl").read_text().splitlines()), 6)
            self.assertTrue((run / "model.onnx").exists() and (run / "plan.txt").exists())
            self.assertEqual(self.hash_of(said), self.as_threads(ranks, *more), f"{ranks} ranks {more}")

    def test_mpirun_gives_the_same_run(self):
        said = self.run_it("mpirun", "-n", "2", *self.words(), env=ROOTLY)
        self.assertEqual(self.hash_of(said), self.as_threads())

    def test_mpirun_around_one_process_does_not_disturb_its_ranks(self):
        said = self.run_it("mpirun", "-n", "1", *self.words("--ranks", "2"), env=ROOTLY)
        self.assertEqual(self.hash_of(said), self.as_threads())

    def test_a_rank_that_is_stopped_below_mpirun_ends_the_others(self):
        process, _ = self.start("mpirun", "-n", "3", *self.words("--set", "train_batch_size=96", steps=ENDLESS), env=ROOTLY)
        ranks = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
        self.assertEqual(len(ranks), 3)
        os.kill(int(ranks[1]), signal.SIGSTOP)
        began = time.monotonic()
        said = process.communicate(timeout=60)[1]
        self.assertLess(time.monotonic() - began, 30)
        self.assertEqual(process.returncode, 5, said)
        self.assertRegex(self.one_error(said), r"rank \d: lost rank 1 on \S+: stopped at step \d+, waited for in \w+")

    def test_what_a_rank_cannot_do_is_said_once_with_its_code(self):
        for words, code in [(self.words("--ranks", "2", model=self.folder / "none.onnx"), 3),
                            (self.words("--ranks", "2", "--data", "cifar10:none"), 4),
                            (self.words("--ranks", "2", "--set", "ztrain.loss.logits=none"), 2)]:
            self.assertIn("rank ", self.one_error(self.run_it(*words, code=code)))

    def test_a_folder_that_holds_a_run_is_refused(self):
        words = self.words("--ranks", "2")
        self.run_it(*words)
        self.assertIn("already holds a run", self.one_error(self.run_it(*words, code=4)))
        self.run_it(*words, "--overwrite")

    def test_a_world_of_another_size_is_refused(self):
        said = self.run_it("mpirun", "-n", "2", *self.words("--ranks", "3"), code=None, env=ROOTLY)
        self.assertRegex(self.one_error(said), "rank 0: --ranks 3, but (mpirun|PMI) started 2 ranks")

    def test_processes_that_are_to_be_threads_are_refused(self):
        said = self.run_it("mpirun", "-n", "2", *self.words("--set", "ztrain.parallel.communicator=thread"), code=None, env=ROOTLY)
        self.assertIn('"thread" runs all ranks in one process', said)

    def disagreement(self, other):
        return self.run_it("mpirun", "-n", "1", *self.words(), ":", "-n", "1", *other, code=None, env=ROOTLY)

    def test_ranks_with_another_model_are_named(self):
        model = bytearray((SOURCE / "models/convnet.onnx").read_bytes())
        at = bytes(model).rfind(b"\x3d", 0, len(model) // 2)
        model[at + 1] ^= 1
        (self.folder / "other.onnx").write_bytes(model)
        said = self.disagreement(self.words(model=self.folder / "other.onnx"))
        self.assertIn("the model file of rank 1 differs from that of rank 0", self.one_error(said))

    def test_ranks_with_other_external_data_are_named(self):
        made = model([node("MatMul", ["x", "w"], ["y"], "product")], [value_info("x", ["n", 2])], [value_info("y", ["n", 3])],
                     [external_tensor([2, 3], "w.bin", "w")])
        config, data = self.folder / "c.json", self.folder / "d.npz"
        config.write_text('{"train_batch_size": 4, "optimizer": {"type": "Adam"}, '
                          '"ztrain": {"data": {"format": "npz", "path": "d.npz"}, "metrics": []}}')
        data.write_bytes(npz({"x": ([8, 2], [0.25] * 16), "target": ([8], [0, 1, 2, 0] * 2, INT64)}))
        for name, weight in [("here", 1.0), ("there", 1.5)]:
            (self.folder / name).mkdir()
            (self.folder / name / "m.onnx").write_bytes(made)
            (self.folder / name / "w.bin").write_bytes(struct.pack("<6f", 1, 2, 3, 4, 5, weight))
        here, there = (self.words(model=self.folder / name / "m.onnx", config=config) for name in ["here", "there"])
        said = self.run_it("mpirun", "-n", "1", *here, ":", "-n", "1", *there, code=None, env=ROOTLY)
        self.assertIn("the model file of rank 1 differs from that of rank 0", self.one_error(said))
        self.assertIn("external data", said)
        self.hash_of(self.run_it("mpirun", "-n", "2", *here, env=ROOTLY))

    def test_ranks_with_another_config_are_named(self):
        said = self.disagreement(self.words("--seed", "5"))
        self.assertIn("the configuration of rank 1 differs from that of rank 0", self.one_error(said))

    def test_strangers_at_the_parents_port_change_nothing(self):
        process, _ = self.start(*self.words("--ranks", "2", steps=ENDLESS))
        below = subprocess.run(["ps", "-e", "-o", "pid=,comm=,args="], capture_output=True, text=True).stdout
        pid = next(line.split()[0] for line in below.splitlines() if line.split()[1] == "ztrain" and str(self.folder) in line
                   and line.split()[0] != str(process.pid))
        line = next(e for e in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if e.startswith(b"ZTRAIN_PARENT="))
        port = int(line.split()[1])
        hello = struct.pack("<II", 1, 200) + bytes(200)
        knows = b"ztrain dials 2".ljust(16, b"\0") + struct.pack("<iiii", 2, 1, -1, 2) + bytes(24) + os.urandom(32)
        with socket.create_connection(("127.0.0.1", port)) as impostor:  # all but the token
            impostor.sendall(knows)
            self.assertEqual(impostor.recv(72, socket.MSG_WAITALL)[:14], b"ztrain hears 2")
            impostor.sendall(bytes(32))
            other_secret = 2
            self.assertEqual(struct.unpack("<ii", impostor.recv(40, socket.MSG_WAITALL)[:8]), (other_secret, 0))
            self.assertEqual(impostor.recv(1), b"")
        for data in [b"", b"GET / HTTP/1.0\r\n\r\n", b"\xff" * 40000, hello, struct.pack("<II", 4, 16000), hello[:5]]:
            with socket.create_connection(("127.0.0.1", port)) as stranger:
                stranger.sendall(data)
        for _ in range(80):  # say nothing
            self.addCleanup(socket.create_connection(("127.0.0.1", port)).close)
        time.sleep(0.5)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, said)
        self.assertNotIn("error", said)

    def pid_of(self, run, rank):
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (str(run).encode() in (process / "cmdline").read_bytes().split(b"\0")
                        and f"OMPI_COMM_WORLD_RANK={rank}".encode() in (process / "environ").read_bytes().split(b"\0")):
                    return int(process.name)
        return self.fail(f"there is no rank {rank}")

    def test_signals_save_and_stop(self):
        for number, ranks in [(signal.SIGINT, [None]), (signal.SIGTERM, ["1"]), (signal.SIGTERM, ["0", "1", None])]:
            process, run = self.start(*self.words("--ranks", "2", steps=ENDLESS))
            for pid in [process.pid if rank is None else self.pid_of(run, rank) for rank in ranks]:
                os.kill(pid, number)
            said = process.communicate(timeout=60)[1]
            self.assertEqual(process.returncode, 128 + number, said)
            self.assertNotIn("error", said)
            self.assertTrue(list((run / "checkpoints").glob("step-*")), said)


class Meeting(Case):
    """Ranks that RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT describe, which the tests set as torchrun does."""
    TCP = ["--set", "ztrain.parallel.communicator=tcp"]

    def port(self):
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            return one.getsockname()[1]

    def begin(self, *commands, secrets=None, local=None):
        """A rank for each of them; `secrets`: a secret for each; `local`: the LOCAL_RANK of all."""
        port, size, started = str(self.port()), str(len(commands)), []
        for rank, words in enumerate(commands):
            env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": size, "LOCAL_RANK": str(rank) if local is None else local, "LOCAL_WORLD_SIZE": size,
                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **({"ZTRAIN_SECRET": secrets[rank]} if secrets else {})}
            started.append(subprocess.Popen(list(map(str, words)), env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
            self.addCleanup(end, started[-1])
        return started

    def test_ranks_leave_the_weights_of_threads(self):
        for ranks, more in [(2, []), (4, []), (4, ["--set", "zero_optimization.stage=2"]), (2, ["--set", "zero_optimization.stage=3"]),
                            (4, ["--set", "pipeline.stages=2"])]:
            said = [rank.communicate(timeout=100)[1] for rank in self.begin(*[self.words(*self.TCP, *more)] * ranks)]
            self.assertIn("processes over TCP", said[0])
            self.assertEqual(said[1:], [""] * (ranks - 1))
            self.assertEqual(self.hash_of(said[0]), self.as_threads(ranks, *more), f"{ranks} ranks {more}")

    def test_the_secret_is_seen_nowhere(self):
        secret = "0123456789abcdef" * 4
        ranks = self.begin(*[self.words(*self.TCP, steps=ENDLESS)] * 2, secrets=[secret] * 2)
        self.await_steps(ranks[0], 1)
        for rank in ranks:
            for name in ["cmdline", "environ"]:
                self.assertNotIn(secret.encode(), pathlib.Path(f"/proc/{rank.pid}/{name}").read_bytes())
        for rank in ranks:
            rank.terminate()
        said = "".join(rank.communicate(timeout=60)[1] for rank in ranks)
        self.assertNotIn("error", said)
        self.assertNotIn(secret, said)
        for file in (self.folder / f"run{self.runs}").rglob("*"):
            self.assertFalse(file.is_file() and secret.encode() in file.read_bytes(), file)

    def test_another_secret_is_refused_and_the_rank_of_the_job_still_comes(self):
        ranks = self.begin(*[self.words(*self.TCP)] * 2, secrets=["a secret of this job", "a secret of another"])
        said = ranks[1].communicate(timeout=60)[1]
        self.assertEqual(ranks[1].returncode, 2, said)
        self.assertRegex(self.one_error(said), r"RANK=1: rank 0 at MASTER_ADDR=127.0.0.1, MASTER_PORT=\d+ has another secret")
        self.assertIn("hint: give all ranks of the job the same random text: ZTRAIN_SECRET=", said)
        again = subprocess.run(ranks[1].args, capture_output=True, text=True, timeout=60,
                               env={**self.env_of(ranks[0], "ZTRAIN_SECRET"), "RANK": "1", "LOCAL_RANK": "1", "ZTRAIN_SECRET": "a secret of this job"})
        self.assertEqual([again.returncode, again.stderr], [0, ""])
        self.assertEqual(self.hash_of(ranks[0].communicate(timeout=60)[1]), self.as_threads())

    def env_of(self, process, *without):
        lines = pathlib.Path(f"/proc/{process.pid}/environ").read_bytes().decode().split("\0")
        return {name: value for name, _, value in (line.partition("=") for line in lines) if name and name not in without}

    def test_beyond_loopback_a_secret_is_asked_for(self):
        env = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "192.0.2.7", "MASTER_PORT": "29500"}
        said = self.run_it(*self.words(*self.TCP), code=2, env=env)
        self.assertIn("is on a network, where ranks need a secret: ZTRAIN_SECRET is not set", self.one_error(said))
        self.assertIn("hint: give all ranks of the job the same random text: ZTRAIN_SECRET=$(openssl rand -hex 32)", said)

    def begin_endless(self):
        """Three ranks that have made a step. They write no checkpoint, in whose files a rank that is ended might be."""
        words = self.words(*self.TCP, "--set", "train_batch_size=96", "--set", "ztrain.checkpoint.every_epochs=0", steps=ENDLESS)
        ranks = self.begin(*[words] * 3)
        self.await_steps(ranks[0], 1)
        return ranks

    def test_a_rank_that_is_stopped_is_named_once_and_ends_the_others(self):
        """but not where all are, for as long"""
        ranks = self.begin_endless()
        time.sleep(2)  # each has heard the one before it
        for rank in ranks:
            rank.send_signal(signal.SIGSTOP)
        time.sleep(13)
        for rank in ranks:
            rank.send_signal(signal.SIGCONT)
        self.await_steps(ranks[0], self.steps() + 100)
        self.assertEqual([rank.poll() for rank in ranks], [None] * 3)
        ranks[1].send_signal(signal.SIGSTOP)
        began = time.monotonic()
        said = [ranks[r].communicate(timeout=60)[1] for r in [0, 2]]
        self.assertLess(time.monotonic() - began, 30)
        ranks[1].send_signal(signal.SIGCONT)
        said.append(ranks[1].communicate(timeout=60)[1])
        self.assertEqual([rank.returncode for rank in ranks], [5] * 3, said)
        self.assertRegex(self.one_error("".join(said)), r"rank 2: lost rank 1 on \S+: stopped at step \d+, waited for in \w+")

    def test_a_rank_that_is_killed_is_named_once_and_ends_the_others(self):
        for killed, speaks in [(1, 0), (0, 1)]:
            ranks = self.begin_endless()
            ranks[killed].kill()
            began = time.monotonic()
            said = [rank.communicate(timeout=60)[1] for rank in ranks]
            self.assertLess(time.monotonic() - began, 10)
            self.assertEqual([rank.returncode for rank in ranks], [-9 if r == killed else 5 for r in range(3)], said)
            self.assertIn(f"rank {speaks}: lost rank {killed}: ", self.one_error("".join(said)))
            self.assertIn("ztrain: error: ", said[speaks])

    def test_what_a_rank_cannot_do_is_said_once_and_ends_the_others(self):
        ranks = self.begin(self.words(*self.TCP), self.words(*self.TCP, "--seed", "7"))
        said = [rank.communicate(timeout=60)[1] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [2, 5], said)
        self.assertIn("the configuration of rank 1 differs from that of rank 0", self.one_error("".join(said)))
        ranks = self.begin(self.words(*self.TCP), self.words(*self.TCP), local="0")
        said = [rank.communicate(timeout=60)[1] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [2, 5], said)
        self.assertRegex(self.one_error("".join(said)), 'ranks 0 and 1 of host ".*" both have local rank 0')

    def test_storage_of_each_host_changes_nothing_on_one(self):
        """of several: test_node_local.py"""
        words = self.words(*self.TCP, "--set", "checkpoint.use_node_local_storage=true")
        said = [rank.communicate(timeout=60)[1] for rank in self.begin(words, words)]
        self.assertEqual(self.hash_of(said[0]), self.as_threads(2))

    def test_wrong_variables_are_named(self):
        good = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
        for change, says in [({"WORLD_SIZE": "two"}, "WORLD_SIZE=two"), ({"RANK": "2"}, "RANK=2"), ({"MASTER_PORT": ""}, "MASTER_PORT"),
                             ({"MASTER_ADDR": ""}, "MASTER_ADDR"), ({"MASTER_PORT": "70000"}, "MASTER_PORT=70000")]:
            self.assertIn(says, self.one_error(self.run_it(*self.words(*self.TCP), code=2, env={**good, **change})))
        with socket.socket() as taken:
            taken.bind(("0.0.0.0", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            said = self.run_it(*self.words(*self.TCP), code=1, env={**good, "MASTER_PORT": port})
            self.assertIn(f"MASTER_PORT={port}", self.one_error(said))

    def test_a_communicator_that_does_not_fit_the_launcher_is_refused(self):
        self.assertIn("MASTER_ADDR", self.one_error(self.run_it(*self.words(*self.TCP, "--ranks", "2"), code=2)))
        said = self.run_it(*self.words("--set", "ztrain.parallel.communicator=mpi"), code=2,
                           env={"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"})
        self.assertIn("not ranks of MPI", self.one_error(said))


class Refusals(Case):
    def test_without_mpirun_the_message_says_what_to_install(self):
        said = self.run_it(*self.words("--ranks", "2"), code=1, env={"PATH": str(self.folder)})
        self.assertIn("mpirun cannot be run", self.one_error(said))
        self.assertIn("hint: ranks are processes over MPI: install Open MPI", said)

    def test_few_open_files_are_raised_or_named(self):
        def limit(soft, hard):
            return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        said = self.run_it(*self.words("--ranks", "2"), code=1, preexec_fn=limit(24, 24))
        self.assertIn("2 ranks need 40 open files, 24 are allowed", self.one_error(said))
        self.run_it(*self.words("--ranks", "2"), preexec_fn=limit(24, 1024))

    def test_what_mpirun_leaves_of_its_session_is_removed(self):
        temporary, kept = self.folder / "tmp", self.folder / "kept"
        for folder in (temporary, kept):
            folder.mkdir()
        (kept / "file").write_text("")
        fake = self.folder / "mpirun"
        fake.write_text(f"""#!/bin/sh
mkdir -p "$TMPDIR/ompi.a.$(id -u)/pid.$$/shared" "$TMPDIR/ompi.b.$(id -u)/pid.1" "$TMPDIR/ompi.c.$(id -u)/pid.$$"
touch "$TMPDIR/ompi.a.$(id -u)/pid.$$/shared/lock"
ln -s {kept} "$TMPDIR/ompi.c.$(id -u)/pid.$$/link"
exit 1
""")
        fake.chmod(0o755)
        self.run_it(*self.words("--ranks", "2"), code=1, env={"PATH": f"{self.folder}:{os.environ['PATH']}", "TMPDIR": str(temporary)})
        self.assertEqual([str(p.relative_to(temporary)) for p in sorted(temporary.rglob("*"))],
                         [f"ompi.b.{os.getuid()}", f"ompi.b.{os.getuid()}/pid.1"])
        self.assertTrue((kept / "file").exists(), "a link was followed")

    def test_a_signal_ends_what_waits_for_mpirun(self):
        fake = self.folder / "mpirun"
        fake.write_text("#!/bin/sh\nexec sleep 600\n")
        fake.chmod(0o755)
        process = subprocess.Popen(list(map(str, self.words("--ranks", "2"))), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"})
        self.addCleanup(end, process)
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while not children.read_text() and process.poll() is None:
            time.sleep(0.05)
        process.terminate()
        said = process.communicate(timeout=30)[1]
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, said)
        self.assertNotIn("error", said)

    def test_torchruns_variables_are_refused_on_the_cpu(self):
        torchrun = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
        said = self.run_it(*self.words(), code=2, env=torchrun)
        self.assertIn("torchrun", self.one_error(said))
        self.run_it(ZTRAIN, "plan", *self.words()[1:-2], env=torchrun)
        self.assertIn("hint: start them with --ranks 2", said)
        self.assertIn('ztrain.parallel.communicator to "tcp"', said)

    def test_what_a_gpu_cannot_keep_is_refused_where_ranks_need_gpus(self):
        keep = ["--set", "activation_checkpointing.cpu_checkpointing=true"]
        for more, env in [(["--ranks", "2", "--set", "ztrain.parallel.communicator=nccl"], {}),
                          ([], {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"})]:
            self.assertIn("cpu_checkpointing is not supported on GPUs", self.one_error(self.run_it(*self.words(*keep, *more), code=2, env=env)))

    def test_hostfiles_are_checked_before_anything_starts(self):
        hosts = self.folder / "hosts"
        hosts.write_text("a slots=2\na slots=2\n")
        said = self.run_it(*self.words("--hostfile", hosts), code=2)
        self.assertIn("hosts:2: host a is listed twice", self.one_error(said))
        hosts.write_text("a slots=2\nb slots=1\n")
        for more, says in [(["--include", "c"], "is not in"), (["--exclude", "a@b"], "no slot is left"),
                           (["--include", "a", "--exclude", "b"], "exclude each other"), (["--ranks", "2"], "use only one of them"),
                           (["--set", "train_batch_size=96", "--set", "ztrain.parallel.communicator=thread"], "cannot run on several hosts")]:
            self.assertIn(says, self.one_error(self.run_it(*self.words("--hostfile", hosts, *more), code=2)))
        self.assertIn("--include", self.one_error(self.run_it(*self.words("--include", "a"), code=2)))

    @unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun")
    def test_a_host_that_cannot_be_reached_is_an_error(self):
        agent = self.folder / "agent"
        agent.write_text("#!/bin/sh\nexit 255\n")
        agent.chmod(0o755)
        (self.folder / "hosts").write_text("nowhere.invalid slots=2\n")
        said = self.run_it(*self.words("--hostfile", self.folder / "hosts"), code=1, env={"OMPI_MCA_plm_rsh_agent": str(agent)})
        self.assertIn("0 of 2 ranks had started", self.one_error(said))


def can_make_networks():
    name = f"zt-probe-{os.getpid()}"
    made = os.geteuid() == 0 and shutil.which("ip") and subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode == 0
    if made:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True)
    return bool(made)


class Srun(Case):
    """Ranks that srun without --kill-on-bad-exit starts, of whom each finds the error of the start."""

    def errors(self, *wrong, ranks=None, late=0):
        """What each rank says; the words of the ranks above 0 are the last."""
        job, begun = f"{os.getpid()}{time.monotonic_ns()}", []
        for rank in ranks or range(len(wrong)):
            env = {**os.environ, "SLURM_PROCID": str(rank), "SLURM_NTASKS": "4", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": job}
            words = self.words("--set", wrong[rank])
            begun.append(subprocess.Popen(list(map(str, words)), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env))
            time.sleep(late)
        said = [process.communicate(timeout=60)[1] for process in begun]
        self.assertEqual({process.returncode for process in begun}, {2}, said)
        return said

    def test_an_error_of_all_ranks_is_printed_once(self):
        for late in [0, 0.3]:
            said = self.errors("seeed=1", "seeed=1", "seeed=1", late=late)
            self.assertIn("rank 0: --set seeed", self.one_error(said[0]))
            self.assertEqual(said[1:], ["", ""])

    def test_without_rank_0_one_of_the_others_prints_it(self):
        said = self.errors("", "seeed=1", "seeed=1", ranks=[1, 2])
        self.assertRegex(self.one_error("".join(said)), "rank [12]: --set seeed")

    def test_errors_of_one_rank_are_printed(self):
        said = self.errors("seeed=1", "stepps=1", "seeed=1")
        self.assertIn("rank 1: --set stepps", self.one_error(said[1]))
        self.assertEqual(said[2], "")


class Networks(Case):
    """Two hosts, 10.231.7.1 and 10.231.7.2."""
    def setUp(self):
        super().setUp()
        self.near, self.far = f"zt-near-{os.getpid()}", f"zt-far-{os.getpid()}"
        a, b = f"zta{os.getpid()}", f"ztb{os.getpid()}"
        for space in [self.near, self.far]:
            self.addCleanup(subprocess.run, ["ip", "netns", "delete", space], capture_output=True)
        for line in [f"netns add {self.near}", f"netns add {self.far}", f"link add {a} netns {self.near} type veth peer name {b} netns {self.far}",
                     f"-n {self.near} addr add 10.231.7.1/24 dev {a}", f"-n {self.far} addr add 10.231.7.2/24 dev {b}",
                     f"-n {self.near} link set {a} up", f"-n {self.far} link set {b} up", f"-n {self.near} link set lo up",
                     f"-n {self.far} link set lo up"]:
            subprocess.run(["ip", *line.split()], check=True)


@unittest.skipUnless(can_make_networks(), "needs root and ip netns")
class MeetingOfTwoHosts(Networks):
    SECRET = "a secret of two hosts"

    def test_ranks_beside_rank_0_are_reached_where_their_host_calls_itself_127(self):
        """as Debian does in /etc/hosts: rank 1 comes to rank 0 from an address that means another host to rank 2"""
        run, started = self.words(*Meeting.TCP, "--set", "train_batch_size=96"), []
        for rank, space, address in [(0, self.near, "127.0.1.1"), (1, self.near, "127.0.1.1"), (2, self.far, "10.231.7.1")]:
            hosts = self.folder / f"hosts{rank}"
            hosts.write_text(f"{address} first\n")
            names = {"RANK": str(rank), "WORLD_SIZE": "3", "LOCAL_RANK": str(rank % 2), "MASTER_ADDR": "first", "MASTER_PORT": "29500",
                     "ZTRAIN_SECRET": self.SECRET}
            words = ["ip", "netns", "exec", space, "unshare", "--mount", "sh", "-c", f'mount --bind {hosts} /etc/hosts && exec "$@"', "-", *run]
            started.append(subprocess.Popen(list(map(str, words)), env={**os.environ, **names}, stdin=subprocess.DEVNULL,
                                            stderr=subprocess.PIPE, text=True))
            self.addCleanup(end, started[-1])
        said = [rank.communicate(timeout=60)[1] for rank in started]
        self.assertEqual(said[1:], ["", ""])
        self.assertEqual(self.hash_of(said[0]), self.as_threads(3, "--set", "train_batch_size=96"))

    def begin_near(self, address, secret):
        hosts = self.folder / "hosts0"
        hosts.write_text(f"{address} first\n")
        names = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "first", "MASTER_PORT": "29500", **secret}
        words = ["ip", "netns", "exec", self.near, "unshare", "--mount", "sh", "-c", f'mount --bind {hosts} /etc/hosts && exec "$@"', "-",
                 *self.words(*Meeting.TCP)]
        process = subprocess.Popen(list(map(str, words)), env={**os.environ, **names}, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True)
        self.addCleanup(end, process)
        return process

    def listeners(self):
        """addresses at which something listens on the near host"""
        said = subprocess.run(["ip", "netns", "exec", self.near, "ss", "-Hltn"], capture_output=True, text=True, check=True).stdout
        return [line.split()[3] for line in said.splitlines()]

    @unittest.skipUnless(shutil.which("ss"), "there is no ss")
    def test_rank_0_listens_where_the_other_host_reaches_it_alone(self):
        for address in ["10.231.7.1", "127.0.1.1"]:
            process = self.begin_near(address, {"ZTRAIN_SECRET": self.SECRET})
            for _ in range(100):
                if self.listeners() or process.poll() is not None:
                    break
                time.sleep(0.05)
            self.assertEqual(self.listeners(), ["10.231.7.1:29500"])
            end(process)

    def test_without_a_secret_nothing_listens_at_a_network(self):
        for address in ["10.231.7.1", "127.0.1.1"]:
            process = self.begin_near(address, {})
            said = process.communicate(timeout=30)[1]
            self.assertEqual(process.returncode, 2, said)
            self.assertIn("MASTER_ADDR=first (10.231.7.1) is on a network, where ranks need a secret", self.one_error(said))

    def test_a_name_that_could_be_either_of_two_networks_is_refused(self):
        for line in ["link add zt-second type veth peer name zt-third", "addr add 10.231.8.1/24 dev zt-second", "link set zt-second up",
                     "link set zt-third up"]:
            subprocess.run(["ip", "-n", self.near, *line.split()], check=True)
        process = self.begin_near("127.0.1.1", {"ZTRAIN_SECRET": self.SECRET})
        said = process.communicate(timeout=30)[1]
        self.assertEqual(process.returncode, 2, said)
        self.assertIn("MASTER_ADDR=first is 127.0.1.1 on this host, an address that other hosts cannot reach", self.one_error(said))
        self.assertRegex(said, r"hint: set MASTER_ADDR to .*10\.231\.7\.1.*10\.231\.8\.1|10\.231\.8\.1.*10\.231\.7\.1")

    def test_ranks_meet_over_ipv6(self):
        started = []
        for space, at in [(self.near, 1), (self.far, 2)]:
            name = subprocess.run(["ip", "-n", space, "-o", "link"], capture_output=True, text=True, check=True).stdout
            link = re.search(r"(zt[ab]\d+)@", name)[1]
            subprocess.run(["ip", "-n", space, "addr", "add", f"fd00:231::{at}/64", "dev", link, "nodad"], check=True)
        run = self.words(*Meeting.TCP)
        for rank, space in [(0, self.near), (1, self.far)]:
            names = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "fd00:231::1", "MASTER_PORT": "29500",
                     "ZTRAIN_SECRET": self.SECRET}
            started.append(subprocess.Popen(["ip", "netns", "exec", space, *map(str, run)], env={**os.environ, **names},
                                            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
            self.addCleanup(end, started[-1])
        said = [rank.communicate(timeout=60)[1] for rank in started]
        self.assertEqual(said[1], "")
        self.assertEqual(self.hash_of(said[0]), self.as_threads())


@unittest.skipUnless(shutil.which("mpirun") and can_make_networks(), "needs mpirun, root and ip netns")
class TwoHosts(Networks):
    def setUp(self):
        super().setUp()
        agent = self.folder / "agent"
        agent.write_text(f"""#!/bin/sh
# AGENT [-x] HOST COMMAND...: what ssh does between hosts
[ "$1" = -x ] && shift
shift
exec ip netns exec {self.far} unshare --uts sh -c 'hostname far; exec sh -c "$1"' - "$*"
""")
        agent.chmod(0o755)
        self.log_in_with(agent)
        (self.folder / "hosts").write_text("10.231.7.1 slots=1  # here\n10.231.7.2 slots=2\n")

    def log_in_with(self, agent):
        self.env = {"OMPI_MCA_plm_rsh_agent": str(agent), "HYDRA_LAUNCHER_EXEC": str(agent)}

    def on_other_host(self):
        """pid and name of what the run has started there"""
        pids = subprocess.run(["ip", "netns", "pids", self.far], capture_output=True, text=True).stdout.split()
        names = {}
        for pid in pids:
            with contextlib.suppress(OSError):  # it has ended since
                names[int(pid)] = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
        return list(names.items())

    def over_both(self, *more, **how):
        return self.run_it("ip", "netns", "exec", self.near, *self.words("--hostfile", self.folder / "hosts", *more), env=self.env, **how)

    def test_two_hosts_leave_the_weights_of_one(self):
        self.assertEqual(self.hash_of(self.over_both("--exclude", "10.231.7.2:1")), self.as_threads())
        self.assertEqual(self.hash_of(self.over_both("--set", "train_batch_size=96")), self.as_threads(3, "--set", "train_batch_size=96"))

    def test_a_rank_that_is_killed_or_stopped_on_the_other_host_is_named(self):
        for number, limit, says in [(signal.SIGKILL, 10, "lost"), (signal.SIGSTOP, 30, "stopped")]:
            with self.subTest(says):
                self.hit_other_host(number, limit, says)

    def test_a_rank_that_is_stopped_on_the_other_host_below_mpirun_is_named(self):
        process, _ = self.start("ip", "netns", "exec", self.near, "mpirun", "-n", "2", "--host", "10.231.7.1,10.231.7.2",
                                *self.words(steps=ENDLESS), env={**self.env, **ROOTLY})
        time.sleep(2)  # each has heard the other
        stopped = time.monotonic()
        self.signal_other_host(signal.SIGSTOP)
        said = process.communicate(timeout=60)[1]
        self.assertLess(time.monotonic() - stopped, 30)
        self.assertEqual(process.returncode, 5, said)
        self.assertRegex(self.one_error(said), r"rank 0: lost rank 1 on far: stopped at step \d+, waited for in \w+")

    def test_the_token_of_the_run_is_on_no_command_line(self):
        words = self.words("--hostfile", self.folder / "hosts", "--include", "10.231.7.1@10.231.7.2:0", steps=ENDLESS)
        process, _ = self.start("ip", "netns", "exec", self.near, *words, env=self.env)
        ranks = [pid for pid, name in self.on_other_host() if name == "ztrain"]
        self.assertTrue(ranks)
        environ = pathlib.Path(f"/proc/{ranks[0]}/environ").read_bytes().split(b"\0")
        token = next(line for line in environ if line.startswith(b"ZTRAIN_PARENT=")).split()[2]
        for line in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                self.assertNotIn(token, line.read_bytes(), line)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)

    def signal_other_host(self, number):
        for pid, name in self.on_other_host():
            if name == "ztrain":
                os.kill(pid, number)

    def hit_other_host(self, number, limit, says):
        words = self.words("--hostfile", self.folder / "hosts", "--include", "10.231.7.1@10.231.7.2:0", steps=ENDLESS)
        process, _ = self.start("ip", "netns", "exec", self.near, *words, env=self.env)
        self.signal_other_host(number)
        killed = time.monotonic()
        said = process.communicate(timeout=60)[1]
        self.assertLess(time.monotonic() - killed, limit)
        self.assertEqual(process.returncode, 5, said)
        self.assertRegex(self.one_error(said), rf"rank 1 on far: {says} at step \d+ ")
        # mpirun's daemon there ends when it sees that mpirun has, which no one here can wait for
        ended = time.monotonic()
        while self.on_other_host() and time.monotonic() - ended < 5:
            time.sleep(0.02)
        self.assertEqual(self.on_other_host(), [])


SSH_SERVER = """
Port 2222
ListenAddress 10.231.7.2
HostKey {folder}/host
AuthorizedKeysFile {folder}/login.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin prohibit-password
"""
SSH_CLIENT = """
Port 2222
User root
IdentityFile {folder}/login
IdentitiesOnly yes
UserKnownHostsFile {folder}/known
BatchMode yes
"""


@unittest.skipUnless(SSHD and shutil.which("ssh"), "needs ssh and sshd (Debian: openssh-client openssh-server)")
class TwoHostsOverSsh(TwoHosts):
    def setUp(self):
        super().setUp()
        for name in ["host", "login"]:
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name], check=True)
        (self.folder / "known").write_text(f"[10.231.7.2]:2222 {(self.folder / 'host.pub').read_text()}")
        (self.folder / "server").write_text(SSH_SERVER.format(folder=self.folder))
        (self.folder / "client").write_text(SSH_CLIENT.format(folder=self.folder))
        script = f"hostname far; mount -t tmpfs none /run; mkdir /run/sshd; exec {SSHD} -D -f {self.folder}/server"
        server = subprocess.Popen(["ip", "netns", "exec", self.far, "unshare", "--uts", "sh", "-c", script], stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        ssh = self.folder / "ssh"
        ssh.write_text(f'#!/bin/sh\nexec ssh -F {self.folder}/client "$@"\n')
        ssh.chmod(0o755)
        self.log_in_with(ssh)
        for _ in range(50):
            done = subprocess.run(["ip", "netns", "exec", self.near, ssh, "10.231.7.2", "hostname"], capture_output=True, text=True)
            if done.returncode == 0:
                break
            time.sleep(0.1)
        self.assertEqual(done.stdout, "far\n", done.stderr)

    def on_other_host(self):
        """A session may still be closing when its commands are gone."""
        return [(pid, name) for pid, name in super().on_other_host() if name not in ["sshd", "sshd-session"]]


def main():
    global ZTRAIN, SOURCE
    ZTRAIN, SOURCE = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
    program = unittest.main(argv=[sys.argv[0], *sys.argv[3:]], exit=False, verbosity=2)
    skipped = len(program.result.skipped)
    for case, why in program.result.skipped:
        print(f"SKIPPED {case}: {why}")
    if not program.result.wasSuccessful():
        return 1
    return 77 if skipped and skipped == program.result.testsRun else 0


if __name__ == "__main__":
    sys.exit(main())
