#include "plan/compressed.h"

#include "optim/types/types.h"
#include "parallel/schedule/cost.h"
#include "plan/rank_plan.h"

#include <stdio.h>

enum { MOST_UPDATES = 1 << 24 };

static const struct zt_optimizer *one_bit_optimizer(const struct zt_rank_plan *p) {
    const char *type = p->job->config->optimizer.type;
    const struct zt_optimizer *row = type && p->programs.train.count ? zt_optimizer_find(type) : NULL;
    return row && row->one_bit ? row : NULL;
}

/* The first update without reduced gradients, from 1 on; 0: there is none among the first MOST_UPDATES. */
static int64_t first_compressed(const struct zt_rank_plan *p) {
    const struct zt_optimizer *row = one_bit_optimizer(p);
    int64_t update = 1;
    while (update <= MOST_UPDATES && row->one_bit->sharing(&p->job->config->optimizer, update).reduced)
        update++;
    return update <= MOST_UPDATES ? update : 0;
}

/* Bytes that a rank sends in an update whose gradients are reduced. */
static int64_t reduced_bytes(const struct zt_rank_plan *p) {
    return 2 * zt_cost_sent(p->grid.data, p->tensors.flat->count * (int64_t)sizeof(float));
}

/* The same of a compressed update. */
static int64_t compressed_bytes(const struct zt_rank_plan *p) {
    return p->memory.compressed ? zt_compressed_sent(p->memory.compressed) : 0;
}

static double share(const struct zt_rank_plan *p) {
    return (double)reduced_bytes(p) / (double)compressed_bytes(p);
}

void zt_compressed_print(const struct zt_rank_plan *p, FILE *to) {
    const struct zt_optimizer *row = one_bit_optimizer(p);
    const struct zt_compressed *l = p->memory.compressed;
    if (!row)
        return;
    if (!l) {
        fprintf(to, "\n%s on one rank: nothing is compressed\n", row->type.name);
        return;
    }
    fprintf(to,
            "\n%s: updates before %lld reduce gradients as predicted above, %lld bytes sent per step and rank\n"
            "  later a compressed all-reduce, %lld bytes sent per step and rank (1/%.1f): all_to_all and all_gather of "
            "%lld "
            "bytes\n  to and from each rank: %d scales, the signs of %lld elements with filling, 8 to a byte%s\n",
            row->type.name, (long long)first_compressed(p), (long long)reduced_bytes(p), (long long)compressed_bytes(p),
            share(p), (long long)l->message_bytes, l->part_count, (long long)l->errors[ZT_WORKER],
            row->one_bit->own_states ? "; some updates reduce or send nothing" : "");
    fprintf(to, "  errors of the compression, in the optimizer's bytes: worker %lld elements, server %lld\n",
            (long long)l->errors[ZT_WORKER], (long long)l->errors[ZT_SERVER]);
}

void zt_compressed_describe(const struct zt_rank_plan *p, int64_t steps, struct zt_text *to) {
    const struct zt_optimizer *row = one_bit_optimizer(p);
    if (!row)
        return;
    const int64_t first = first_compressed(p);
    if (!p->memory.compressed)
        zt_text_add(to, "one rank, nothing is compressed");
    else if (first == 0 || first > steps)
        zt_text_add(to, "update %lld is the first to be compressed, the run has %lld: nothing is", (long long)first,
                    (long long)steps);
    else
        zt_text_add(to, "from update %lld on, 1/%.1f of the bytes of reduced gradients", (long long)first, share(p));
}
