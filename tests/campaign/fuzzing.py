"""libFuzzer targets (tests/fuzz) as parts of a campaign: fork mode, which counts crashes and goes on."""
import os
import re
import shutil
import subprocess
import time
import zipfile

from ledger import ROOT, Outcome

SOURCES = ROOT / "tests/fuzz"
PARSERS = ["arrays", "cache", "checkpoint", "cifar10", "config", "events", "external", "frames", "hostfile", "onnx", "options", "report"]
EXECUTING = ["train", "predict", "grad"]
DICTIONARIES = {"config": "config", "options": "config", "onnx": "onnx", "external": "onnx", "train": "onnx", "predict": "onnx",
                "grad": "onnx"}
# What a gradient runs, the forward pass does, and a model with external data is a model. The others have seeds of their own.
SEEDS = {"predict": "grad", "external": "onnx"}
# A small file that takes longer or more than this is a finding. The sanitizers take their share of both.
LIMITS = ["-entropic=0", "-mutate_depth=2", "-timeout=10", "-rss_limit_mb=1024", "-malloc_limit_mb=512"]
FORK = ["-fork=1", "-ignore_crashes=1", "-ignore_ooms=1", "-ignore_timeouts=1"]
FORK_SECONDS = 20  # a shorter slice would be spent on starting the forks; it ends at the first input that breaks the target
EXIT = {77: "crashes", 70: "hangs", 71: "memory"}
PROGRESS = re.compile(r"^#(\d+): cov: .* oom/timeout/crash: (\d+)/(\d+)/(\d+) ", re.M)
REASON = re.compile(r"(runtime error: .*|ERROR: (?:AddressSanitizer|LeakSanitizer|libFuzzer): .*)")
FRAME = re.compile(r"^ +#\d+ 0x\w+ in (\S+) .*/((?:src|graph|ops|parallel)/\S+)", re.M)


def environment(scratch):
    # A second stack for variables stays off: clang's libomp, oneDNN's libgomp and it do not go together.
    return {**os.environ, "TMPDIR": str(scratch), "GOMP_SPINCOUNT": "3000", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "",
            "HOME": str(scratch), "ASAN_OPTIONS": "detect_stack_use_after_return=0:quarantine_size_mb=16:handle_sigfpe=1",
            "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}


def unpack(archive, folder):
    folder.mkdir(parents=True, exist_ok=True)
    if archive.exists() and not any(folder.iterdir()):
        zipfile.ZipFile(archive).extractall(folder)
    return folder


def fuzzer(build, target):
    return build / f"tests/fuzz/fuzz_{target}"


def reasons(log):
    """One line a crash: what the sanitizer says, and where in the program."""
    for piece in log.split("INFO: log from the inner process:")[1:] or [log]:
        reason = REASON.search(piece)
        if reason:
            frame = FRAME.search(piece, reason.start())
            yield reason.group(1) + (f" in {frame.group(1)} {frame.group(2)}" if frame else "")


def run(campaign, target, seconds):
    """A slice of that many seconds: the corpus of the slices before, and the repository's seeds."""
    corpus, found = campaign.folder / "corpus" / target, campaign.folder / "found" / target
    found.mkdir(parents=True, exist_ok=True)
    unpack(SOURCES / f"seeds/{SEEDS.get(target, target)}.zip", corpus)
    for path in (SOURCES / "found" / target).glob("*"):  # near what was wrong once, there may be more
        shutil.copy(path, corpus)
    command = [fuzzer(campaign.fuzz_build, target), *(FORK if seconds >= FORK_SECONDS else ["-print_final_stats=1"]), *LIMITS,
               f"-max_total_time={max(1, int(seconds))}", "-close_fd_mask=3", f"-artifact_prefix={found}/", corpus]
    if target in DICTIONARIES:
        command.insert(-1, f"-dict={SOURCES / DICTIONARIES[target]}.dict")
    scratch = campaign.scratch()
    began = time.monotonic()
    done = subprocess.run(command, env=environment(scratch), cwd=scratch, capture_output=True, text=True, errors="replace",
                          stdin=subprocess.DEVNULL)
    shutil.rmtree(scratch)
    log = done.stderr
    progress, alone = PROGRESS.findall(log), re.search(r"number_of_executed_units: (\d+)", log)
    outcome = Outcome(seconds=time.monotonic() - began)
    if progress:
        outcome.runs, outcome.memory, outcome.hangs, outcome.crashes = map(int, progress[-1])
    elif alone:
        outcome.runs = int(alone.group(1))
        if done.returncode:
            setattr(outcome, EXIT.get(done.returncode, "crashes"), 1)
    else:
        outcome.crashes = 1
        outcome.found.append(f"fuzz_{target} did not start: {log[-400:]}")
    if outcome.bad():
        outcome.found += sorted(set(reasons(log)))
        (campaign.folder / f"found/{target}.log").open("a").write(log)
    return outcome


def keep_seeds(campaign, target):
    """The corpus, reduced to what covers the same, as the repository's seeds; each new one is read by the target once."""
    small = campaign.scratch()
    command = [fuzzer(campaign.fuzz_build, target), "-set_cover_merge=1", *LIMITS, "-close_fd_mask=3", small, campaign.folder / "corpus" / target]
    scratch = campaign.scratch()
    subprocess.run(command, env=environment(scratch), cwd=scratch, capture_output=True, check=True)
    archive = SOURCES / f"seeds/{target}.zip"
    archive.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as to:
        for number, path in enumerate(sorted(small.iterdir())):
            to.writestr(zipfile.ZipInfo(f"{number:04}"), path.read_bytes(), zipfile.ZIP_DEFLATED)
    count = sum(1 for _ in small.iterdir())
    shutil.rmtree(small)
    shutil.rmtree(scratch)
    return count, archive.stat().st_size
