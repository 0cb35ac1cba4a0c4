#include "tests/parallel/schedule_machine.h"

#include <check.h>

static bool push(struct channel *c, int micro_batch, int buffered) {
    if (c->sent - c->received >= buffered)
        return false;
    c->micro_batch[c->sent++] = micro_batch;
    return true;
}

static bool pull(struct channel *c, int micro_batch) {
    if (c->sent == c->received)
        return false;
    ck_assert_int_eq(c->micro_batch[c->received], micro_batch);
    c->received++;
    return true;
}

static void take_slot(struct rank *r, const struct zt_instruction *i) {
    ck_assert_int_lt(i->slot, r->schedule->slots);
    ck_assert_int_ge(i->slot, 0);
    if (r->holder[i->slot] == i->micro_batch)
        return;
    ck_assert_msg(r->holder[i->slot] < 0, "slot %d is taken by micro-batch %d while %d holds it", i->slot,
                  i->micro_batch, r->holder[i->slot]);
    r->holder[i->slot] = i->micro_batch;
    r->in_flight++;
}

static void free_slot(struct rank *r, const struct zt_instruction *i) {
    r->holder[i->slot] = -1;
    r->in_flight--;
}

static void backward_input(struct rank *r, const struct zt_instruction *i) {
    ck_assert_int_lt(i->micro_batch, r->forwarded);
    ck_assert_int_eq(i->micro_batch, r->input_graded);
    ck_assert_int_eq(r->holder[i->slot], i->micro_batch);
    r->input_graded++;
}

/* In the order of micro-batches too: gradients are added in one order. `over`: nothing else needs the slot. */
static void backward_weight(struct rank *r, const struct zt_instruction *i, bool over) {
    ck_assert_int_lt(i->micro_batch, r->input_graded);
    ck_assert_int_eq(i->micro_batch, r->backwarded);
    ck_assert_int_eq(r->holder[i->slot], i->micro_batch);
    r->backwarded++;
    if (over)
        free_slot(r, i);
}

/* All ranks of [first, end) stages meet: through when each has come as often as this one. */
static bool meet(struct machine *m, struct rank *r, int first, int end) {
    if (!r->waits_at_meeting)
        r->meetings++;
    r->waits_at_meeting = true;
    for (int s = first; s < end; s++)
        for (int d = 0; d < DATA; d++)
            if (m->rank[s][d].meetings < r->meetings)
                return false;
    r->waits_at_meeting = false;
    return true;
}

/* Whether the next instruction of a rank could be done; checks it on the way. */
static bool step(struct machine *m, int s, int d) {
    struct rank *r = &m->rank[s][d];
    const struct zt_instruction *i = &r->schedule->at[r->at];
    bool done = true;
    switch (i->op) {
    case ZT_DO_LOAD:
        ck_assert(s == 0 || s == m->stages - 1);
        take_slot(r, i);
        break;
    case ZT_DO_RECV_ACT:
        take_slot(r, i);
        done = pull(&m->act[s - 1][d], i->micro_batch);
        break;
    case ZT_DO_FORWARD:
        if (m->inside && !(done = meet(m, r, s, s + 1)))
            break;
        ck_assert_int_eq(i->micro_batch, r->forwarded);
        ck_assert_int_eq(r->holder[i->slot], i->micro_batch);
        r->forwarded++;
        if (!m->training && s == m->stages - 1)
            free_slot(r, i);
        break;
    case ZT_DO_SEND_ACT:
        ck_assert_int_eq(r->holder[i->slot], i->micro_batch);
        done = push(&m->act[s][d], i->micro_batch, m->buffered);
        if (done && !m->training)
            free_slot(r, i);
        break;
    case ZT_DO_RECV_GRAD:
        done = pull(&m->grad[s + 1][d], i->micro_batch);
        break;
    case ZT_DO_BACKWARD:
        if (m->inside && !(done = meet(m, r, s, s + 1)))
            break;
        backward_input(r, i);
        backward_weight(r, i, s == 0);
        break;
    case ZT_DO_BACKWARD_INPUT:
        backward_input(r, i);
        break;
    case ZT_DO_BACKWARD_WEIGHT:
        if (m->inside && !(done = meet(m, r, s, s + 1)))
            break;
        backward_weight(r, i, s == 0 || r->sent_grad[i->micro_batch]);
        break;
    case ZT_DO_SEND_GRAD:
        ck_assert_int_eq(r->holder[i->slot], i->micro_batch);
        ck_assert_int_lt(i->micro_batch, r->input_graded);
        done = push(&m->grad[s][d], i->micro_batch, m->buffered);
        r->sent_grad[i->micro_batch] = done;
        if (done && i->micro_batch < r->backwarded)
            free_slot(r, i);
        break;
    case ZT_DO_REDUCE:
    case ZT_DO_GATHER:
        ck_assert_int_eq(r->backwarded, m->micro_batches);
        done = meet(m, r, s, s + 1);
        break;
    case ZT_DO_CLIP:
        done = meet(m, r, 0, m->stages);
        break;
    case ZT_DO_STEP:
        break;
    case ZT_DO_SCATTER:
    case ZT_DO_GATHER_ACT:
    case ZT_DO_SCATTER_GRAD:
    case ZT_INSTRUCTION_OPS:
        ck_abort_msg("not an instruction of a pipeline");
    }
    ck_assert_int_le(r->in_flight, r->schedule->slots);
    r->at += done;
    return done;
}

static bool all_ended(const struct machine *m) {
    for (int s = 0; s < m->stages; s++)
        for (int d = 0; d < DATA; d++)
            if (m->rank[s][d].at < m->rank[s][d].schedule->count)
                return false;
    return true;
}

void run_schedules(struct machine *m, const char *name) {
    for (int s = 0; s < m->stages; s++)
        for (int d = 0; d < DATA; d++) {
            m->rank[s][d].schedule = &m->schedule[s];
            for (int k = 0; k < MOST_MICRO; k++)
                m->rank[s][d].holder[k] = -1;
        }
    for (bool moved = true; moved;) {
        moved = false;
        for (int s = 0; s < m->stages; s++)
            for (int d = 0; d < DATA; d++)
                while (m->rank[s][d].at < m->schedule[s].count && step(m, s, d))
                    moved = true;
    }
    ck_assert_msg(all_ended(m), "%s: %d micro-batches on %d stages with %d buffered messages stand still", name,
                  m->micro_batches, m->stages, m->buffered);
    for (int s = 0; s < m->stages; s++)
        for (int d = 0; d < DATA; d++) {
            ck_assert_int_eq(m->rank[s][d].forwarded, m->micro_batches);
            ck_assert_int_eq(m->rank[s][d].backwarded, m->training ? m->micro_batches : 0);
            ck_assert_int_eq(m->rank[s][d].in_flight, 0);
            ck_assert_int_eq(m->act[s][d].sent, m->act[s][d].received);
            ck_assert_int_eq(m->grad[s][d].sent, m->grad[s][d].received);
            ck_assert_int_eq(m->act[s][d].sent, s + 1 < m->stages ? m->micro_batches : 0);
            ck_assert_int_eq(m->grad[s][d].sent, s > 0 && m->training ? m->micro_batches : 0);
        }
}
