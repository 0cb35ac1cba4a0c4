#!/usr/bin/env python3
"""The pages that `ztrain help` prints for packages: manual page, completions of bash, zsh and fish.

    test_help_pages.py ZTRAIN [TEST ...]

Every command and option of the help texts must be in them. Tools that are not installed are left out: groff, mandoc, zsh, fish.
"""
import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ZTRAIN = None


def run(*arguments, **more):
    return subprocess.run([*map(str, arguments)], capture_output=True, text=True, timeout=60, **more)


def page(*arguments):
    done = run(ZTRAIN, "help", *arguments)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


def commands():
    """{command: its options} from the help texts."""
    names = re.findall(r"^  (\w[\w-]*) ", page().split("Commands:")[1].split("\n\n")[0], re.M)
    return {name: re.findall(r"^  --([\w-]+)", run(ZTRAIN, name, "--help").stdout.split("Options:")[1], re.M) for name in names}


class Case(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = pathlib.Path(self.scratch.name)

    def write(self, name, *arguments):
        path = self.folder / name
        path.write_text(page(*arguments))
        return path


class Help(Case):
    def test_help_of_a_command_is_that_of_its_option(self):
        for name in commands():
            self.assertEqual(page(name), run(ZTRAIN, name, "--help").stdout)
        self.assertEqual(page(), run(ZTRAIN, "--help").stdout)

    def test_wrong_arguments_are_refused(self):
        for arguments, says in [(["nonesuch"], "unknown command nonesuch"), (["--completions", "tcsh"], "unknown shell \"tcsh\""),
                                (["--man", "--keys"], "exclude each other"), (["plan", "ops"], "unexpected argument")]:
            done = run(ZTRAIN, "help", *arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn(says, done.stderr)


class ManualPage(Case):
    def test_every_command_and_option_is_there(self):
        text = page("--man").replace("\\-", "-")
        for command, options in commands().items():
            part = re.search(rf"^\.SS ztrain {command}\n(.*?)^\.S", text, re.M | re.S)
            self.assertTrue(part, command)
            for option in options:
                self.assertIn(f".B --{option}", part[1].replace(",\n", "\n").split("Options:")[1])
                self.assertRegex(text.split(".SH OPTIONS")[1], rf"(?m)^\.B --{option}( |$)")

    def test_the_date_is_that_of_the_source(self):
        text = run(ZTRAIN, "help", "--man", env={**os.environ, "SOURCE_DATE_EPOCH": "86400"}).stdout
        self.assertIn(".TH ZTRAIN 1 1970-01-02 ", text)

    @unittest.skipUnless(shutil.which("groff"), "groff is not installed")
    def test_groff_has_no_warning(self):
        done = run("groff", "-man", "-ww", "-z", "-Tutf8", self.write("ztrain.1", "--man"))
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    @unittest.skipUnless(shutil.which("groff"), "groff is not installed")
    def test_a_wrong_page_has_a_warning(self):
        path = self.write("ztrain.1", "--man")
        path.write_text(path.read_text() + ".NONESUCH\n")
        self.assertIn("NONESUCH", run("groff", "-man", "-ww", "-z", "-Tutf8", path).stderr)

    @unittest.skipUnless(shutil.which("groff"), "groff is not installed")
    def test_text_appears_as_it_is(self):
        done = run("groff", "-man", "-Tascii", "-P-cbou", "-rLL=2000n", self.write("ztrain.1", "--man"))
        words = " ".join(done.stdout.split())
        for line in ["ztrain predict --model M.onnx --inputs SRC --output DIR [OPTIONS]", "names of the graph's inputs",
                     "--include HOST[:SLOT,...]@... use only these hosts"]:
            self.assertIn(line, words)

    @unittest.skipUnless(shutil.which("mandoc"), "mandoc is not installed")
    def test_mandoc_has_no_warning(self):
        done = run("mandoc", "-T", "lint", self.write("ztrain.1", "--man"))
        self.assertEqual(done.stdout + done.stderr, "")


class Bash(Case):
    def complete(self, *words):
        """The completions of the last word. '=' is a word of its own, as bash splits the line."""
        script = self.write("ztrain", "--completions", "bash")
        quoted = " ".join(f"'{word}'" for word in words)
        done = run("bash", "--norc", "-c", f"""
            set -e
            source {script}
            compopt() {{ :; }}  # works in a completion alone
            COMP_WORDS=({quoted}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
            COMP_LINE="${{COMP_WORDS[*]}}" COMP_POINT=${{#COMP_LINE}}
            _ztrain ztrain "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD - 1]}}" || true
            printf '%s\\n' "${{COMPREPLY[@]}}" """, cwd=self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_the_function_is_registered(self):
        done = run("bash", "--norc", "-c", f"source {self.write('ztrain', '--completions', 'bash')} && complete -p ztrain")
        self.assertEqual((done.stdout, done.stderr), ("complete -F _ztrain ztrain\n", ""))

    def test_commands(self):
        self.assertEqual(self.complete("ztrain", ""), list(commands()))
        self.assertEqual(self.complete("ztrain", "ev"), ["evaluate"])
        self.assertEqual(self.complete("ztrain", "help", "pr"), ["predict"])

    def test_every_option(self):
        for command, options in commands().items():
            self.assertEqual(self.complete("ztrain", command, "--"), [f"--{option}" for option in options])
        self.assertEqual(self.complete("ztrain", "--"), ["--version"] + [f"--{option}" for option in commands()["train"]])
        self.assertEqual(self.complete("ztrain", "--model", "m.onnx", "--conf"), ["--config"])

    def test_values(self):
        self.assertEqual(self.complete("ztrain", "plan", "--device", ""), ["auto", "cpu", "cuda"])
        self.assertEqual(self.complete("ztrain", "--device", "=", "cu"), ["cuda"])
        self.assertEqual(self.complete("ztrain", "--device", "="), ["auto", "cpu", "cuda"])
        self.assertEqual(self.complete("ztrain", "help", "--completions", ""), ["bash", "zsh", "fish"])
        self.assertEqual(self.complete("ztrain", "--steps", ""), [])
        self.assertEqual(self.complete("ztrain", "--resume", "--ov"), ["--overwrite"])

    def test_files_and_folders(self):
        (self.folder / "a b").mkdir()
        (self.folder / "model.onnx").touch()
        self.assertEqual(self.complete("ztrain", "--model", "mod"), ["model.onnx"])
        self.assertEqual(self.complete("ztrain", "--load", "mod"), ["model.onnx"])
        self.assertEqual(self.complete("ztrain", "--load", "a"), ["a", "b"])
        self.assertEqual(self.complete("ztrain", "--output", ""), ["a", "b"])
        self.assertEqual(self.complete("ztrain", "verify", "a"), ["a", "b"])
        self.assertEqual(self.complete("ztrain", "diff", "mod"), [])

    def test_a_real_line_is_completed(self):
        """Readline itself, in an interactive shell on a terminal: a tab completes the option."""
        script = self.write("ztrain", "--completions", "bash")
        terminal, inside = pty.openpty()
        shell = subprocess.Popen(["bash", "--norc", "--noprofile", "-i"], stdin=inside, stdout=inside, stderr=inside, start_new_session=True,
                                 env={**os.environ, "PS1": "", "TERM": "dumb", "INPUTRC": "/dev/null"})
        os.close(inside)
        os.write(terminal, f"source {script}; ztrain() {{ echo \"got:$*\"; }}\nztrain plan --thr\t3; exit\n".encode())
        said = b""
        try:
            while part := os.read(terminal, 4096):
                said += part
        except OSError:  # the shell has closed the terminal
            pass
        self.assertEqual(shell.wait(60), 0)
        os.close(terminal)
        self.assertIn(b"got:plan --threads 3", said)


class OtherShells(Case):
    def test_every_option(self):
        for shell, mark in [("zsh", r"'\*?--{}[=\[]"), ("fish", r" -l {} ")]:
            text = page("--completions", shell)
            for command, options in commands().items():
                self.assertIn(command, text)
                for option in options:
                    self.assertRegex(text, mark.format(option))

    def test_words_are_offered_for_choices_alone(self):
        """What stands for a file in help is no word to complete."""
        for shell, words in [("bash", r'-W "([^"$]*)"'), ("zsh", r":\(([^)]*)\)'"), ("fish", r"-f -a '([^'(]*)'")]:
            offered = " ".join(re.findall(words, page("--completions", shell))).split()
            self.assertIn("cuda", offered)
            self.assertEqual([word for word in offered if word.isupper()], [], shell)

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh_reads_it(self):
        done = run("zsh", "-f", "-n", self.write("_ztrain", "--completions", "zsh"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish_completes(self):
        script = self.write("ztrain.fish", "--completions", "fish")
        for line, wanted in [("ztrain ev", ["evaluate"]), ("ztrain plan --thr", ["--threads"]), ("ztrain --device cu", ["cuda"]),
                             ("ztrain inspect --steps", [])]:
            done = run("fish", "--no-config", "-c", f"source {script}; complete --do-complete '{line}'", env={**os.environ, "HOME": str(self.folder)})
            self.assertEqual([one.split("\t")[0] for one in done.stdout.splitlines()], wanted, done.stderr)


class Installed(Case):
    """What the build beside the program installs."""

    PAGES = {"ztrain.1": (["--man"], "share/man/man1/ztrain.1"),
             "ztrain": (["--completions", "bash"], "share/bash-completion/completions/ztrain"),
             "_ztrain": (["--completions", "zsh"], "share/zsh/site-functions/_ztrain"),
             "ztrain.fish": (["--completions", "fish"], "share/fish/vendor_completions.d/ztrain.fish")}

    def test_the_build_writes_what_the_program_prints(self):
        for name, (arguments, _) in self.PAGES.items():
            built = (pathlib.Path(ZTRAIN).parent / "docs" / name).read_text()
            self.assertEqual([line for line in built.splitlines() if not line.startswith(".TH")],
                             [line for line in page(*arguments).splitlines() if not line.startswith(".TH")])

    @unittest.skipUnless(shutil.which("meson"), "meson is not installed")
    def test_they_are_installed_where_shells_look(self):
        build = pathlib.Path(ZTRAIN).parent
        installed = json.loads(run("meson", "introspect", "--installed", build).stdout)
        for name, (_, place) in self.PAGES.items():
            self.assertTrue(installed[str(build / "docs" / name)].endswith("/" + place), place)


if __name__ == "__main__":
    ZTRAIN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
