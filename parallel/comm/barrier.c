#include "parallel/comm/barrier.h"

#include "parallel/comm/comm.h"

enum { ROUND = 1 << 16 };
static const unsigned WHOLE_ROUNDS = ~(ROUND - 1U), ALL_BITS = ~0U;

void zt_barrier_init(struct zt_barrier *g, int size, zt_barrier_impossible *impossible, const void *with) {
    *g = (struct zt_barrier){ .size = size, .spins = zt_comm_spins(size), .impossible = impossible, .with = with };
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, NULL);
}

void zt_barrier_finish(struct zt_barrier *g) {
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
}

void zt_barrier_wake(struct zt_barrier *g) {
    pthread_mutex_lock(&g->lock); /* a peer between its last look and its sleep holds it */
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

static void rouse_sleepers(struct zt_barrier *g) {
    if (atomic_load(&g->sleepers))
        zt_barrier_wake(g);
}

static bool has_changed(atomic_uint *word, unsigned bits, unsigned old) {
    return (atomic_load(word) ^ old) & bits;
}

static bool await(struct zt_barrier *g, atomic_uint *word, unsigned bits, unsigned old, int peer, bool certain) {
    for (int i = 0; i < g->spins; i++) {
        if (has_changed(word, bits, old))
            return true;
        zt_comm_pause();
    }
    pthread_mutex_lock(&g->lock);
    atomic_fetch_add(&g->sleepers, 1);
    bool impossible = false;
    while (!has_changed(word, bits, old) && !impossible) {
        impossible = !certain && g->impossible(g->with, peer);
        if (!impossible)
            pthread_cond_wait(&g->changed, &g->lock);
    }
    atomic_fetch_sub(&g->sleepers, 1);
    pthread_mutex_unlock(&g->lock);
    return !impossible;
}

void zt_barrier_arrive(struct zt_barrier *g, unsigned *came) {
    unsigned next;
    *came = atomic_load(&g->round);
    do
        next = *came % ROUND + 1 == (unsigned)g->size ? *came / ROUND * ROUND + ROUND : *came + 1;
    while (!atomic_compare_exchange_weak(&g->round, came, next));
    if (next / ROUND != *came / ROUND)
        rouse_sleepers(g);
}

bool zt_barrier_is_complete(struct zt_barrier *g, unsigned came) {
    return has_changed(&g->round, WHOLE_ROUNDS, came);
}

bool zt_barrier_wait(struct zt_barrier *g, unsigned came, bool certain) {
    return await(g, &g->round, WHOLE_ROUNDS, came, ZT_BARRIER_ALL, certain);
}

bool zt_barrier_withdraw(struct zt_barrier *g, unsigned came) {
    unsigned now = atomic_load(&g->round);
    while (now / ROUND == came / ROUND)
        if (atomic_compare_exchange_weak(&g->round, &now, now - 1))
            return true;
    return false;
}

void zt_barrier_count(struct zt_barrier *g, atomic_uint *count) {
    atomic_fetch_add(count, 1);
    rouse_sleepers(g);
}

bool zt_barrier_await(struct zt_barrier *g, atomic_uint *count, unsigned old, int peer) {
    return await(g, count, ALL_BITS, old, peer, false);
}
