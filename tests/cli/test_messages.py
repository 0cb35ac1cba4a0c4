#!/usr/bin/env python3
"""How messages look, whatever names hold, and on a terminal.

    test_messages.py ZTRAIN [TEST ...]
"""
import errno
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import unittest

import test_cli
import test_jobs
from onnx_bytes import FLOAT, model, node, tensor, value_info

# What a terminal obeys or reorders, and bytes that are no UTF-8
HOSTILE = ["\x1b[31m".encode(), b"\n", b"\x7f", "\u0080".encode(), "\u009b2J".encode(), "\u061c".encode(), "\u200e".encode(),
           "\u200f".encode(), "\u202e".encode(), "\u2066".encode(), "\u2069".encode(), b"\xff", b"\xc3"]
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def model_with(name, op="Nonsense"):
    return model([node("MatMul", ["x", name], ["h"], b"product" + name), node(op, ["h"], ["y"], b"last" + name)],
                 [value_info("x", ["n", 2])], [value_info("y", ["n", 3])], [tensor([2, 3], test_jobs.W, FLOAT, name)])


def screen(data, columns):
    """The lines of a terminal that was sent `data`."""
    lines, row, column = [[]], 0, 0
    text = data.decode()
    i = 0
    while i < len(text):
        c = text[i]
        i += 1
        if text.startswith("[K", i) and c == "\x1b":
            del lines[row][column:]
            i += 2
        elif c == "\r":
            column = 0
        elif c == "\n":
            row += 1
            if row == len(lines):
                lines.append([])
        else:
            if column == columns:
                row, column = row + 1, 0
                if row == len(lines):
                    lines.append([])
            lines[row][column:column + 1] = [c]
            column += 1
    return ["".join(line).rstrip() for line in lines]


def read_terminal(master):
    """What has come, which may be a part of what was written; b"" where no one can write any more."""
    try:
        return os.read(master, 1 << 16)
    except OSError as failure:
        if failure.errno != errno.EIO:
            raise
        return b""


class Names(test_jobs.Job):
    def sane(self, *arguments, code=0):
        done = subprocess.run([test_cli.ZTRAIN, *map(str, arguments)], capture_output=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stderr)
        for text in [done.stdout, done.stderr]:
            self.assertIsNone(OBEYED.search(text.decode()), text)
        return done

    def test_errors_show_control_characters_escaped(self):
        for hostile in HOSTILE:
            self.write("m.onnx", model_with(b"a" + hostile + b"z"))
            self.write("i.npz", b"")
            self.sane("predict", "--model", self.folder / "m.onnx", "--inputs", self.folder / "i.npz", "--output",
                      self.folder / "o", code=3)
            inspected = self.sane("inspect", "--model", self.folder / "m.onnx").stdout.decode()
            self.assertRegex(inspected, r"\n  a\\(x..|u....).*z +float\[2, 3\]")

    def test_a_run_and_its_plan_show_them_escaped_and_json_stays_json(self):
        for hostile in HOSTILE:
            self.write("m.onnx", model_with(b"a" + hostile + b"z", "Relu"))
            self.write("c.json", json.dumps({
                "train_batch_size": 6, "optimizer": {"type": "SGD", "params": {"lr": 0.5}},
                "ztrain": {"data": {"format": "npz", "path": "d.npz"}, "steps": 2, "loss": {"type": "cross_entropy"},
                           "tie": [], "metrics": []}}).encode())
            words = ["--model", self.folder / "m.onnx", "--config", self.folder / "c.json"]
            self.sane("plan", *words)
            run = self.sane(*words, "--output", self.folder / "run", "--overwrite", "--json", "--verbose")
            for line in run.stderr.decode().splitlines():
                self.assertIsInstance(json.loads(line), dict, line)
            self.assertIsNone(OBEYED.search((self.folder / "run" / "plan.txt").read_bytes().decode()))
            checkpoint = (self.folder / "run" / "checkpoints").rename(self.folder / ("c" + os.fsdecode(hostile)))
            self.sane("verify", checkpoint)


class Terminal(test_jobs.Job):
    def show(self, *words, code, **env):
        """What a terminal is sent."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        done = subprocess.run([test_cli.ZTRAIN, *map(str, words)], stdout=slave, stderr=slave, timeout=60, env={**os.environ, **env})
        os.close(slave)
        data = b"".join(iter(lambda: read_terminal(master), b""))
        os.close(master)
        self.assertEqual(done.returncode, code, data)
        return data

    def test_an_error_begins_a_line_of_its_own(self):
        self.assertTrue(self.show("--nonsense", code=2).startswith(b"ztrain: error: unknown option --nonsense"))
        self.train()
        data = self.show("--model", self.folder / "m.onnx", "--config", self.folder / "c.json", "--output", self.folder / "run", "--overwrite",
                         "--set", "optimizer.params.weight_decay=1e38", code=1, TERM="xterm")
        self.assertIn(b"\x1b[K", data)
        self.assertIn(b"\nztrain: error: ", data)
        self.assertTrue(any(line.startswith("Memory after step 1") for line in screen(data, 80)), data)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    test_cli.ZTRAIN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
