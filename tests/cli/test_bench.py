#!/usr/bin/env python3
"""ztrain bench on the sample perceptron: the table, the page, what is refused.

    test_bench.py ZTRAIN [TEST ...]
"""
import fcntl
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import time
import unittest
import xml.etree.ElementTree

import test_cli

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL, CONFIG = ROOT / "models" / "mlp.onnx", ROOT / "configs" / "mlp.json"
COLUMNS = ["mode", "ranks", "batch", "micro_batch", "accumulation", "repeats", "steps", "median_ms", "quartile1_ms",
           "quartile3_ms", "forecast_ms", "planned_ms", "samples_per_second", "efficiency", "predicted_bytes", "measured_bytes", "planned_sent_bytes",
           "forecast_bubble", "planned_bubble", "loss", "weights", "reason"]
PARAMETERS = 6570
SAME_BITS = ["ddp", "zero1", "zero2", "zero3"]
THREADS = ["--set", "ztrain.parallel.communicator=thread"]


class Bench(test_cli.Case):
    def bench(self, *arguments, modes="ddp,zero1,zero2,zero3", ranks="1,2", code=0, env=None):
        self.output = self.folder / "out"
        return self.run_ztrain("bench", "--model", MODEL, "--config", CONFIG, "--modes", modes, "--ranks", ranks, "--output",
                               self.output, "--steps=8", "--warmup=2", "--repeats=2", "--threads=1", *THREADS, *arguments,
                               code=code, env=env)

    def rows(self):
        lines = [line.split("\t") for line in (self.output / "results.tsv").read_text().splitlines()]
        self.assertEqual(lines[0], COLUMNS)
        self.assertTrue(all(len(line) == len(COLUMNS) for line in lines))
        return [dict(zip(COLUMNS, line)) for line in lines[1:]]

    def page(self):
        text = (self.output / "index.html").read_text()
        self.assertNotIn("http-equiv", text)
        self.assertNotIn("<script", text)
        return text, xml.etree.ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>\n"))

    def test_the_modes_agree_and_every_column_is_filled(self):
        done = self.bench()
        rows = self.rows()
        self.assertEqual([(row["mode"], row["ranks"]) for row in rows], [(m, r) for r in "12" for m in SAME_BITS])
        for row in rows:
            self.assertEqual(row["reason"], "")
            self.assertEqual((row["batch"], row["repeats"], row["steps"]), ("50", "2", "12"))
            self.assertLessEqual(float(row["quartile1_ms"]), float(row["median_ms"]))
            self.assertLessEqual(float(row["median_ms"]), float(row["quartile3_ms"]))
            self.assertAlmostEqual(float(row["samples_per_second"]) * float(row["median_ms"]), 50e3, delta=5)
            self.assertGreater(int(row["measured_bytes"]), int(row["predicted_bytes"]))
            split = SAME_BITS.index(row["mode"])  # of momentum, gradients and weights so many are cut into the ranks' slices
            self.assertGreater(int(row["predicted_bytes"]), 4 * PARAMETERS * (3 - split + split / int(row["ranks"])))
            self.assertIn(row["weights"], done.stdout)
            self.assertNotEqual(row["forecast_ms"], row["planned_ms"])
            self.assertGreater(float(row["forecast_ms"]), 0)
            self.assertEqual((float(row["forecast_bubble"]), float(row["planned_bubble"])), (0, 0))
        for ranks in "12":
            hashes = {row["weights"] for row in rows if row["ranks"] == ranks}
            self.assertEqual(len(hashes), 1)
            self.assertRegex(hashes.pop(), "^[0-9a-f]{16}$")
        self.assertEqual(float(rows[0]["efficiency"]), 1)
        self.assertEqual({row["planned_sent_bytes"] for row in rows[:4]}, {"0"})
        self.assertEqual(len({row["planned_sent_bytes"] for row in rows[4:7]}), 1)  # ddp = ZeRO 1 = ZeRO 2, and ZeRO 3 more
        self.assertGreaterEqual(int(rows[7]["planned_sent_bytes"]), int(rows[4]["planned_sent_bytes"]))
        self.assertLess(int(rows[5]["predicted_bytes"]), int(rows[4]["predicted_bytes"]))
        self.assertEqual(sorted(p.name for p in self.output.iterdir()), ["index.html", "results.tsv"])

    def test_the_page_is_one_well_formed_file(self):
        self.bench("--set", "ztrain.freeze=[\"*<&\"]", modes="ddp,pp2-1f1b", ranks="2")
        text, root = self.page()
        self.assertEqual(len(root.findall(".//tbody/tr")), 2)
        for row, line in zip(self.rows(), root.findall(".//tbody/tr")):
            self.assertAlmostEqual(float(line[5].text), float(row["forecast_ms"]), delta=0.00051)  # three decimals there, six digits here
            self.assertEqual(float(row["forecast_bubble"]) > 0, row["mode"] == "pp2-1f1b")
        for words in ["DP", "DDP", "ZeRO 1", "ZeRO 2", "ZeRO 3"]:
            self.assertIn(words, [e.text for e in root.iter("dt")])
        self.assertIn("&lt;&amp;", text)
        figures = [e for e in root.iter() if e.tag.endswith("figure")]
        self.assertEqual(len(figures), 3 if shutil.which("gnuplot") else 0)

    def test_the_command_on_the_page_runs_again(self):
        options = ["--set", "ztrain.freeze=[\"it's <&\"]", "--seed=7", "--device=cpu", f"--data=npz:{ROOT}/models/digits/flat_test.npz"]
        self.bench(*options, modes="ddp", ranks="1")
        before, (_, root) = self.rows(), self.page()
        words = shlex.split(root.find(".//pre").text)
        self.assertEqual(words[:2], ["ztrain", "bench"])
        self.run_ztrain(*words[1:], "--overwrite")
        self.assertEqual([row["weights"] for row in self.rows()], [row["weights"] for row in before])
        self.bench("--overwrite", *(o.replace("=7", "=8") for o in options), modes="ddp", ranks="1")
        self.assertNotEqual([row["weights"] for row in self.rows()], [row["weights"] for row in before])

    def test_without_gnuplot_the_page_says_so(self):
        self.bench(modes="ddp", ranks="1", env={"PATH": str(self.folder)})
        text, root = self.page()
        self.assertIn("gnuplot is not installed", text)
        self.assertEqual(list(root.iter("figure")), [])

    def test_a_combination_that_is_refused_is_a_row_with_the_reason(self):
        said = self.bench(modes="ddp,pp2-zb-h1,pp3", ranks="2").stderr
        rows = self.rows()
        self.assertEqual(rows[0]["reason"], "")
        self.assertIn("zb-h1", rows[1]["reason"])
        self.assertEqual(rows[2]["reason"], "pipeline.stages: 3 stages need as many ranks, found 2")
        self.assertIn("pp3, 2 ranks: pipeline.stages: 3 stages", said)
        self.bench("--overwrite", "--set", "ztrain.loss.label_smoothing=2", modes="ddp", ranks="1", code=2)
        self.assertTrue(self.rows()[0]["reason"].startswith("--set ztrain.loss.label_smoothing: "), self.rows())
        self.assertEqual((rows[1]["median_ms"], rows[1]["weights"]), ("", ""))

    def test_a_run_that_fails_is_a_row_with_its_error(self):
        said = self.bench("--set", "optimizer.params.lr=1e30", modes="ddp", ranks="1", code=1).stderr
        self.assertIn("ztrain: error: no combination ran: ", said)
        self.assertIn("not finite", self.rows()[0]["reason"])

    def test_batch_sizes_are_steps_of_so_many_samples(self):
        self.bench("--batch-sizes=20,40", modes="ddp,zero2", ranks="2")
        self.assertEqual([(row["mode"], row["batch"], row["micro_batch"]) for row in self.rows()],
                         [("ddp", "20", "10"), ("zero2", "20", "10"), ("ddp", "40", "20"), ("zero2", "40", "20")])

    def test_progress_is_told(self):
        said = self.bench(modes="ddp", ranks="1").stderr
        self.assertIn("[1/2] ddp", said)
        self.assertIn("[2/2] ddp", said)

    def test_results_are_not_written_over_by_accident(self):
        self.bench(modes="ddp", ranks="1")
        before = (self.output / "results.tsv").read_text()
        self.assertIn("holds results", self.bench(modes="zero1", ranks="1", code=4).stderr)
        self.assertEqual((self.output / "results.tsv").read_text(), before)
        self.bench("--overwrite", modes="zero1", ranks="1")
        self.assertEqual(self.rows()[0]["mode"], "zero1")

    def test_a_folder_that_another_one_writes_in_is_refused(self):
        (self.folder / "out").mkdir()
        with open(self.folder / "out/.ztrain-lock", "w") as held:
            held.write("process 1 on elsewhere since then\n")
            held.flush()
            fcntl.lockf(held, fcntl.LOCK_EX)
            done = self.bench("--overwrite", modes="ddp", ranks="1", code=4)
            self.assertIn("another run writes here: process 1 on elsewhere since then", done.stderr)

    def test_a_signal_leaves_nothing_behind(self):
        self.output = self.folder / "out"
        (self.output / "running.tmp-killed/run").mkdir(parents=True)  # of one that was killed
        words = ["bench", "--model", MODEL, "--config", CONFIG, "--output", self.output, "--modes", "ddp", "--ranks", "1", "--steps", "1000000"]
        with subprocess.Popen([test_cli.ZTRAIN, *map(str, words)], stderr=subprocess.PIPE, text=True) as running:
            while not [*self.output.glob("running.tmp-*/run/metrics.jsonl")] and running.poll() is None:
                time.sleep(0.01)
            running.terminate()
            said = running.communicate(timeout=60)[1]
        self.assertEqual((running.returncode, [*self.output.iterdir()]), (143, []))
        self.assertIn("Stopped by SIGTERM: no results are written", said)

    def test_wrong_lists_are_refused(self):
        for option, value in [("--modes", "ddp,,zero1"), ("--modes", ","), ("--modes", "zero9"), ("--modes", "ddp,ddp"),
                              ("--modes", "ddp,pp2-nosuch"), ("--modes", "pp2-1f1b-zero4"), ("--ranks", "0"), ("--ranks", "1,x"),
                              ("--ranks", "1,"), ("--ranks", "1,2,1"), ("--batch-sizes", "-1"), ("--batch-sizes", "99999999999999999999"),
                              ("--repeats", "0")]:
            words = {"--modes": "ddp", "--ranks": "1", option: value}
            self.refused("bench", "--model", MODEL, "--config", CONFIG, "--output", self.folder / "out",
                         *(word for pair in words.items() for word in pair), says=[option])
            self.assertFalse((self.folder / "out").exists())
        self.refused("bench", says=["--modes", "--ranks", "--output", "--model", "--config"])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    test_cli.ZTRAIN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
