"""What the tools/compare_* share: the machine, whether it is ours, and PyTorch at its best on it."""
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PACKAGES = ["torch==2.15.0", "torchvision==0.29.2", "numpy", "onnx==1.23.2"]
# Without it glibc returns PyTorch's large buffers to the system in every step and faults them in again.
MALLOC = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=4000000000:glibc.malloc.trim_threshold=8000000000"


class Problem(Exception):
    pass


def first_line(path, key):
    try:
        lines = pathlib.Path(path).read_text().splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), "")


def machine():
    model = first_line("/proc/cpuinfo", "model name") or "unknown CPU"
    flags = set(first_line("/proc/cpuinfo", "flags").split())
    wide = [f for f in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if f in flags]
    return f"{model}, {len(os.sched_getaffinity(0))} cores, {' '.join(wide) or 'no AVX2'}"


def microseconds_stalled():
    """Time during which some task waited for a CPU, None where the kernel does not say."""
    try:
        words = pathlib.Path("/proc/pressure/cpu").read_text().split()
    except OSError:
        return None
    return int(words[4].removeprefix("total="))


def ticks_stolen():
    try:
        return int(pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[8])
    except (OSError, IndexError):
        return 0


def calibration_seconds():
    start, total = time.perf_counter(), 0
    for i in range(600_000):
        total += i & 7
    return time.perf_counter() - start


class Watch:
    """Says whether the machine was ours between start() and disturbed()."""

    def __init__(self):
        self.quiet = min(calibration_seconds() for _ in range(7))

    def start(self):
        self.began, self.stalled, self.stolen = time.perf_counter(), microseconds_stalled(), ticks_stolen()
        self.slow = self.calibrate()

    def calibrate(self):
        now = min(calibration_seconds() for _ in range(2))
        self.quiet = min(self.quiet, now)
        return now / self.quiet - 1

    def disturbed(self):
        """A reason, or None. The sides' own threads stall a little: 8 % leaves room for that."""
        took = time.perf_counter() - self.began
        slow = max(self.slow, self.calibrate())
        stalled = 0 if self.stalled is None else (microseconds_stalled() - self.stalled) / 1e6 / took
        stolen = (ticks_stolen() - self.stolen) / os.sysconf("SC_CLK_TCK") / took
        for share, limit, what in ((stalled, 0.08, "tasks waited for a CPU {:.0%} of the time"),
                                   (stolen, 0.03, "the hypervisor took {:.0%} of a CPU"),
                                   (slow, 0.20, "the calibration loop ran {:.0%} longer than at its best")):
            if share > limit:
                return what.format(share)
        return None


def undisturbed(wanted, once):
    """(results, how many of them are of a disturbed machine, how many such calls there were) of as many undisturbed calls of once() as
    are wanted, which gives (result, why the machine was not ours, or None); after three times as many calls all disturbed ones count as
    well: of a machine that is never ours, a median of many says more than one of few."""
    good, bad = [], []
    while len(good) < wanted and len(good) + len(bad) < 3 * wanted:
        result, reason = once()
        (bad if reason else good).append(result)
    counted = bad if len(good) < wanted else []
    return good + counted, len(counted), len(bad)


# ------------------------------------------------------------------ PyTorch

def torch_settings(folder):
    """{label: environment} that compete: tuned malloc, and on AMD also MKL's AVX-512 path (or AVX2's where there is no
    AVX-512), which MKL keeps for Intel's CPUs unless a library that it asks says otherwise."""
    settings = {"": {"GLIBC_TUNABLES": MALLOC}}
    if first_line("/proc/cpuinfo", "vendor_id") == "AuthenticAMD":
        source, library = folder / "mkl512.c", folder / "mkl512.so"
        source.write_text("int mkl_serv_intel_cpu_true(void) { return 1; }\n")
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
        settings[" MKL512"] = {"GLIBC_TUNABLES": MALLOC, "LD_PRELOAD": str(library)}
    else:
        print("MKL512: not needed, this is not an AMD CPU")
    return settings


def make_python(folder, packages):
    """The interpreter of the virtual environment ROOT/folder, which is made with these packages, in order, when it is not there."""
    python, ready = ROOT / folder / "bin" / "python", ROOT / folder / ".ready"
    if not ready.exists():
        print(f"making {ROOT / folder} with {' '.join(packages)} (about 5 GB)", flush=True)
        subprocess.run([sys.executable, "-m", "venv", ROOT / folder], check=True)
        for package in packages:  # one by one: what builds from source may need what stands before it
            subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-build-isolation", package], check=True)
        ready.write_text(" ".join(packages))
    return str(python)


def torch_python(given):
    """The interpreter that has PyTorch; makes .venv-torch when there is none."""
    return given or make_python(".venv-torch", PACKAGES)
