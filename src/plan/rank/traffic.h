/* Timing of the collectives of a rank, in elements, with the values that "auto" became. */
#ifndef ZT_PLAN_RANK_TRAFFIC_H
#define ZT_PLAN_RANK_TRAFFIC_H

#include "parallel/schedule/collectives.h"

struct zt_rank_traffic {
    struct zt_traffic limits;
    int64_t hidden; /* hidden size of the model */
    int64_t largest_bucket;
    int64_t persistent_each;     /* the largest parameter that every rank holds whole, */
    int64_t persistent_together; /* and the most elements of all of these */
};

#endif
