/* N communicators, and a function run on N threads with one of them each. */
#ifndef ZT_TESTS_PARALLEL_COMM_FIXTURE_H
#define ZT_TESTS_PARALLEL_COMM_FIXTURE_H

#include "comm_cases.h"

/* A communicator whose ranks can all live in this process. */
struct comm_maker {
    const char *name;
    int most_ranks;
    bool (*make)(int size, struct zt_comm *comms[], struct zt_err *err);
};

extern const struct comm_maker comm_makers[];
extern const int comm_maker_count;

enum { FIXTURE_RANKS = 16 };

/* A socket, the caller's to close, bound to a port of this host on which nobody listens, 0 where there is none. */
int comm_fixture_bind(int *port);
/* That port alone. */
int comm_fixture_free_port(void);

/* Runs `body` on `size` ranks and destroys their communicators. False: some rank had something to report; `all` says
 * what. A rank that reports aborts its communicator, so that the others end too. */
bool comm_fixture_run(const struct comm_maker *maker, int size, rank_body body, char *all, size_t room);

#endif
