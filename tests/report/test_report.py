#!/usr/bin/env python3
"""ztrain report: the data and structure of its page, of good, broken, long and hostile runs.

    test_report.py ZTRAIN [TEST ...]
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

ZTRAIN = None
SVG = dict(left=62, right=508, top=28, bottom=266)  # the corners of a figure's axes, as src/cli/report_plot.c has them


def step(i, **more):
    return json.dumps({"step": i, "epoch": 0, "loss": 4 - 0.3 * i, "lr": 0.001 * i, "grad_norm": 1.0, "loss_scale": 1, "skipped": False,
                       "samples": 8, "seconds": 0.5, **more})


def evaluation(i, loss, accuracy):
    return json.dumps({"step": i, "epoch": 0, "eval": True, "loss": loss, "accuracy": accuracy})


class Report(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def run_of(self, name, lines, memory=None):
        folder = self.folder / name
        folder.mkdir(parents=True)
        (folder / "metrics.jsonl").write_bytes(lines if isinstance(lines, bytes) else "".join(line + "\n" for line in lines).encode())
        if memory:
            (folder / "memory.jsonl").write_text("".join(json.dumps({"step": s, "memory": m}) + "\n" for s, m in memory))
        return name

    def report(self, *words, code=0, says=()):
        run = subprocess.run([ZTRAIN, "report", *words], cwd=self.folder, capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
        self.assertEqual(run.returncode, code, run.stderr)
        for word in says:
            self.assertIn(word, run.stderr.decode())
        if code:
            return None
        self.text = (self.folder / run.stdout.decode().strip()).read_text()
        return ElementTree.fromstring(self.text.split("\n", 1)[1])  # after the doctype: the page is well-formed XML too

    def cells(self, page):
        return [["".join(cell.itertext()) for cell in row] for row in page.find(".//tbody")]

    def figure(self, page, title):
        [section] = [s for s in page.iter("section") if s.find("h2").text == title]
        return section

    def points(self, page, title, css="line c0"):
        """The points of a line, in shares of the axes."""
        [path] = [p for p in self.figure(page, title).iter("path") if p.get("class") == css]
        pairs = [tuple(map(float, pair.split())) for pair in re.split("[ML]", path.get("d"))[1:]]
        return [((x - SVG["left"]) / (SVG["right"] - SVG["left"]), (SVG["bottom"] - y) / (SVG["bottom"] - SVG["top"])) for x, y in pairs]

    def test_lines_are_the_rows(self):
        self.run_of("a", [*(step(i) for i in range(1, 11)), evaluation(5, 2.0, 0.5), evaluation(10, 1.0, 0.75)], [(1, 1e6), (4, 3e6)])
        page = self.report("a")
        self.assertEqual(self.cells(page), [["a", "10", "0", "0", "1", "1", "0.7500", "16", "5.0", "3.0 MB"]])
        near = lambda found, expected: [self.assertAlmostEqual(f, e, delta=0.002) for pair in zip(found, expected, strict=True) for f, e in zip(*pair)]
        near(self.points(page, "Loss"), [(i / 10, (4 - 0.3 * i) / 4) for i in range(1, 11)])  # axes from 0 to 10 and to 4
        near(self.points(page, "Loss", "line dashed c0"), [(0.5, 0.5), (1, 0.25)])
        near(self.points(page, "Learning rate"), [(i / 10, i / 10) for i in range(1, 11)])
        near(self.points(page, "Accuracy"), [(s / 10, (a - 0.5) / 0.25) for s, a in ((5, 0.5), (10, 0.75))])
        near(self.points(page, "Memory"), [(s / 10, m / 3e6) for s, m in ((1, 1e6), (4, 3e6), (10, 3e6))])
        ticks = [t.text for t in self.figure(page, "Loss").iter("text")]
        self.assertEqual(ticks, ["0", "1", "2", "3", "4", "0", "2", "4", "6", "8", "10", "step", "loss"])

    def test_runs_lie_over_each_other_in_their_colours(self):
        names = [self.run_of(f"run{k}", [step(i, loss=k + i) for i in range(1, 4)]) for k in range(9)]
        page = self.report(*names)
        self.assertEqual([row[0] for row in self.cells(page)], names)
        lines = [p.get("class") for p in self.figure(page, "Loss").iter("path") if p.get("class").startswith("line")]
        self.assertEqual(lines, [f"line c{k % 8}" for k in range(9)])
        self.assertIn("No run has these values.", "".join(self.figure(page, "Accuracy").itertext()))

    def test_a_long_run_becomes_means_in_a_band(self):
        count = 100000
        self.run_of("long", [step(i, loss=1 + i % 2) for i in range(1, count + 1)])
        page = self.report("long")
        line = self.points(page, "Loss")
        self.assertTrue(512 <= len(line) <= 1024)
        self.assertEqual({round(y, 3) for _, y in line[:-1]}, {0.5})  # the mean of 1 and 2, on an axis from 1 to 2
        band = [p for p in self.figure(page, "Loss").iter("path") if p.get("class") == "band c0"]
        self.assertEqual(len(band), 1)
        self.assertLess(len(self.text), 400000)
        self.assertEqual(self.cells(page)[0][1], str(count))

    def test_broken_rows_are_counted_and_left_out(self):
        good = "".join(step(i) + "\n" for i in (1, 2, 3)).encode()
        bad = [b"", b"{", b"\xff\xfe\0\0", b'{"step": 4, "loss": 1', b"[1, 2]", b'{"loss": 3}', b'{"step": -1, "loss": 2}', b"x" * 200000]
        self.run_of("a", good + b"\n".join(bad) + b"\n" + good.split(b"\n")[2] + b"\n" + b'{"step": 5, "ep')
        page = self.report("a", says=[f"ztrain: warning: a: {len(bad) + 1} lines are no rows of a run and left out\n"])
        self.assertEqual(self.cells(page)[0][1], "3")
        self.assertEqual(len(self.points(page, "Loss")), 4)
        [warning] = [p for p in page.iter("p") if p.get("class") == "warning"]
        self.assertIn(f"{len(bad) + 1} lines of a are no rows", warning.text)

    def test_a_run_without_a_row_is_an_error(self):
        self.run_of("a", [step(1)])
        self.run_of("b", b"\xff\xfe\0\0\n{}\n")
        self.report("a", "b", code=4, says=["b/metrics.jsonl: none of its 2 lines is a row of a run"])

    def test_numbers_that_are_none_are_left_out(self):
        self.run_of("a", [step(1), step(2, loss=None), step(3).replace('"loss": 3.1', '"loss": 1e999'), step(4, seconds=0), step(5).replace("2.5", "nan")])
        page = self.report("a")
        self.assertEqual(len(self.points(page, "Loss")), 2)
        self.assertEqual(len(self.points(page, "Throughput")), 4)
        self.assertNotRegex(self.text, r"\b(nan|inf)\b")

    def test_extreme_numbers_stay_on_the_page(self):
        for number, values in enumerate([(0, 0), (5e-324, 1e-320), (-1e308, 1e308), (1e15, 1e15 + 1), (1e-300, 1e300)]):
            self.run_of(f"a{number}", [step(i + 1, loss=v, lr=v) for i, v in enumerate(values)])
            page = self.report(f"a{number}")
            self.assertNotRegex(self.text, r"(?i)[ \"ML](nan|-nan|inf|-inf)")
            for path in page.iter("path"):
                self.assertLess(len(path.get("d")), 200)

    def test_names_are_text(self):
        name = self.run_of('<script>alert("1")</script>&\'\x1b[2J', [step(1)])
        page = self.report(name, "--output", "q")
        self.assertEqual(self.cells(page)[0][0], name.replace("\x1b", "?"))
        self.assertEqual([e.tag for e in page.iter() if e.tag in ("script", "b", "a", "img", "link")], [])
        raw = self.folder.joinpath("raw").as_posix().encode() + b"\xff"
        pathlib.Path(raw.decode(errors="surrogateescape")).mkdir()
        pathlib.Path(raw.decode(errors="surrogateescape"), "metrics.jsonl").write_text(step(1) + "\n")
        run = subprocess.run([ZTRAIN, "report", raw, "--output", self.folder / "p"], capture_output=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("raw\\xff", (self.folder / "p" / "report.html").read_bytes().decode())

    def test_the_page_stands_alone_and_fits_a_phone_and_the_dark(self):
        self.run_of("a", [step(1)])
        page = self.report("a")
        self.assertNotRegex(self.text, r"(?i)(src=|href=|url\(|@import|<script|http)")
        [viewport] = [m for m in page.iter("meta") if m.get("name") == "viewport"]
        self.assertEqual(viewport.get("content"), "width=device-width, initial-scale=1")
        style = page.find(".//style").text
        for rule in ("prefers-color-scheme: dark", "overflow-x: auto", "color-scheme: light dark"):
            self.assertIn(rule, style)
        for svg in page.iter("svg"):
            self.assertIsNone(svg.get("width"))
            self.assertRegex(svg.get("aria-label"), "over the steps$")

    def test_where_the_page_goes(self):
        self.run_of("a", [step(1)])
        self.report("a")
        self.assertTrue((self.folder / "a/report.html").exists())
        self.report("a", "--output", "out/deep")
        self.assertTrue((self.folder / "out/deep/report.html").exists())

    def test_what_is_no_run_is_named(self):
        self.run_of("a", [step(1)])
        (self.folder / "empty").mkdir()
        self.report("a", "empty", "nowhere", code=4, says=["empty: the folder holds no run (metrics.jsonl)", "nowhere: the folder holds no run"])
        self.assertFalse((self.folder / "a/report.html").exists())
        self.report(code=2, says=["RUN is missing"])
        (self.folder / "pipe").mkdir()
        (self.folder / "pipe/metrics.jsonl").mkdir()
        self.report("pipe", code=4, says=["pipe/metrics.jsonl"])

    def test_help_names_it(self):
        for words in (["--help"], ["report", "--help"]):
            run = subprocess.run([ZTRAIN, *words], capture_output=True, text=True)
            self.assertEqual(run.returncode, 0)
            self.assertIn("report", run.stdout)


if __name__ == "__main__":
    ZTRAIN = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
