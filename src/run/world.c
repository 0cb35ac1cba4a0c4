#include "run/world.h"

#include "parallel/launch/supervisor_channel.h"

#include <stdlib.h>
#include <string.h>

/* Opens MPI. The supervisor sees that the rank is in MPI_Init, and for how long. */
static struct zt_comm *open_mpi(const struct zt_session *s, struct zt_rank_status *status, struct zt_err *err) {
    zt_rank_status_phase(status, ZT_PHASE_MPI);
    zt_supervisor_channel_status(s->options->supervisor, status);
    struct zt_comm *comm = zt_comm_mpi_create(ZT_MPI_WINDOW_AND_MESSAGES, err);
    zt_supervisor_channel_status(s->options->supervisor, NULL);
    zt_rank_status_phase(status, NULL);
    return comm;
}

bool zt_world_open(const struct zt_session *s, int held, struct zt_rank_status *status, struct zt_comm **comms,
                   struct zt_err *err) {
    if (held > 1)
        return zt_comm_thread_create(held, comms, err);
    if (!s->processes)
        return (comms[0] = zt_comm_self_create()) != NULL;
    if (zt_session_meets(s))
        return (comms[0] = zt_comm_tcp_create(&s->meeting, err)) != NULL;
    const struct zt_mpi_kind *mpi = zt_comm_mpi_kind();
    if (strcmp(s->launched.launcher, "mpirun") != 0 && !getenv(mpi->variable)) {
        err->code = ZT_EXIT_CONFIG; /* only rank 0 reports it */
        return s->launched.rank == 0 &&
               (zt_fail(err, ZT_EXIT_CONFIG, "%s started %d ranks without the variables with which MPI connects them",
                        getenv("SLURM_STEP_ID") ? "srun" : s->launched.launcher, s->launched.size) ||
                zt_hint(err, "use srun --mpi=%s if `srun --mpi=list` lists it, otherwise mpirun", mpi->srun));
    }
    comms[0] = open_mpi(s, status, err);
    if (!comms[0] || (comms[0]->rank == s->launched.rank && comms[0]->size == s->launched.size))
        return comms[0] != NULL;
    zt_fail(err, ZT_EXIT_RUN, "%s started rank %d of %d, which MPI knows as rank %d of %d", s->launched.launcher,
            s->launched.rank, s->launched.size, comms[0]->rank, comms[0]->size);
    zt_hint(err, "start with the launcher of the MPI that ztrain was built with; under Slurm, srun --mpi=%s",
            mpi->srun);
    comms[0]->api->abort(comms[0], "not the launcher's world");
    comms[0]->api->destroy(comms[0]);
    return false;
}
