/* ztrain diff: finds the first step, node and tensor in which two runs differ, from their hashes (ztrain.hashes). Runs
 * of different layouts are compared tensor by tensor if both have a tensor of that name for the same samples. The exit
 * status is 0 if all compared tensors are equal, otherwise 1. */
#include "cli/commands.h"

#include "run/hashes/hashes.h"
#include "session/options.h"

#include "base/file.h"
#include "base/map.h"
#include "base/vec.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct run {
    const char *folder;
    struct zt_hash_file *ranks;
    int count;
    uint32_t first, last; /* all ranks have hashes of these steps; a run that resumed has none of earlier ones */
};

/* A hash with the fields that are compared or printed. */
struct entry {
    uint32_t step, data_rank, micro_batch;
    int id;        /* number of its node and tensor, equal in both runs */
    int64_t order; /* position in the rank's step */
    const struct zt_hash_file *from;
    const struct zt_hash_record *record;
};
typedef ZT_VEC(struct entry) entries;

static const struct zt_hash_tensor *tensor_of(const struct entry *e) {
    return &e->from->tensors[e->record->tensor];
}

/* ---- reading ---- */

static bool read_rank(struct run *run, int rank, struct zt_err *err) {
    char *path = zt_hash_path(run->folder, rank);
    struct zt_hash_file *f = &run->ranks[rank];
    bool ok = zt_hash_file_read(f, path, err);
    if (ok && (f->place.rank != (uint32_t)rank || (rank && f->place.ranks != run->ranks[0].place.ranks) ||
               (rank && f->place.stages != run->ranks[0].place.stages) ||
               (rank && f->place.rows != run->ranks[0].place.rows)))
        ok = zt_fail(err, ZT_EXIT_DATA, "%s: not from rank %d of the run of hashes-0.bin", path, rank);
    free(path);
    return ok;
}

static bool read_run(struct run *run, const char *folder, struct zt_err *err) {
    char *first = zt_hash_path(folder, 0);
    bool there = zt_file_exists(first);
    free(first);
    *run = (struct run){ .folder = folder, .first = 1, .last = UINT32_MAX };
    if (!there) {
        zt_fail(err, ZT_EXIT_DATA, "%s: no hashes of a run (hashes-0.bin)", folder);
        return zt_hint(err, "train with --set ztrain.hashes=N to write the hashes of the first N steps");
    }
    run->ranks = zt_calloc(65536, sizeof *run->ranks); /* the largest number of ranks in a file */
    for (int rank = 0; rank == 0 || rank < (int)run->ranks[0].place.ranks; rank++) {
        run->count = rank + 1;
        if (!read_rank(run, rank, err))
            return false;
        const struct zt_hash_file *f = &run->ranks[rank];
        const uint32_t begin = f->record_count ? f->records[0].step : 1;
        const uint32_t end = f->record_count ? f->records[f->record_count - 1].step : 0;
        run->first = begin > run->first ? begin : run->first;
        run->last = end < run->last ? end : run->last;
    }
    return true;
}

static void finish_run(struct run *run) {
    for (int i = 0; i < run->count; i++)
        zt_hash_file_finish(&run->ranks[i]);
    free(run->ranks);
}

/* ---- matching ---- */

/* The steps that are compared; none if first > last. */
struct steps {
    uint32_t first, last;
};

static struct steps common(const struct run *runs) {
    return (struct steps){ runs[0].first > runs[1].first ? runs[0].first : runs[1].first,
                           runs[0].last < runs[1].last ? runs[0].last : runs[1].last };
}

static void add_entries(const struct run *run, const struct steps *steps, struct zt_map *ids, struct zt_arena *arena,
                        entries *to) {
    for (int rank = 0; rank < run->count; rank++) {
        const struct zt_hash_file *f = &run->ranks[rank];
        int *id = zt_calloc((size_t)f->tensor_count + 1, sizeof *id);
        for (uint32_t t = 0; t < f->tensor_count; t++) {
            const struct zt_hash_tensor *tensor = &f->tensors[t];
            const char *key =
                zt_arena_printf(arena, "%c\n%s\n%s", tensor->backward ? 'b' : 'f', tensor->node, tensor->name);
            id[t] = zt_map_get(ids, key, (int)ids->count);
            zt_map_put(ids, key, id[t]);
        }
        int64_t order = 0;
        for (int64_t i = 0; i < f->record_count && f->records[i].step <= steps->last; i++) {
            const struct zt_hash_record *r = &f->records[i];
            order = i && f->records[i - 1].step == r->step ? order + 1 : 0;
            if (r->step < steps->first)
                continue;
            zt_vec_push(to, (struct entry){ .step = r->step,
                                            .data_rank = f->place.data_rank,
                                            .micro_batch = r->micro_batch,
                                            .id = id[r->tensor],
                                            .order = order,
                                            .from = f,
                                            .record = r });
        }
        free(id);
    }
}

static int by_key(const void *a, const void *b) {
    const struct entry *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->data_rank != y->data_rank)
        return x->data_rank < y->data_rank ? -1 : 1;
    if (x->micro_batch != y->micro_batch)
        return x->micro_batch < y->micro_batch ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Orders hashes in time: by micro-batch, forward stages upwards, backward stages downwards, within a stage in the
 * rank's order; of two ranks at the same position, the lower one first. The order of a rank alone is not enough,
 * because a stage may run few nodes before it forwards the results of many nodes of another stage. */
static int by_place(const void *a, const void *b) {
    const struct entry *x = a, *y = b;
    uint32_t backward = tensor_of(x)->backward;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->micro_batch != y->micro_batch)
        return x->micro_batch < y->micro_batch ? -1 : 1;
    if (backward != tensor_of(y)->backward)
        return backward ? 1 : -1;
    if (x->from->place.stage != y->from->place.stage)
        return (x->from->place.stage < y->from->place.stage) != (backward != 0) ? -1 : 1;
    if (x->order != y->order)
        return x->order < y->order ? -1 : 1;
    return (x->from->place.rank > y->from->place.rank) - (x->from->place.rank < y->from->place.rank);
}

static int by_key_and_place(const void *a, const void *b) {
    int key = by_key(a, b);
    return key ? key : by_place(a, b);
}

struct result {
    struct entry parts[2];  /* the first difference, of A and of B */
    struct entry shapes[2]; /* the first pair with different types */
    int64_t compared, differ, other_type, other_samples, alone[2];
};

static void compare_pair(struct result *r, const struct entry *a, const struct entry *b, bool same_samples) {
    if (strcmp(tensor_of(a)->type, tensor_of(b)->type) != 0) {
        if (r->other_type++ == 0 || by_place(a, &r->shapes[0]) < 0) {
            r->shapes[0] = *a;
            r->shapes[1] = *b;
        }
    } else if (!same_samples) {
        r->other_samples++;
    } else {
        r->compared++;
        if (a->record->hash == b->record->hash)
            return;
        if (r->differ++ == 0 || by_place(a, &r->parts[0]) < 0) {
            r->parts[0] = *a;
            r->parts[1] = *b;
        }
    }
}

static struct result compare(const entries *a, const entries *b, bool same_samples) {
    struct result r = { 0 };
    int i = 0, k = 0;
    while (i < a->count || k < b->count) {
        int side = i == a->count ? 1 : k == b->count ? -1 : by_key(&a->at[i], &b->at[k]);
        if (side == 0)
            compare_pair(&r, &a->at[i++], &b->at[k++], same_samples);
        else
            r.alone[side > 0]++, *(side > 0 ? &k : &i) += 1;
    }
    return r;
}

/* ---- telling ---- */

static void print_place(const char *folder, const struct entry *e) {
    const struct zt_hash_place *p = &e->from->place;
    printf("  %-24s rank %u of %u, stage %u, data-parallel rank %u: %s, hash %016" PRIx64 "\n", folder, p->rank,
           p->ranks, p->stage, p->data_rank, tensor_of(e)->type, e->record->hash);
}

static void print_tensor(const struct entry *e) {
    const struct zt_hash_tensor *t = tensor_of(e);
    printf("step %u, micro-batch %u, rank %u, %s node %s (%s), tensor \"%s\"\n", e->step, e->micro_batch,
           e->from->place.rank, t->backward ? "backward" : "forward", t->node, t->op, t->name);
}

static void print_layout(const struct run *run) {
    const struct zt_hash_place *p = &run->ranks[0].place;
    printf("  %-24s %u samples a micro-batch, %u data-parallel ranks, %u stages, hashes of ", run->folder, p->rows,
           p->data_ranks, p->stages);
    if (run->first == 1)
        printf("%u steps\n", run->last);
    else
        printf("steps %u to %u\n", run->first, run->last);
}

static void print_left_out(const struct run *run, const struct run *other, uint32_t first, uint32_t last) {
    if (first == last)
        printf("Step %u of %s was not compared: %s has no hashes of it.\n", first, run->folder, other->folder);
    else if (first < last)
        printf("Steps %u to %u of %s were not compared: %s has no hashes of them.\n", first, last, run->folder,
               other->folder);
}

static void print_steps(const struct run *runs, const struct steps *compared) {
    const bool none = compared->first > compared->last;
    for (int i = 0; i < 2; i++) {
        const struct run *run = &runs[i], *other = &runs[1 - i];
        print_left_out(run, other, run->first, none ? run->last : compared->first - 1);
        if (!none)
            print_left_out(run, other, compared->last + 1, run->last);
    }
}

static void print_notes(const struct run *runs, const struct result *r, bool same_samples) {
    if (!same_samples)
        printf("The runs divide batches differently, so their tensors hold different samples and are not compared.\n");
    if (r->other_type) {
        printf("%lld tensors have different shapes or types and were not compared; the first: ",
               (long long)r->other_type);
        print_tensor(&r->shapes[0]);
        for (int i = 0; i < 2; i++)
            print_place(runs[i].folder, &r->shapes[i]);
    }
    for (int i = 0; i < 2; i++)
        if (r->alone[i])
            printf("%lld tensors are only in %s.\n", (long long)r->alone[i], runs[i].folder);
}

static void print_result(const struct run *runs, const struct result *r, const struct steps *steps, bool same_samples) {
    print_layout(&runs[0]);
    print_layout(&runs[1]);
    if (r->differ) {
        printf("The runs first differ at ");
        print_tensor(&r->parts[0]);
        for (int i = 0; i < 2; i++)
            print_place(runs[i].folder, &r->parts[i]);
        printf("%lld of %lld tensors compared differ.\n", (long long)r->differ, (long long)r->compared);
    } else if (r->compared) {
        printf("Equal: %lld tensors compared", (long long)r->compared);
        if (steps->first > 1)
            printf(", of steps %u to %u", steps->first, steps->last);
        printf(".\n");
    } else {
        printf("Nothing could be compared.\n");
    }
    print_steps(runs, steps);
    print_notes(runs, r, same_samples);
}

bool zt_cli_diff(const struct zt_options *options, struct zt_err *err) {
    struct run runs[2] = { 0 };
    entries lists[2] = { 0 };
    bool ok = read_run(&runs[0], options->operands[0], err) && read_run(&runs[1], options->operands[1], err);
    if (ok) {
        const struct zt_hash_place *a = &runs[0].ranks[0].place, *b = &runs[1].ranks[0].place;
        const struct steps steps = common(runs);
        bool same_samples = a->rows == b->rows && a->data_ranks == b->data_ranks;
        struct zt_arena *arena = zt_arena_create();
        struct zt_map ids = { 0 };
        for (int i = 0; i < 2; i++) {
            add_entries(&runs[i], &steps, &ids, arena, &lists[i]);
            if (lists[i].count)
                qsort(lists[i].at, (size_t)lists[i].count, sizeof *lists[i].at, by_key_and_place);
        }
        struct result r = compare(&lists[0], &lists[1], same_samples);
        print_result(runs, &r, &steps, same_samples);
        ok = r.differ == 0 && r.compared > 0;
        if (!ok)
            err->code = ZT_EXIT_RUN; /* a result on stdout, without an error message */
        zt_map_finish(&ids);
        zt_arena_destroy(arena);
    }
    for (int i = 0; i < 2; i++) {
        zt_vec_finish(&lists[i]);
        finish_run(&runs[i]);
    }
    return ok;
}
