#!/usr/bin/env python3
"""checkpoint.use_node_local_storage over several hosts: what each keeps, resuming from it, what is refused, and all of it together.

    test_node_local.py ZTRAIN SOURCE_ROOT [TEST ...]

A host is a host name and a mount of its own over the output folder (root, unshare), of ranks that meet over TCP on loopback; exit
status 77 where that cannot be had.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import test_launch

ALONE = '''case $3 in full) mount -t tmpfs -o size=500k none "$2";; *) mount --bind "$1" "$2";; esac &&
hostname "$3" && shift 3 && exec "$@"'''
STAGE = "zero_optimization.stage="


def can_be_hosts():
    return subprocess.run(["unshare", "--uts", "--mount", "sh", "-c", "hostname other && mount --bind /tmp /mnt"],
                          capture_output=True).returncode == 0


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


@unittest.skipUnless(can_be_hosts(), "a host name and mounts of its own are wanted (root, unshare)")
class Hosts(test_launch.Case):
    begin, port = test_launch.Meeting.begin, test_launch.Meeting.port

    def setUp(self):
        super().setUp()
        self.out, self.model, self.config = self.folder / "run", "convnet", "ds_config"
        self.out.mkdir()
        for host in ["near", "far"]:
            (self.folder / host).mkdir()

    def words(self, *more, steps=4, output=None):
        more = [word for key in more for word in (["--set", key] if "=" in str(key) else [key])]
        return [test_launch.ZTRAIN, "--model", test_launch.SOURCE / f"models/{self.model}.onnx", "--config",
                test_launch.SOURCE / f"configs/{self.config}.json", "--threads", 1, "--steps", steps, "--output", output or self.out, "--set",
                "ztrain.checkpoint.every_steps=2", "--set", "ztrain.checkpoint.every_epochs=0", *more]

    def on(self, hosts, *more, steps=4, codes=None):
        """A run with a rank on each of the hosts; what they said."""
        words = self.words("ztrain.parallel.communicator=tcp", "checkpoint.use_node_local_storage=true", *more, steps=steps)
        ranks = self.begin(*[["unshare", "--uts", "--mount", "sh", "-c", ALONE, "-", self.folder / host, self.out, host, *words]
                             for host in hosts])
        said = [rank.communicate(timeout=60)[1] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], codes or [0] * len(hosts), said)
        return "".join(said)

    def files(self, host, step=2):
        return sorted(file.name for file in (self.folder / host / f"checkpoints/step-{step}").iterdir())

    def read(self, host, name, step=2):
        return (self.folder / host / f"checkpoints/step-{step}" / name).read_bytes()

    def verify(self, folder, code=0):
        done = subprocess.run([test_launch.ZTRAIN, "verify", folder], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout + done.stderr

    def together(self):
        both = self.folder / "both"
        for host in ["near", "far"]:
            shutil.copytree(self.folder / host, both, dirs_exist_ok=True)
        return both

    def test_without_sharding_every_host_has_the_whole(self):
        for hosts in [["near", "far"], ["near", "near", "far", "far"]]:
            whole = self.hash_of(self.on(hosts, "--overwrite"))
            for step in [2, 4]:
                self.assertEqual(self.files("near", step), ["manifest.json", "optimizer.safetensors", "weights.safetensors"])
                for name in self.files("near", step):
                    self.assertEqual(self.read("near", name, step), self.read("far", name, step))
            self.assertEqual((self.folder / "far/checkpoints/latest").read_text(), "step-4\n")
            self.assertFalse((self.folder / "far/model.onnx").exists())
            self.assertIn(": whole: step 4", self.verify(self.folder / "far"))
            self.assertEqual(self.hash_of(self.on(hosts, "--resume", self.out / "checkpoints/step-2")), whole)
        shared = ["--ranks", 4, "ztrain.parallel.communicator=thread"]
        self.assertEqual(self.hash_of(self.run_it(*self.words(*shared, output=self.folder / "alone"))), whole)
        for name in self.files("near"):
            self.assertEqual((self.folder / "alone/checkpoints/step-2" / name).read_bytes(), self.read("far", name))

    def test_slices_are_where_their_ranks_are_and_resume_the_same_bits(self):
        nvme = [STAGE + "3", "zero_optimization.offload_optimizer.device=nvme", "zero_optimization.offload_param.device=nvme",
                f"zero_optimization.offload_optimizer.nvme_path={self.folder}", f"zero_optimization.offload_param.nvme_path={self.folder}"]
        one_bit = ["optimizer.type=OneBitLamb", "optimizer.params.freeze_step=1"]
        for hosts, more in [(["near", "far"], [STAGE + "1"]), (["near", "far"], [STAGE + "2", "ztrain.ema=0.9"]),
                            (["near", "far"], [STAGE + "3"]), (["near", "far"], nvme), (["near", "far"], one_bit),
                            (["near", "near", "far", "far"], [STAGE + "3"]), (["near", "far", "near", "far"], [STAGE + "1"]),
                            (["near", "far"], ["pipeline.stages=2"]),
                            (["near", "near", "far", "far"], ["pipeline.stages=2", STAGE + "1"])]:
            with self.subTest(hosts=hosts, more=more):
                self.check_slices(hosts, more)

    def test_weights_of_two_stages_are_on_both_hosts(self):
        self.model = self.config = "gpt"
        self.check_slices(["near", "near", "far", "far"], ["pipeline.stages=2", STAGE + "1"])

    def check_slices(self, hosts, more):
        whole = self.hash_of(self.on(hosts, "--overwrite", *more))
        for host in ["near", "far"]:
            own = [f"part-{rank}-of-{len(hosts)}.safetensors" for rank, name in enumerate(hosts) if name == host]
            self.assertEqual(self.files(host, 4), ["manifest.json", *own])
        self.assertEqual(self.read("near", "manifest.json"), self.read("far", "manifest.json"))
        self.on(hosts, "--overwrite", *more, steps=2)
        self.assertEqual(self.hash_of(self.on(hosts, "--resume", *more)), whole)
        self.check_together(len(hosts), more, whole)

    def check_together(self, ranks, more, whole):
        """Both folders in one are a checkpoint: as many threads go on from it to the same files as without a stop, and one rank can."""
        both, threads = self.together(), ["--ranks", ranks, "ztrain.parallel.communicator=thread", *more]
        self.assertIn(": whole: step 4", self.verify(both))
        for run in ["alone", "one"]:
            shutil.rmtree(self.folder / run, ignore_errors=True)
        self.run_it(*self.words(*threads, output=self.folder / "alone"))
        self.assertEqual(self.hash_of(self.run_it(*self.words("--resume", both / "checkpoints/step-2", *threads, output=both))), whole)
        for file in (self.folder / "alone/checkpoints/step-4").iterdir():
            self.assertEqual(file.read_bytes(), (both / "checkpoints/step-4" / file.name).read_bytes(), file)
        said = self.run_it(*self.words("--resume", both / "checkpoints/step-2", *[word for word in more if "pipeline" not in word],
                                       output=self.folder / "one"))
        self.assertRegex(said, r"resumed +\S+step-2, step 2")
        self.assertEqual(self.weights_alone(both), self.weights_alone(self.folder / "alone"))
        shutil.rmtree(both)

    STILL = ["optimizer={\"type\": \"SGD\", \"params\": {\"lr\": 0}}", "ztrain.batch_norm=frozen"]

    def weights_alone(self, source):
        """The table and the hash of a new run that takes the weights of the last step by name and shape and leaves them."""
        said = self.run_it(*self.words("--load", source, "--weights-only", "--overwrite", *self.STILL, output=self.folder / "one", steps=1))
        return re.search(r"weights of \S+(: \d+ of \d+ tensors match, (?:.*\n  )*)", said)[1], self.hash_of(said)

    def refuses_weights(self, source, says):
        said = self.run_it(*self.words("--load", source, "--weights-only", output=self.folder / "other"), code=4)
        self.assertRegex(self.one_error(said), says)

    def test_weights_alone_come_from_what_a_host_has(self):
        """Below ZeRO stage 3 a host has all weights, its own and copies."""
        whole = self.hash_of(self.on(["near", "far"], STAGE + "2"))
        for host in ["near", "far"]:
            table, found = self.weights_alone(self.folder / host)
            self.assertRegex(table, r"^: (\d+) of \1 tensors match, ")
            self.assertEqual(found, whole)
        manifest = self.folder / "near/checkpoints/step-4/manifest.json"
        text = re.sub(r'  "weights": \{.*?\},\n', "", manifest.read_text(), flags=re.S)
        rest = text[:text.rindex('  "crc32c"')]
        manifest.write_text(rest + f'  "crc32c": "{crc32c(rest.encode()):08x}"\n}}\n')
        self.refuses_weights(self.folder / "near", r"step-4: a checkpoint in parts of 2 ranks, whose manifest has no shapes")
        part = self.folder / "far/checkpoints/step-4/part-1-of-2.safetensors"
        data = bytearray(part.read_bytes())
        data[-5 if len(data) < 1 << 20 else 1 << 19] ^= 4
        part.write_bytes(data)
        self.refuses_weights(self.folder / "far", r"part-1-of-2.safetensors: bytes \d+\.\.")

    def refused(self, *more, hosts=("near", "far"), says, speaks=1, code=4):
        codes = [code if rank == speaks else 5 for rank in range(len(hosts))]
        said = self.on(hosts, "--resume", *more, codes=codes)
        self.assertRegex(self.one_error(said), says)
        return said

    def test_a_host_that_lacks_what_it_saved_is_named(self):
        sharded, far = STAGE + "3", self.folder / "far/checkpoints"
        self.on(["near", "far"], sharded)
        part = (far / "step-4/part-1-of-2.safetensors")
        # another layout
        lacks = (r"step-4: rank 0 on far lacks \"\S+\" of \w+.safetensors from element 0 on: of the parts of 2 ranks, the folder has "
                 r"1 \(far\) and lacks 0 \(near\)")
        said = self.refused(sharded, hosts=["far", "near"], speaks=0, says=lacks)
        self.assertIn("hint: resume the same ranks on the same hosts, or copy the folders of this checkpoint of all hosts together", said)
        self.refused(STAGE + "1", speaks=0, says=r"rank 0 on near lacks .*the folder has 0 \(near\) and lacks 1 \(far\)")
        self.refused(sharded, hosts=["near", "far", "near", "far"], says=r"rank 1 on far lacks ")
        shutil.copytree(self.folder / "near", self.folder / "alone")
        said = self.run_it(*self.words("--resume", output=self.folder / "alone"), code=4)
        self.assertRegex(self.one_error(said), r"step-4: rank 0 lacks .*has 0 \(near\) and lacks 1 \(far\)")
        self.refuses_weights(self.folder / "alone", r"step-4: lacks \".*\" from element \d+ on: of the parts of 2 ranks, the folder has 0 \(near\) and lacks 1 \(far\)")
        # a part
        said = self.verify(self.folder / "far")
        self.assertRegex(said, r": a part: step 4, .*\nparts of 2 ranks: 1 \(far\)\nelsewhere: 0 \(near\); in one folder together")
        whole = part.read_bytes()
        part.write_bytes(whole[:-4] + bytes(4))
        self.assertIn("part-1-of-2.safetensors: bytes ", self.verify(self.folder / "far", code=4))
        self.refused(sharded, says=r"rank 1: .*part-1-of-2.safetensors: bytes \d+\.\.")
        part.unlink()
        self.assertIn("has none of its 2 parts", self.verify(self.folder / "far", code=4))
        self.refused(sharded, says=r"rank 1 on far lacks .* the folder has none and lacks 0 \(near\), 1 \(far\)")
        # an older step
        shutil.rmtree(part.parent)
        (far / "latest").write_text("step-2\n")
        said = self.refused(sharded, says=r"step-2: rank 1 on far has the checkpoint of step 2, rank 0 on near that of step 4")
        self.assertIn("hint: --resume CHECKPOINT takes one that all hosts have", said)
        self.on(["near", "far"], "--resume", self.out / "checkpoints/step-2", sharded)
        # the folder
        shutil.rmtree(far)
        said = self.refused(sharded, says=r"rank 1 on far: \S+checkpoints/latest: ")
        self.assertIn("hint: with checkpoint.use_node_local_storage every host reads what it saved: ", said)
        self.assertFalse(far.exists())

    def test_another_run_of_the_same_steps_is_no_part_of_this_one(self):
        rate = "optimizer.params.lr="
        self.on(["near", "far"], STAGE + "3", rate + "0.002")
        shutil.copytree(self.folder / "far/checkpoints", self.folder / "earlier")
        self.on(["near", "far"], STAGE + "3", rate + "0.001", "--overwrite")
        shutil.rmtree(self.folder / "far/checkpoints")
        shutil.copytree(self.folder / "earlier", self.folder / "far/checkpoints")
        self.refused(STAGE + "3", says=r"step-4: rank 1 on far has another checkpoint of this step than rank 0 on near")

    def test_folders_of_all_hosts_are_protected(self):
        (self.folder / "far/checkpoints").mkdir()
        said = self.on(["near", "far"], codes=[5, 4])
        self.assertRegex(self.one_error(said), r"far: \S+run: the folder already holds a run \(checkpoints\)")
        words = self.words("ztrain.parallel.communicator=tcp", "checkpoint.use_node_local_storage=true", "--overwrite")
        ranks = self.begin(*[["unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"', host, *words] for host in ["near", "far"]])
        said = "".join(rank.communicate(timeout=60)[1] for rank in ranks)
        self.assertEqual([rank.returncode for rank in ranks], [5, 4], said)
        self.assertIn("a folder that the hosts share needs no such key", said)

    @unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun")
    def test_ranks_of_mpi_do_the_same(self):
        words = self.words("checkpoint.use_node_local_storage=true", STAGE + "3")
        on = [["-n", "1", "unshare", "--uts", "--mount", "sh", "-c", ALONE, "-", self.folder / host, self.out, host] for host in ["near", "far"]]
        said = [self.run_it("mpirun", *on[0], *words, *more, ":", *on[1], *words, *more, env=test_launch.ROOTLY)
                for more in [[], ["--resume", self.out / "checkpoints/step-2"]]]
        self.assertEqual(self.hash_of(said[0]), self.hash_of(said[1]))
        self.assertEqual([self.files(host)[1:] for host in ["near", "far"]], [["part-0-of-2.safetensors"], ["part-1-of-2.safetensors"]])

    def test_old_ones_are_removed_and_the_best_is_kept_on_every_host(self):
        self.on(["near", "far"], STAGE + "3", "ztrain.checkpoint.keep=1", "ztrain.checkpoint.best=loss", steps=26)
        for host in ["near", "far"]:
            folder = self.folder / host / "checkpoints"
            self.assertEqual(sorted(os.listdir(folder)), ["best", "latest", "step-24", "step-26"])
            self.assertEqual((folder / "best").read_text(), "step-24\n")

    def test_a_checkpoint_that_a_host_cannot_write_is_none(self):
        for more in [[], [STAGE + "3"]]:
            said = self.on(["near", "full"], "--overwrite", *more, codes=[5, 4])
            self.assertRegex(self.one_error(said), "No space left on device")
            self.assertNotIn("Checkpoint: step", said)
            self.assertEqual(os.listdir(self.folder / "near/checkpoints"), [])


def main():
    test_launch.ZTRAIN, test_launch.SOURCE = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
    program = unittest.main(argv=[sys.argv[0], *sys.argv[3:]], exit=False, verbosity=2)
    skipped = len(program.result.skipped)
    if not program.result.wasSuccessful():
        return 1
    return 77 if skipped and skipped == program.result.testsRun else 0


if __name__ == "__main__":
    sys.exit(main())
