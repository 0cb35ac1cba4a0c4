"""What a campaign has done: a row a slice of work in slices.tsv, their sums as a table, and what was found."""
import collections
import dataclasses
import pathlib
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COUNTS = ("runs", "seconds", "crashes", "hangs", "memory", "lost")
HEAD = ("part", "unit", "goal", *COUNTS, "commit")


@dataclasses.dataclass
class Outcome:
    """Of one slice. crashes: ended by a signal, a sanitizer or a broken promise; hangs: longer than the limit; memory: more than
    the limit; lost: the run was not what it promises to be afterwards."""
    runs: int = 0
    seconds: float = 0
    crashes: int = 0
    hangs: int = 0
    memory: int = 0
    lost: int = 0
    found: list = dataclasses.field(default_factory=list)  # lines

    def bad(self):
        return self.crashes + self.hangs + self.memory + self.lost


def commit():
    def git(*words):
        return subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True).stdout.strip()
    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")


class Ledger:
    def __init__(self, folder):
        self.folder, self.slices, self.commit = folder, folder / "slices.tsv", commit()
        self.done = collections.defaultdict(Outcome)
        self.commits = collections.defaultdict(list)
        folder.mkdir(parents=True, exist_ok=True)
        rows = self.slices.read_text().splitlines()[1:] if self.slices.exists() else []
        for row in rows:
            name, *numbers, at, _ = row.split("\t")
            self.add(name, Outcome(*(float(n) if "." in n else int(n) for n in numbers)), at)
        if not rows:
            self.slices.write_text("\t".join(("part", *COUNTS, "commit", "ended")) + "\n")

    def add(self, name, outcome, at):
        total = self.done[name]
        for count in COUNTS:
            setattr(total, count, getattr(total, count) + getattr(outcome, count))
        if at not in self.commits[name]:
            self.commits[name].append(at)

    def note(self, part, outcome):
        self.add(part.name, outcome, self.commit)
        numbers = [str(round(v, 1) if isinstance(v, float) else v) for v in (getattr(outcome, c) for c in COUNTS)]
        with self.slices.open("a") as to:
            print(part.name, *numbers, self.commit, time.strftime("%Y-%m-%dT%H:%M:%S"), sep="\t", file=to)
        if outcome.found:
            with (self.folder / "found.txt").open("a") as to:
                for line in outcome.found:
                    print(f"{part.name}: {line}", file=to)

    def share(self, part):
        return self.done[part.name].runs / part.goal

    def rows(self, parts):
        for part in parts:
            if self.done[part.name].runs or self.done[part.name].bad():
                done = self.done[part.name]
                yield [part.name, part.unit, str(part.goal), *(str(round(getattr(done, c))) for c in COUNTS),
                       ",".join(self.commits[part.name])]

    def table(self, parts):
        """Prints it, and keeps it as table.tsv and, for the docs, as table.md."""
        rows = list(self.rows(parts))
        (self.folder / "table.tsv").write_text("".join("\t".join(r) + "\n" for r in [HEAD, *rows]))
        page = ["| " + " | ".join(HEAD) + " |", "| --- | --- |" + " ---: |" * 7 + " --- |"]
        page += ["| " + " | ".join([f"{int(c):,}" if c.isdigit() else c for c in r[:-1]] + r[-1:]) + " |" for r in rows]
        (self.folder / "table.md").write_text("\n".join(page) + "\n")
        widths = [max(len(r[i]) for r in [HEAD, *rows]) for i in range(len(HEAD))]
        for row in [HEAD, *rows]:
            print("  ".join(c.ljust(w) if i < 2 or i == len(HEAD) - 1 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))).rstrip())
