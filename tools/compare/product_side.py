"""A BLAS library's side of tools/compare_products.

    python product_side.py mkl|onednn|openblas THREADS < requests

A request is a line `M N K FORM SECONDS` as tests/ops/product_rate.c takes it, the answer {"ms": ...}, the median of the calls that fit in
the seconds, after as many as fit in half of them. All matrices are row-major, aligned to 64, in huge pages. MKL is the one inside PyTorch, OpenBLAS the one inside numpy,
and oneDNN the system's, which ztrain is linked with. The first line of output names the library.
"""
import ctypes
import glob
import json
import os
import pathlib
import statistics
import sys
import time

for setting in [name for name in os.environ if name.startswith("OPENBLAS_")]:  # it chooses its kernels itself, when numpy is loaded
    del os.environ[setting]
import numpy as np  # noqa: E402

LONG, FLOAT, POINTER, CHAR = ctypes.c_longlong, ctypes.c_float, ctypes.c_void_p, ctypes.c_char


def mkl():
    import torch
    library = ctypes.CDLL(str(pathlib.Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    version = next(line.strip(" -") for line in torch.__config__.show().splitlines() if "Math Kernel Library" in line)

    def call(a_turned, b_turned, m, n, k, beta, a, b, y):  # Fortran's order: y^T = b^T a^T
        ints = [ctypes.byref(ctypes.c_int(i)) for i in (n, m, k, k if b_turned else n, m if a_turned else k, n)]
        one, to = ctypes.byref(FLOAT(1)), ctypes.byref(FLOAT(beta))
        library.sgemm_(b"T" if b_turned else b"N", b"T" if a_turned else b"N", *ints[:3], one, POINTER(b), ints[3], POINTER(a), ints[4],
                       to, POINTER(y), ints[5])
    return version, call


def onednn():
    library = ctypes.CDLL("libdnnl.so.2")
    library.dnnl_sgemm.argtypes = [CHAR, CHAR, LONG, LONG, LONG, FLOAT, POINTER, LONG, POINTER, LONG, FLOAT, POINTER, LONG]

    def call(a_turned, b_turned, m, n, k, beta, a, b, y):
        status = library.dnnl_sgemm(b"T" if a_turned else b"N", b"T" if b_turned else b"N", m, n, k, 1, a, m if a_turned else k, b,
                                    k if b_turned else n, beta, y, n)
        if status:
            raise SystemExit(f"dnnl_sgemm: status {status}")
    library.dnnl_version.restype = ctypes.POINTER(ctypes.c_int * 3)
    return "oneDNN " + ".".join(map(str, library.dnnl_version().contents)), call


def openblas():
    folder = pathlib.Path(np.__file__).parent.parent / "numpy.libs"
    library = ctypes.CDLL(glob.glob(str(folder / "libscipy_openblas64_*.so"))[0])
    library.scipy_openblas_get_config64_.restype = ctypes.c_char_p
    library.scipy_openblas_set_num_threads64_(ctypes.c_int(int(os.environ["OMP_NUM_THREADS"])))
    library.scipy_cblas_sgemm64_.argtypes = [ctypes.c_int] * 3 + [LONG] * 3 + [FLOAT, POINTER, LONG, POINTER, LONG, FLOAT, POINTER, LONG]
    rows, plain, turned = 101, 111, 112  # CblasRowMajor, CblasNoTrans, CblasTrans

    def call(a_turned, b_turned, m, n, k, beta, a, b, y):
        library.scipy_cblas_sgemm64_(rows, turned if a_turned else plain, turned if b_turned else plain, m, n, k, 1, a,
                                     m if a_turned else k, b, k if b_turned else n, beta, y, n)
    return library.scipy_openblas_get_config64_().decode(), call


def matrix(elements, rng):
    """The matrix and its address: numpy asks for huge pages from 4 MiB on."""
    whole = np.empty(elements + 16, np.float32)
    skip = -whole.ctypes.data % 64 // 4
    part = whole[skip:skip + elements]
    part[:] = rng.random(elements, np.float32) - 0.5
    return part, part.ctypes.data


class Product:
    def __init__(self, call, m, n, k, form):
        rng, turned = np.random.default_rng(0), [letter == "t" for letter in form[:2]]
        (self.a, a), (self.b, b), (self.y, y) = (matrix(elements, rng) for elements in (m * k, k * n, m * n))
        self.a = self.a.reshape(k, m).T if turned[0] else self.a.reshape(m, k)
        self.b = self.b.reshape(n, k).T if turned[1] else self.b.reshape(k, n)
        self.y = self.y.reshape(m, n)
        self.beta = float(form.endswith("+"))
        self.run = lambda: call(*turned, m, n, k, self.beta, a, b, y)

    def is_right(self):
        wanted = self.a @ self.b + self.beta * self.y
        self.run()
        return np.allclose(self.y, wanted, rtol=1e-4, atol=1e-4)


def answer(call, line):
    m, n, k, form, seconds = line.split()
    product = Product(call, int(m), int(n), int(k), form)
    warm = time.perf_counter() + float(seconds) / 2  # threads spread over cores
    product.run()
    while time.perf_counter() < warm:
        product.run()
    times, end = [], time.perf_counter() + float(seconds)
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        product.run()
        times.append(time.perf_counter() - start)
    return {"ms": 1e3 * statistics.median(times)}


def main():
    name, threads = sys.argv[1:]
    os.environ["OMP_NUM_THREADS"] = threads
    version, call = {"mkl": mkl, "onednn": onednn, "openblas": openblas}[name]()
    for form in ("nn", "nt", "tn", "nn+", "nt+", "tn+"):
        if not Product(call, 5, 7, 3, form).is_right():
            raise SystemExit(f"{version}: a wrong {form} product")
    print(json.dumps({"library": version}), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(call, line)), flush=True)


if __name__ == "__main__":
    main()
