#include "run/preflight.h"

#include "base/map.h"
#include "base/text.h"
#include "parallel/launch/cores.h"
#include "plan/host_need.h"
#include "plan/rank_plan.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The card of a rank, exchanged between ranks. The size of every field is a multiple of 4 bytes, the unit of the
 * exchange. */
struct card {
    char version[32], host[64];
    uint64_t config, place; /* place: hash of what ranks with different local ranks have in common */
    cpu_set_t cores;
    uint32_t model;
    int32_t threads;    /* requested; 0: as many as its share of the cores */
    int32_t local_rank; /* -1: unknown */
    int32_t unused;
};

/* Writes the ranks for which `differs` is true: "ranks 2, 3". Returns false if there are none. */
static bool list_ranks(int count, bool (*differs)(const void *cards, int rank), const void *cards, char *to,
                       size_t room) {
    struct zt_text list = { 0 };
    int listed = 0;
    for (int i = 0; i < count; i++)
        if (differs(cards, i) && listed++ < 8)
            zt_text_add(&list, "%s%d", list.length ? ", " : "", i);
    if (listed > 8)
        zt_text_add(&list, " and %d more", listed - 8);
    snprintf(to, room, "rank%s %s", listed > 1 ? "s" : "", list.at ? list.at : "");
    zt_text_finish(&list);
    return listed > 0;
}

static bool other_version(const void *cards, int rank) {
    const struct card *c = cards;
    return memcmp(c[rank].version, c[0].version, sizeof c->version) != 0;
}

static bool other_config(const void *cards, int rank) {
    const struct card *c = cards;
    return c[rank].config != c[0].config;
}

static bool other_model(const void *cards, int rank) {
    const struct card *c = cards;
    return c[rank].model != c[0].model;
}

/* Containers may have one host name, but have networks of their own. Ranks that see different devices may all have
 * local rank 0. */
static uint64_t hash_place(const char *host) {
    const char *devices = getenv("CUDA_VISIBLE_DEVICES");
    char network[64] = "";
    uint64_t hash = zt_hash(ZT_HASH_START, host, strlen(host));
    if (readlink("/proc/self/ns/net", network, sizeof network - 1) > 0)
        hash = zt_hash(hash, network, strlen(network));
    return devices ? zt_hash(hash, devices, strlen(devices)) : hash;
}

static bool check_local_ranks(struct zt_comm *world, const struct card *cards, struct zt_err *err) {
    for (int a = 0; a < world->size; a++)
        for (int b = a + 1; b < world->size; b++) {
            if (cards[a].local_rank < 0 || cards[a].local_rank != cards[b].local_rank ||
                cards[a].place != cards[b].place)
                continue;
            zt_fail(err, zt_comm_found_by_all(world, ZT_EXIT_CONFIG),
                    "ranks %d and %d of host \"%s\" both have local rank %d", a, b, cards[a].host, cards[a].local_rank);
            return zt_hint(
                err, "the ranks of a host need LOCAL_RANK 0, 1, 2, ..., unless each has its own CUDA_VISIBLE_DEVICES");
        }
    return true;
}

/* Reports the same error on every rank. */
static bool disagree(struct zt_comm *world, enum zt_exit code, const char *what, const char *ranks, const char *hint,
                     struct zt_err *err) {
    zt_fail(err, zt_comm_found_by_all(world, code), "%s of %s differs from that of rank 0", what, ranks);
    return zt_hint(err, "%s", hint);
}

static bool check_cards(struct zt_comm *world, const struct card *cards, struct zt_err *err) {
    char ranks[128];
    if (list_ranks(world->size, other_version, cards, ranks, sizeof ranks))
        return disagree(world, ZT_EXIT_CONFIG, "the version of ztrain", ranks,
                        "all hosts need the same program at the same path", err);
    if (list_ranks(world->size, other_model, cards, ranks, sizeof ranks))
        return disagree(world, ZT_EXIT_MODEL, "the model file", ranks,
                        "all hosts need the same model file and the same external data", err);
    if (list_ranks(world->size, other_config, cards, ranks, sizeof ranks))
        return disagree(world, ZT_EXIT_CONFIG, "the configuration", ranks,
                        "all ranks need the same config file, command line and data paths", err);
    return check_local_ranks(world, cards, err);
}

static bool hash_config(const struct zt_config *config, uint64_t *hash, struct zt_err *err) {
    size_t bytes;
    char *text = zt_config_text(config, &bytes, err);
    if (!text)
        return false;
    *hash = zt_hash(ZT_HASH_START, text, bytes);
    free(text);
    return true;
}

static bool share_cores_with(const struct card *a, const struct card *b) {
    return memcmp(a->host, b->host, sizeof a->host) == 0 && CPU_EQUAL(&a->cores, &b->cores);
}

/* Finds the share of `rank` among the ranks that may use the same cores; *sharers is their number. */
static bool find_share(const struct card *cards, int count, int rank, int *sharers, cpu_set_t *share) {
    int index = 0, threads = cards[rank].threads > 0 ? cards[rank].threads : 1;
    *sharers = 0;
    for (int i = 0; i < count; i++)
        if (share_cores_with(&cards[i], &cards[rank])) {
            index += i < rank;
            ++*sharers;
        }
    return zt_cores_share(&cards[rank].cores, index, *sharers, threads, share);
}

static void list_shares(struct zt_session *s, const struct card *cards, int count) {
    struct zt_text text = { 0 };
    cpu_set_t share;
    int sharers;
    for (int i = 0; i < count && i < 4; i++) {
        char cores[48];
        bool bound = find_share(cards, count, i, &sharers, &share);
        zt_cores_print(bound ? &share : &cards[i].cores, cores, sizeof cores);
        zt_text_add(&text, "%srank %d: %s%s", i ? "; " : "", i, cores, bound ? "" : ", shared");
    }
    if (count > 4)
        zt_text_add(&text, "; ...");
    snprintf(s->cores, sizeof s->cores, "%s", text.at ? text.at : "");
    zt_text_finish(&text);
}

static void bind_rank(struct zt_session *s, const struct card *cards, int count, int rank) {
    cpu_set_t share;
    int sharers;
    if (find_share(cards, count, rank, &sharers, &share) && sched_setaffinity(0, sizeof share, &share) == 0)
        s->sharers = 1;
    else
        s->sharers = sharers;
    list_shares(s, cards, count);
}

static void fill_cores(struct card *card, const struct zt_session *s) {
    card->threads = s->config->threads;
    sched_getaffinity(0, sizeof card->cores, &card->cores);
}

bool zt_preflight_start(struct zt_session *s, struct zt_comm *world, struct zt_err *err) {
    struct card *cards = zt_calloc((size_t)world->size, sizeof *cards), *own = &cards[world->rank];
    snprintf(own->version, sizeof own->version, "%s", ZT_VERSION);
    gethostname(own->host, sizeof own->host - 1);
    own->place = hash_place(own->host);
    own->local_rank = s->launched.local_rank;
    own->model = zt_onnx_checksum(s->model);
    fill_cores(own, s);
    bool ok = hash_config(s->config, &own->config, err) && zt_comm_exchange(world, cards, sizeof *cards, err) &&
              check_cards(world, cards, err);
    if (ok)
        bind_rank(s, cards, world->size, world->rank);
    free(cards);
    return ok;
}

void zt_preflight_threads(struct zt_session *s, int ranks, cpu_set_t *shares) {
    struct card *cards = zt_calloc((size_t)ranks, sizeof *cards);
    fill_cores(&cards[0], s);
    for (int i = 1; i < ranks; i++)
        cards[i] = cards[0];
    bool bound = true;
    for (int i = 0; i < ranks; i++)
        bound &= find_share(cards, ranks, i, &s->sharers, &shares[i]);
    if (bound)
        s->sharers = 1;
    for (int i = 0; i < ranks && !bound; i++)
        shares[i] = cards[i].cores;
    list_shares(s, cards, ranks);
    free(cards);
}

/* ---- devices ---- */

static bool other_device(const void *cards, int rank) {
    const int32_t *c = cards;
    return c[rank] != c[0];
}

bool zt_preflight_device(const struct zt_device *device, struct zt_comm *world, struct zt_err *err) {
    int32_t *cards = zt_calloc((size_t)world->size, sizeof *cards);
    char ranks[128];
    cards[world->rank] = (int32_t)device->api->backend;
    bool ok = zt_comm_exchange(world, cards, sizeof *cards, err);
    if (ok && list_ranks(world->size, other_device, cards, ranks, sizeof ranks))
        ok = disagree(
            world, ZT_EXIT_RUN, "the kind of device", ranks,
            "device \"auto\" takes a GPU where there is one: --device cpu or --device cuda is the same for all", err);
    free(cards);
    return ok;
}

/* ---- plans ---- */

struct plan_card {
    uint64_t common, stage_hash;
    int32_t stage, unused;
};

static uint64_t hash_program(uint64_t hash, const struct zt_program *p) {
    const struct zt_command *list[] = { p->derive, p->forward, p->backward };
    const int count[] = { p->derive_count, p->forward_count, p->backward_count };
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < count[k]; i++) {
            const struct zt_command *c = &list[k][i];
            const char *name = c->kind == ZT_RUN_NODE ? p->training_graph.graph->nodes[c->node]->name : "";
            int32_t numbers[] = { (int32_t)c->kind, c->kind == ZT_GATHER || c->kind == ZT_REDUCE ? c->bucket : 0 };
            hash = zt_hash(zt_hash(hash, numbers, sizeof numbers), name, strlen(name) + 1);
        }
    return hash;
}

static uint64_t hash_slices(uint64_t hash, const struct zt_flat *f) {
    return zt_hash(hash, f->bound, (size_t)f->bucket_count * ((size_t)f->ranks + 1) * sizeof *f->bound);
}

static struct plan_card card_of(const struct zt_rank_plan *plan) {
    struct plan_card card = { .stage = plan->grid.stage };
    const char *sharding = zt_sharding_name(plan->sharding);
    card.common = zt_hash(ZT_HASH_START, sharding, strlen(sharding));
    card.common =
        zt_hash(card.common, plan->stage_bounds, ((size_t)plan->grid.stages + 1) * sizeof *plan->stage_bounds);
    card.stage_hash = hash_slices(ZT_HASH_START, plan->tensors.flat);
    if (plan->tensors.frozen)
        card.stage_hash = hash_slices(card.stage_hash, plan->tensors.frozen->flat);
    for (int i = 0; i < plan->programs.train.count; i++)
        card.stage_hash = hash_program(card.stage_hash, plan->programs.train.at[i]);
    return card;
}

static bool other_plan(const void *cards, int rank) {
    const struct plan_card *c = cards;
    int first = 0; /* first rank of the same stage */
    while (c[first].stage != c[rank].stage)
        first++;
    return c[rank].common != c[0].common || c[rank].stage_hash != c[first].stage_hash;
}

bool zt_preflight_plan(const struct zt_rank_plan *plan, struct zt_comm *world, struct zt_err *err) {
    struct plan_card *cards = zt_calloc((size_t)world->size, sizeof *cards);
    char ranks[128];
    cards[world->rank] = card_of(plan);
    bool ok = zt_comm_exchange(world, cards, sizeof *cards, err);
    if (ok && list_ranks(world->size, other_plan, cards, ranks, sizeof ranks))
        ok = disagree(world, ZT_EXIT_CONFIG, "the plan", ranks,
                      "all hosts need the same build, the same libraries and the same kind of processor", err);
    free(cards);
    return ok;
}

/* ---- memory ---- */

struct memory_card {
    char host[64];
    struct zt_host_need need;
    struct zt_host_memory memory;
};

/* The need of all ranks on the host of `rank`, and the least memory that one of them may use. */
static struct memory_card card_of_host(const struct memory_card *cards, int count, int rank) {
    struct memory_card sum = cards[rank];
    for (int i = 0; i < count; i++) {
        if (i == rank || memcmp(cards[i].host, sum.host, sizeof sum.host) != 0)
            continue;
        zt_host_need_add(&sum.need, &cards[i].need);
        if (cards[i].memory.bytes < sum.memory.bytes)
            sum.memory = cards[i].memory;
    }
    return sum;
}

bool zt_preflight_memory(const struct zt_rank_plan *plan, struct zt_comm *world, struct zt_err *err) {
    struct memory_card *cards = zt_calloc((size_t)world->size, sizeof *cards), *own = &cards[world->rank];
    gethostname(own->host, sizeof own->host - 1);
    own->need = zt_rank_plan_need(plan, plan->grid.data_rank);
    own->memory = zt_host_memory(&zt_memory_files);
    const bool exchanged = zt_comm_exchange(world, cards, sizeof *cards, err);
    bool ok = exchanged;
    for (int i = 0; ok && i < world->size; i++) {
        const struct memory_card host = card_of_host(cards, world->size, i);
        ok = zt_host_need_fits(&host.need, &host.memory, "training", err);
    }
    if (exchanged && !ok)
        err->code = zt_comm_found_by_all(world, err->code);
    free(cards);
    return ok;
}
