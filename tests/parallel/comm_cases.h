/* Tests that every communicator must pass. A case is a function that every rank runs
 * on its own communicator and that shares no memory with the other ranks. Ranks as threads run it through
 * comm_fixture.h; a launcher's ranks call the bodies on their own communicator. */
#ifndef ZT_TESTS_PARALLEL_COMM_CASES_H
#define ZT_TESTS_PARALLEL_COMM_CASES_H

#include "parallel/comm/comm.h"

/* The error that a rank found; "": none. */
struct rank_report {
    char text[600];
};

typedef void (*rank_body)(struct zt_comm *c, struct rank_report *report);

struct comm_case {
    const char *name; /* a sentence */
    rank_body body;
    int fewest_ranks;
    bool aborts; /* the body leaves its communicator aborted */
};

extern const struct comm_case comm_cases[];
extern const int comm_case_count;

/* Ends the body with a report where `ok` is false. */
#define EXPECT(ok, ...)                                                                                                \
    do {                                                                                                               \
        if (!(ok)) {                                                                                                   \
            snprintf(report->text, sizeof report->text, __VA_ARGS__);                                                  \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)

#endif
