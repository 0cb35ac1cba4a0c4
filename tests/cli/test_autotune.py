#!/usr/bin/env python3
"""autotuning: what is tried, what is kept, what is written.

    test_autotune.py ZTRAIN [TEST ...]
"""
import json
import os
import shutil
import sys
import unittest

import test_cli
import test_jobs
from onnx_bytes import INT64, npz


class Autotune(test_jobs.Job):
    def setUp(self):
        super().setUp()
        self.write("m.onnx", test_jobs.linear(out="scores"))
        n = 64
        x = [test_jobs.X[i % len(test_jobs.X)] for i in range(2 * n)]
        self.write("d.npz", npz({"x": ([n, 2], x), "target": ([n], [i % 3 for i in range(n)], INT64)}))

    def tune(self, *arguments, code=0, says=(), **keys):
        batch = {k: keys.pop(k) for k in list(keys) if k.startswith(("train", "grad", "zero", "optimizer"))}
        block = {"enabled": True, "tuner_num_trials": 3, "tuner_early_stopping": 0, **keys}
        self.config = {"optimizer": {"type": "SGD", "params": {"lr": 0.5}}, "autotuning": block, **batch,
                       "ztrain": {"data": {"format": "npz", "path": "d.npz"}, "steps": 4, "metrics": []}}
        self.write("c.json", json.dumps(self.config).encode())
        words = ["--model", self.folder / "m.onnx", "--config", self.folder / "c.json", "--output", self.folder / "run",
                 "--threads=1", *arguments]
        return self.refused(*words, code=code, says=says) if code else self.run_ztrain(*words).stderr

    def summary(self):
        rows = (self.folder / "run" / "autotuning_results" / "summary.txt").read_text().splitlines()[1:]
        return {r.split("|")[0].strip(): (float(r.split("|")[1]), r.split("|")[3].strip()) for r in rows}

    def test_the_run_trains_with_what_was_fastest(self):
        says = self.tune(train_micro_batch_size_per_gpu="auto", max_train_micro_batch_size_per_gpu=16)
        rows = self.summary()
        self.assertEqual(set(rows), {"untuned", "z0_gas1_tmbspg16", "z0_gas1_tmbspg4"})
        chosen = next(name for name, (_, result) in rows.items() if result == "chosen")
        self.assertGreaterEqual(rows[chosen][0], rows["untuned"][0])
        resolved = json.loads((self.folder / "run" / "config.resolved.json").read_text())
        micro = 8 if chosen == "untuned" else int(chosen.split("tmbspg")[1])
        self.assertEqual((resolved["train_micro_batch_size_per_gpu"], resolved["autotuning"]["enabled"]), (micro, True))
        self.assertNotIn("autotuning is off", says)
        best = json.loads((self.folder / "run" / "autotuning_results" / "ds_config_optimal.json").read_text())
        self.assertEqual((best["train_batch_size"], best["ztrain"]["steps"], best["autotuning"]["enabled"]), (micro, 4, False))
        for name in rows:
            metrics = json.loads((self.folder / "run" / "autotuning_results" / name / "metrics.json").read_text())
            self.assertEqual(set(metrics), {"throughput", "latency"})
            self.assertTrue((self.folder / "run" / "autotuning_exps" / f"{name}.json").exists())
        self.assertEqual(len((self.folder / "run" / "metrics.jsonl").read_text().splitlines()), 4)
        again = self.run_ztrain("--model", self.folder / "m.onnx", "--config", self.folder / "run" / "config.resolved.json", "--output",
                                self.folder / "again", "--threads=1").stderr
        self.assertEqual(again.splitlines()[-1], says.splitlines()[-1])  # the choice is numbers there, which are not searched
        self.assertEqual([p.name for p in (self.folder / "again" / "autotuning_exps").iterdir()], ["untuned.json"])

    def test_a_given_batch_stays(self):
        self.tune("--ranks", "2", train_batch_size=16, metric="latency", tuner_num_trials=5)
        rows = self.summary()
        names = {f"z{z}_gas{16 // 2 // m}_tmbspg{m}" for z in range(4) for m in (8, 4, 2)} - {"z0_gas1_tmbspg8"}
        self.assertEqual(set(rows), {"untuned"} | names)
        self.assertEqual(sum(result.startswith("not tried: autotuning.") for _, result in rows.values()), len(names) - 5)
        self.assertEqual(json.loads((self.folder / "run" / "config.resolved.json").read_text())["train_batch_size"], 16)

    def test_numbers_of_the_config_are_not_searched(self):
        self.tune("--ranks", "2", train_micro_batch_size_per_gpu=4, gradient_accumulation_steps=2, zero_optimization={"stage": 1})
        self.assertEqual(set(self.summary()), {"untuned"})

    def test_lists_of_the_config_are_tried_in_all_combinations(self):
        says = self.tune(train_micro_batch_size_per_gpu=[4, 8], zero_optimization={"reduce_bucket_size": [1000, 20000]}, tuner_num_trials=9,
                         train_batch_size="auto")
        rows = self.summary()
        self.assertEqual(set(rows), {"untuned", "z0_gas1_tmbspg4_rbs2.0e+04", "z0_gas1_tmbspg8_rbs1000", "z0_gas1_tmbspg8_rbs2.0e+04"})
        self.assertTrue(all(rate > 0 for rate, _ in rows.values()), rows)
        chosen = next(name for name, (_, result) in rows.items() if result == "chosen")
        resolved = json.loads((self.folder / "run" / "config.resolved.json").read_text())
        self.assertEqual((resolved["train_micro_batch_size_per_gpu"], resolved["zero_optimization"]["reduce_bucket_size"]),
                         (8 if "spg8" in chosen else 4, 20000 if "rbs2" in chosen else 1000))
        self.assertNotIn("autotuning tries", says)

    def test_offload_stays_in_every_trial(self):
        nvme = {"device": "nvme", "nvme_path": str(self.folder / "nvme")}
        adam = {"type": "Adam", "params": {"lr": 0.01}}
        for ranks in ([], ["--ranks", "2"]):
            says = self.tune("--overwrite", *ranks, train_batch_size=16, zero_optimization={"stage": "auto", "offload_optimizer": nvme},
                             optimizer=adam, overwrite=True)
            rows = self.summary()
            self.assertEqual({name[:3] for name in rows}, {"unt", "z3_"})
            self.assertIn("left out: ZeRO stages below 3", says)
            for name in rows.keys() - {"untuned"}:
                if rows[name][1].startswith("not tried"):
                    continue
                config = json.loads((self.folder / "run" / "autotuning_exps" / f"{name}.json").read_text())["zero_optimization"]
                self.assertEqual((config["stage"], config["offload_optimizer"]["device"]), (3, "nvme"))
            chosen = next(name for name, (_, result) in rows.items() if result == "chosen")
            self.assertGreaterEqual(rows[chosen][0], rows["untuned"][0])
        self.tune("--overwrite", train_batch_size=16, zero_optimization={"stage": 3, "offload_optimizer": nvme, "offload_param": nvme},
                  optimizer=adam, overwrite=True)
        self.assertEqual({name[:3] for name in self.summary()}, {"unt", "z3_"})
        self.assertEqual(list((self.folder / "nvme").iterdir()), [])

    def test_results_are_not_overwritten_unasked(self):
        self.tune(train_micro_batch_size_per_gpu=4)
        self.tune("--overwrite", train_micro_batch_size_per_gpu=4)
        self.tune(code=4, says=["already holds a run"], train_micro_batch_size_per_gpu=4)
        shutil.rmtree(self.folder / "run" / "checkpoints")
        for path in (self.folder / "run").iterdir():
            if path.is_file():
                path.unlink()
        self.tune(code=4, says=["autotuning_results: the folder already holds the results", "hint: ", "autotuning.overwrite"],
                  train_micro_batch_size_per_gpu=4)
        self.tune(train_micro_batch_size_per_gpu=4, overwrite=True)

    def test_ranks_of_another_launcher_are_refused(self):
        self.write("hosts", b"localhost slots=2\n")
        self.tune("--hostfile", self.folder / "hosts", code=2, says=["autotuning.enabled", "--hostfile", "use --ranks N"],
                  train_micro_batch_size_per_gpu=4)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    test_cli.ZTRAIN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
