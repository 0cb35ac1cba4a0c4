"""Where CUDA's libraries are on this machine: PyPI's wheels in the site-packages of a Python first, which hold one set that fits together,
then the folders of an installed CUDA. The loader's own places remain for the rest, and for the driver."""
import os
import pathlib
import subprocess

WANTED = {"runtime": "libcudart.so.13", "cuBLASLt": "libcublasLt.so.13", "NVRTC": "libnvrtc.so.13", "cuDNN": "libcudnn.so.9",
          "NCCL": "libnccl.so.2"}
DRIVER = "libcuda.so.1"
INSTALLED = ["/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib"]
DRIVERS = ["/usr/local/nvidia/lib64", "/usr/local/nvidia/lib"]
SITE = "import importlib.util as u; s = u.find_spec('nvidia'); print('\\n'.join(s.submodule_search_locations if s else []))"


def wheel_folders(python):
    """The folders lib of the packages below nvidia that this Python sees."""
    done = subprocess.run([python, "-c", SITE], capture_output=True, text=True)
    return [folder for line in done.stdout.splitlines() for folder in sorted(pathlib.Path(line).glob("*/lib"))]


def folders(pythons):
    own = [f"{os.environ[key]}/lib64" for key in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(key)]
    return [folder for python in pythons for folder in wheel_folders(python)] + [pathlib.Path(f) for f in own + INSTALLED]


def find(pythons):
    """({library: path, None: left to the loader}, the folders for LD_LIBRARY_PATH, those of the libraries that were found)."""
    places, taken = folders(pythons), {}
    for name, file in WANTED.items():
        taken[name] = next((folder / file for folder in places if (folder / file).exists()), None)
    taken["driver"] = None if loads(DRIVER) else next((pathlib.Path(f) / DRIVER for f in DRIVERS if pathlib.Path(f, DRIVER).exists()), None)
    return taken, list(dict.fromkeys(str(path.parent) for path in taken.values() if path))


def loads(file):
    """Whether the loader finds it without our help."""
    import ctypes
    try:
        ctypes.CDLL(file)
    except OSError:
        return False
    return True
