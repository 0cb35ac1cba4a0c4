"""A part of tools/gpu_suite: what it may do, until when, and what it has found; and the report that all parts write together."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "compare"))
from machine import ROOT, Problem as Failed  # noqa: E402, F401

MOST_BYTES = 15_000_000  # of a file of the report
TABLE = ["| row | what | PyTorch | ztrain | ratio | wanted |", "| --- | --- | --- | --- | --- | --- |"]


class Refused(Exception):
    """The machine does not let one of the tools work that may be refused."""


def text_of(output):
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


def end_group(process):
    """Ends the program with all that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    return process.communicate()[0]


class Part:
    """Lines, rows of the table, and the time until which it may go on."""

    def __init__(self, name, suite, end):
        self.name, self.suite, self.end, self.lines, self.rows = name, suite, end, [], []
        self.outcome, self.began, self.seconds = "underway", time.monotonic(), None

    def left(self):
        return self.end - time.monotonic()

    def say(self, line):
        print(f"    {line}", flush=True)
        self.lines.append(line)

    def row(self, name, what, theirs, ours, ratio, wanted):
        """A line of the table, for good or until the same one comes again; None is left empty."""
        self.rows = [row for row in self.rows if row[:2] != [name, what]]
        self.rows.append([name, what, *("" if v is None else f"{v:.4g}" for v in (theirs, ours, ratio)), wanted])
        self.suite.report.write()

    def run(self, *command, env=None, codes=(0,), most=None):
        """What the command prints; Failed with its last lines where it ends otherwise, or too late: `most` seconds, or the part's end."""
        command, seconds = [str(word) for word in command], max(min(self.left(), most or self.left()), 1)
        try:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, cwd=ROOT,
                                       env={**self.suite.full_environment(), **(env or {})}, start_new_session=True)
        except OSError as problem:
            raise Failed(f"cannot run {command[0]}: {problem.strerror}") from None
        try:
            output, late = process.communicate(timeout=seconds)[0], False
        except subprocess.TimeoutExpired as stopped:
            output, late = text_of(stopped.output) + text_of(end_group(process)), True
        self.suite.report.log(f"$ {' '.join(command)}\n{output}\n")
        if late:
            raise Failed(f"not done within {seconds:.0f} s: {' '.join(command)}\n" + "\n".join(output.splitlines()[-8:]))
        if process.returncode not in codes:
            raise Failed(f"{' '.join(command)}\nexits {process.returncode}\n" + "\n".join(output.splitlines()[-25:]))
        return output

    def text(self):
        seconds = time.monotonic() - self.began if self.seconds is None else self.seconds
        text = f"## {self.name}: {self.outcome} ({seconds:.0f} s)\n\n" + "\n".join(self.lines) + "\n\n"
        return text + ("\n".join(TABLE + ["| " + " | ".join(row) + " |" for row in self.rows]) + "\n\n" if self.rows else "")


class Report:
    """The files of --out, written anew after each part and each row, so that what was found stays when time runs out."""

    def __init__(self, folder, head):
        self.folder, self.head, self.parts, self.sizes = folder, head, [], {}
        folder.mkdir(parents=True, exist_ok=True)
        for name in "log.txt", "kernels.txt", "times.txt":
            (folder / name).write_text("")

    def append(self, name, text):
        """Until the file is as large as may come back."""
        data = text.encode()[:max(MOST_BYTES - self.sizes.get(name, 0), 0)]
        self.sizes[name] = self.sizes.get(name, 0) + len(data)
        with open(self.folder / name, "ab") as file:
            file.write(data)

    def log(self, text):
        self.append("log.txt", text)

    def put(self, name, text):
        partial = self.folder / f"part-{name}"
        partial.write_text(text)
        partial.replace(self.folder / name)

    def write(self):
        summary = "".join(f"- {part.name}: {part.outcome}\n" for part in self.parts)
        rows = [row for part in self.parts for row in part.rows]
        self.put("report.md", f"# ztrain on a GPU\n\n{self.head}\n\n{summary}\n" + "".join(part.text() for part in self.parts))
        self.put("results.json", json.dumps({"head": self.head, "rows": rows, "parts": {p.name: p.outcome for p in self.parts}}, indent=1) + "\n")
        self.put("performance-gpu.md", page(self.head, rows))


def page(head, rows):
    return (f"# Speed on a GPU\n\nWritten by `tools/gpu_suite`. {head}\n\nPyTorch is torch.compile, the whole step in one CUDA graph, cudnn.benchmark, "
            "fused Adam, bf16 autocast, channels_last,\nscaled_dot_product_attention (tools/compare/torch_gpu_side.py); its data lie on the "
            "GPU, ztrain's come from the host. Ratios are PyTorch's time over ztrain's.\nEvery run of ztrain is deterministic: it has no other mode "
            "that it could be compared with (G6).\n\n" + "\n".join(TABLE + ["| " + " | ".join(row) + " |" for row in sorted(rows)]) + "\n")
