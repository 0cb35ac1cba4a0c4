#include "checkpoint/parts.h"

#include "base/file.h"
#include "base/vec.h"
#include "checkpoint/rank_states.h"
#include "optim/one_bit/trust.h"
#include "run/rank/blocks.h"

#include <stdlib.h>
#include <string.h>

/* ---- slices of a rank ---- */

struct making {
    const struct zt_checkpoints *c;
    ZT_VEC(struct zt_part_slice) list;
};

enum writes { NOTHING, ORIGINAL, COPY };

/* Returns whether and how this rank writes elements that data rank `owner` updates; `shared`: all ranks of the stage
 * have them. */
static enum writes choose(const struct zt_checkpoints *c, int tensor, int owner, bool shared) {
    const struct zt_rank_plan *p = c->o.plan;
    const struct zt_checkpoint_storage *s = &c->storage;
    if (p->tensors.model[tensor].stage == p->grid.stage) {
        const int writer = zt_grid_rank(&p->grid, p->grid.stage, owner);
        if (writer == p->grid.rank)
            return ORIGINAL;
        if (s->first[writer] == s->first[p->grid.rank])
            return NOTHING;
    }
    return shared && s->index != 0 ? NOTHING : COPY;
}

static void add(struct making *m, enum writes what, const struct zt_part_slice *slice) {
    struct zt_part_slice *last = m->list.count ? &m->list.at[m->list.count - 1] : NULL;
    const bool copy = what == COPY;
    if (what == NOTHING || slice->first == slice->end)
        return;
    if (last && last->file == slice->file && last->tensor == slice->tensor && last->end == slice->first &&
        last->copy == copy && !last->held && !slice->held) {
        last->end = slice->end;
        return;
    }
    zt_vec_push(&m->list, *slice);
    m->list.at[m->list.count - 1].copy = copy;
}

/* The parameters and states that the rank updates: state -1 are the parameters. */
static void add_pieces(struct making *m, int state) {
    const struct zt_rank_plan *p = m->c->o.plan;
    const struct zt_rank *r = m->c->o.rank;
    for (int i = 0; i < r->piece_count; i++) {
        const struct zt_piece *piece = &r->pieces[i];
        const int param = p->tensors.param_model[piece->tensor];
        const int owner = zt_rank_states_exist(p) ? 0 : r->owned[piece->range].rank;
        const int64_t first = piece->first - p->tensors.flat->tensors[piece->tensor].offset;
        add(m, choose(m->c, param, owner, !zt_sharding_splits_update(p->sharding)),
            &(struct zt_part_slice){ .file = state < 0 ? ZT_WEIGHTS_FILE : ZT_OPTIMIZER_FILE,
                                     .tensor = state < 0 ? param : state * p->tensors.model_params + param,
                                     .first = first,
                                     .end = first + piece->count });
    }
}

/* The elements first..last-1 of the flat parameters, which data rank `owner` updates and this rank holds too. */
static void add_held(struct making *m, int owner, int64_t first, int64_t last, const float *from) {
    const struct zt_rank_plan *p = m->c->o.plan;
    for (int t = 0; t < p->tensors.flat->tensor_count; t++) {
        const struct zt_flat_tensor *tensor = &p->tensors.flat->tensors[t];
        const int param = p->tensors.param_model[t];
        int64_t begin = first, end = last;
        if (zt_flat_cut(tensor, &begin, &end))
            add(m, choose(m->c, param, owner, !zt_sharding_gathers_for_use(p->sharding)),
                &(struct zt_part_slice){ .file = ZT_WEIGHTS_FILE,
                                         .tensor = param,
                                         .first = begin - tensor->offset,
                                         .end = end - tensor->offset,
                                         .held = from + (begin - first) });
    }
}

/* Parameters that the rank needs and does not update: of other ranks, and copies of those of other stages. */
static void add_all_held(struct making *m) {
    const struct zt_rank_plan *p = m->c->o.plan;
    const struct zt_sharding *sharding = p->sharding;
    const struct zt_flat *flat = p->tensors.flat;
    if (p->offload.parameters != ZT_HOME_DEVICE)
        return;
    for (int b = 0; b < flat->bucket_count; b++)
        for (int r = 0; r < flat->ranks; r++) {
            const int64_t first = zt_slice_first(flat, b, r);
            const bool own = r == p->grid.data_rank, holds = own || !zt_sharding_gathers_for_use(sharding),
                       updates = b < flat->own_buckets && (own || !zt_sharding_splits_update(sharding));
            if (holds && !updates)
                add_held(m, r, first, zt_slice_first(flat, b, r + 1),
                         m->c->o.rank->shard + zt_collectives_param_at(flat, sharding, b, r));
        }
}

/* A tensor that all ranks of the stage have. */
static void add_shared(struct making *m, int file, int tensor, int model) {
    const enum writes what = choose(m->c, model, 0, true);
    add(m, what,
        &(struct zt_part_slice){
            .file = file, .tensor = tensor, .end = zt_shape_count(&m->c->files[file].tensors[tensor].shape) });
}

static void add_rank_states(struct making *m) {
    const struct zt_checkpoints *c = m->c;
    const struct zt_rank_plan *p = c->o.plan;
    const int count = c->manifest.files > ZT_RANKS_FILE ? c->files[ZT_RANKS_FILE].count / p->grid.data : 0;
    for (int i = p->grid.data_rank * count; i < (p->grid.data_rank + 1) * count; i++)
        add(m, ORIGINAL,
            &(struct zt_part_slice){
                .file = ZT_RANKS_FILE, .tensor = i, .end = zt_shape_count(&c->files[ZT_RANKS_FILE].tensors[i].shape) });
}

static int in_order(const void *a, const void *b) {
    const struct zt_part_slice *x = a, *y = b;
    return x->file != y->file       ? (x->file > y->file) - (x->file < y->file)
           : x->tensor != y->tensor ? (x->tensor > y->tensor) - (x->tensor < y->tensor)
                                    : (x->first > y->first) - (x->first < y->first);
}

void zt_part_make(const struct zt_checkpoints *c, struct zt_arena *arena, struct zt_part *part,
                  struct zt_stored_file *file) {
    const struct zt_rank_plan *p = c->o.plan;
    struct making m = { .c = c };
    for (int state = -1; state < p->memory.optimizer_states; state++)
        add_pieces(&m, state);
    add_all_held(&m);
    for (int i = 0; i < p->tensors.statistic_total; i++)
        add_shared(&m, ZT_WEIGHTS_FILE, p->tensors.statistic_model[i], p->tensors.statistic_model[i]);
    for (int t = 0; c->o.rank->trust && t < p->tensors.flat->tensor_count; t++)
        add_shared(&m, ZT_OPTIMIZER_FILE,
                   p->memory.optimizer_states * p->tensors.model_params + p->tensors.param_model[t],
                   p->tensors.param_model[t]);
    add_rank_states(&m);
    if (m.list.count)
        qsort(m.list.at, (size_t)m.list.count, sizeof *m.list.at, in_order);
    *part = (struct zt_part){ ZT_NEW_N(arena, struct zt_part_slice, m.list.count + 1), m.list.count };
    *file = (struct zt_stored_file){ ZT_NEW_N(arena, struct zt_stored_tensor, m.list.count + 1), m.list.count };
    for (int i = 0; i < m.list.count; i++) {
        const struct zt_part_slice *s = &m.list.at[i];
        part->slices[i] = *s;
        file->tensors[i] = (struct zt_stored_tensor){
            .name = zt_part_slice_name(arena, s, c->files[s->file].tensors[s->tensor].name),
            .shape = { .rank = 1, .dim = { s->end - s->first } },
        };
    }
    zt_vec_finish(&m.list);
}

int zt_part_find(const struct zt_part *part, int file, int tensor, int64_t element) {
    const struct zt_part_slice wanted = { .file = file, .tensor = tensor, .first = element };
    int low = 0, high = part->count; /* the first slice behind the element */
    while (low < high) {
        const int middle = (low + high) / 2;
        if (in_order(&part->slices[middle], &wanted) > 0)
            high = middle;
        else
            low = middle + 1;
    }
    const struct zt_part_slice *s = low ? &part->slices[low - 1] : NULL;
    return s && s->file == file && s->tensor == tensor && element < s->end ? low - 1 : -1;
}

/* ---- the parts of all ranks ---- */

struct card {
    int64_t bytes;
    int32_t tensors, unused;
};

bool zt_parts_gather(struct zt_checkpoints *c, struct zt_err *err) {
    struct zt_comm *world = c->o.world;
    struct card *cards = zt_calloc((size_t)world->size, sizeof *cards), *own = &cards[world->rank];
    own->bytes = c->files[ZT_PART_FILE].bytes;
    own->tensors = c->files[ZT_PART_FILE].count;
    bool ok = zt_comm_exchange(world, cards, sizeof *cards, err);
    for (int i = 0; ok && i < world->size; i++) {
        struct zt_part_sums *part = &c->manifest.parts[i];
        const int64_t blocks = zt_block_count(cards[i].bytes), sums = blocks + cards[i].tensors;
        free(part->sums.crc);
        part->host = c->storage.host[i];
        part->sums = (struct zt_file_sums){ .bytes = cards[i].bytes,
                                            .crc = zt_malloc((size_t)sums * sizeof(uint32_t)),
                                            .tensors = cards[i].tensors };
        part->sums.tensor_crc = part->sums.crc + blocks;
        if (i == world->rank)
            memcpy(part->sums.crc, c->crc[ZT_PART_FILE], (size_t)sums * sizeof(uint32_t));
        ok = world->api->broadcast(world, part->sums.crc, (size_t)sums * sizeof(uint32_t), i, err);
    }
    free(cards);
    return ok;
}

/* ---- the parts of a folder ---- */

bool zt_part_exists(const char *folder, int rank, int count) {
    char name[ZT_PART_NAME];
    zt_part_name(name, rank, count);
    char *path = zt_path_join(folder, name);
    bool there = zt_file_exists(path);
    free(path);
    return there;
}

void zt_parts_list(const char *folder, const struct zt_manifest *m, bool there, char *to, size_t room) {
    struct zt_text list = { 0 };
    int listed = 0;
    for (int i = 0; i < m->part_count; i++)
        if (zt_part_exists(folder, i, m->part_count) == there && listed++ < 4)
            zt_text_add(&list, "%s%d (%.64s)", list.length ? ", " : "", i, m->parts[i].host);
    if (listed > 4)
        zt_text_add(&list, " and %d more", listed - 4);
    snprintf(to, room, "%s", list.at ? list.at : "none");
    zt_text_finish(&list);
}
