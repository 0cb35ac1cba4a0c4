"""A process that takes turns with others."""
import json
import os
import pathlib
import subprocess

from machine import Problem


class Worker:
    """A process that answers a line for each line it is asked."""

    def __init__(self, command, env, log):
        self.command, self.log = command, log
        self.process = subprocess.Popen([str(c) for c in command], env={**os.environ, **env}, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=open(log, "w"), text=True, bufsize=1)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line.startswith("{"):
            self.process.kill()
            tail = "\n".join(pathlib.Path(self.log).read_text(errors="replace").strip().splitlines()[-5:])
            raise Problem(f"{' '.join(map(str, self.command))}\n{line.strip() or 'ended'}\n{tail}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()
