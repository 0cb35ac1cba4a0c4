/* Replaces the other files of this folder in a build without MPI. */
#include "parallel/comm/comm.h"

struct zt_comm *zt_comm_mpi_create(enum zt_comm_mpi_paths paths, struct zt_err *err) {
    (void)paths;
    zt_fail(err, ZT_EXIT_CONFIG, "communicator mpi: this program was built without MPI");
    zt_hint(err,
            "install Open MPI (Debian: libopenmpi-dev openmpi-bin) and build with -Dmpi=enabled, or take "
            "\"communicator\": \"thread\"");
    return NULL;
}

void zt_comm_mpi_finalize(int exit_code) {
    (void)exit_code;
}

const struct zt_mpi_kind *zt_comm_mpi_kind(void) {
    static const struct zt_mpi_kind open_mpi = { .srun = "pmix", .variable = "PMIX_RANK", .pass = "-x" };
    return &open_mpi;
}
