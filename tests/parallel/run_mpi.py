#!/usr/bin/env python3
"""Runs a program on 1 to N ranks of this host under mpirun.

    tests/parallel/run_mpi.py N PROGRAM [ARGUMENT ...]

Exit 77 (skipped) where there is no mpirun."""
import os
import shutil
import subprocess
import sys


def main():
    most, command = int(sys.argv[1]), sys.argv[2:]
    mpirun = shutil.which("mpirun")
    if not mpirun:
        print("SKIPPED: no mpirun on this machine, so nothing was tested (Debian: apt-get install openmpi-bin)")
        return 77
    # more ranks than cores, also as root: what a test in a container is
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none")
    failed = 0
    for ranks in range(1, most + 1):
        code = subprocess.run([mpirun, "-n", str(ranks), *command], env=environment, stdin=subprocess.DEVNULL).returncode
        print(f"{' '.join(command)}: {ranks} ranks, exit {code}", flush=True)
        failed += code != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
