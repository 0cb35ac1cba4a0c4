/* ONNX function bodies of the gradients of RNN, GRU and LSTM, step by step (formulas in rnn.c, gru.c and lstm.c;
 * letters in recurrent.h).
 *
 * A name that ends with a number belongs to that step of the time loop. ReverseSequence, which reads the lengths,
 * reverses the sequences of the reverse direction. If sequences have lengths, `run_s` marks the rows that still run at
 * step s. */
#include "ops/recurrent/kernels.h"
#include "ops/recurrent/recurrent.h"

#include <math.h>
#include <string.h>
#include <strings.h>

enum { AT_B = 3, AT_LENGTHS, AT_H, AT_C, AT_P };

struct direction {
    struct zt_function_body *b;
    struct zt_recurrent r;
    const struct zt_attr *names; /* of the functions, NULL: the cell's usual ones */
    int d;                       /* direction */
    bool given[8], lengths, dy;
};

/* ---- functions of gates: y and its slope from a; of those that saturate it is not 1 less nearly 1 ---- */

static const struct function {
    const char *name, *says;
} functions[] = {
    { "Affine", "y = alpha * a + beta; slope = alpha + 0 * a" },
    { "Elu",
      "y = Where(Less(a, 0), alpha * (Exp(Min(a, 0)) - 1), a);"
      "slope = Where(Less(a, 0), alpha * Exp(Min(a, 0)), 1)" },
    { "HardSigmoid", "y = Clip(alpha * a + beta, 0, 1); slope = Where(And(Greater(y, 0), Less(y, 1)), alpha, 0)" },
    { "LeakyRelu", "slope = Where(Less(a, 0), alpha, 1); y = a * slope" },
    { "Relu", "y = Relu(a); slope = Cast<to=T>(Greater(a, 0))" },
    { "ScaledTanh", "t = Tanh(beta * a); y = alpha * t; slope = alpha * beta * (1 - t * t)" },
    { "Sigmoid", "y = Sigmoid(a); e = Exp(-Abs(a)); slope = e / ((1 + e) * (1 + e))" },
    { "Softplus", "y = Softplus(a); slope = Sigmoid(a)" },
    { "Softsign", "t = 1 + Abs(a); y = a / t; slope = 1 / (t * t)" },
    { "Tanh", "y = Tanh(a); e = Exp(-2 * Abs(a)); slope = 4 * e / ((1 + e) * (1 + e))" },
    { "ThresholdedRelu", "y = Where(Less(a, alpha), 0, a); slope = Where(Less(a, alpha), 0, 1)" },
};

/* NAME becomes function k of it and NAME_slope its derivative, which is 0 where NAME was clipped. */
static void say_function(struct direction *w, int k, bool clips, const char *name) {
    const struct zt_cell *cell = w->r.cell;
    const char *wanted = w->names ? w->names->strings[w->d * cell->functions + k] : cell->usual[k];
    struct zt_function_body *b = w->b;
    clips &= isfinite(w->r.clip);
    zt_function_body_number(b, "alpha", w->r.function[w->d][k].alpha);
    zt_function_body_number(b, "beta", w->r.function[w->d][k].beta);
    zt_function_body_number(b, "clip", isfinite(w->r.clip) ? w->r.clip : 0);
    zt_function_body_add(b, clips ? "a = Clip(%s, -clip, clip)" : "a = %s", name);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcasecmp(functions[i].name, wanted) == 0)
            zt_function_body_add(b, "%s", functions[i].says);
    if (clips)
        zt_function_body_add(b, "slope = Where(Greater(Abs(%s), clip), 0, slope)", name);
    zt_function_body_add(b, "%s = y; %s_slope = slope", name, name);
}

/* NAME_s for the step s. */
static void say_gate(struct direction *w, int k, const char *gate, int s) {
    say_function(w, k, true, zt_function_body_text(w->b, "%s_%d", gate, s));
}

/* `now` for rows that run at step s, `otherwise` for the others. */
static const char *held(struct direction *w, int s, const char *now, const char *otherwise) {
    return w->lengths ? zt_function_body_text(w->b, "Where(run_%d, %s, %s)", s, now, otherwise) : now;
}

static const char *at_step(struct direction *w, const char *fmt, int s) {
    const char *text = "";
    for (; *fmt; fmt++)
        text = *fmt == '#' ? zt_function_body_text(w->b, "%s%d", text, s)
                           : zt_function_body_text(w->b, "%s%c", text, *fmt);
    return text;
}

/* Statements in which # stands for the step. */
static void say(struct direction *w, int s, const char *text) {
    zt_function_body_add(w->b, "%s", at_step(w, text, s));
}

/* ---- cells. Forward: from ax, what enters the gates from x, to h_(s+1), c_(s+1). Backward: da_s and ra_s, gradients
 * of what entered the gates from x and from h, and dh and dc of the step before ---- */

static void rnn_forward(struct direction *w, int s) {
    say(w, s, "f_# = ax + MatMul(h_#, turned)");
    say_gate(w, 0, "f", s);
    zt_function_body_add(w->b, "h_%d = %s", s + 1, held(w, s, at_step(w, "f_#", s), at_step(w, "h_#", s)));
}

static void rnn_backward(struct direction *w, int s) {
    zt_function_body_add(w->b, "da_%d = %s", s, held(w, s, at_step(w, "dh * f_#_slope", s), "0"));
    say(w, s, "ra_# = da_#");
    zt_function_body_add(w->b, "dh = %s", held(w, s, at_step(w, "MatMul(da_#, R)", s), "dh"));
}

static void lstm_forward(struct direction *w, int s) {
    say(w, s, "i_#, o_#, f_#, g_# = Split<axis=1, num_outputs=4>(ax + MatMul(h_#, turned))");
    if (w->given[AT_P])
        say(w, s, "i_# = i_# + p_i * c_#; f_# = f_# + p_f * c_#");
    say_gate(w, 0, "i", s);
    if (w->r.on)
        say(w, s, "f_# = 1 - i_#; f_#_slope = 0 * i_#");
    else
        say_gate(w, 0, "f", s);
    say_gate(w, 1, "g", s);
    say(w, s, "n_# = f_# * c_# + i_# * g_#; k_# = n_#");
    if (w->given[AT_P])
        say(w, s, "o_# = o_# + p_o * n_#");
    say_gate(w, 0, "o", s);
    say_function(w, 2, false, at_step(w, "k_#", s));
    zt_function_body_add(w->b, "h_%d = %s", s + 1, held(w, s, at_step(w, "o_# * k_#", s), at_step(w, "h_#", s)));
    zt_function_body_add(w->b, "c_%d = %s", s + 1, held(w, s, at_step(w, "n_#", s), at_step(w, "c_#", s)));
}

static void lstm_backward(struct direction *w, int s) {
    say(w, s, "do = dh * k_# * o_#_slope; dn = dc + dh * o_# * k_#_slope");
    if (w->given[AT_P])
        zt_function_body_add(w->b, "dn = dn + p_o * do");
    say(w, s, w->r.on ? "di = dn * (g_# - c_#) * i_#_slope" : "di = dn * g_# * i_#_slope");
    say(w, s, "df = dn * c_# * f_#_slope; dg = dn * i_# * g_#_slope");
    zt_function_body_add(w->b, "da_%d = %s", s, held(w, s, "Concat<axis=1>(di, do, df, dg)", "0"));
    say(w, s, "ra_# = da_#");
    zt_function_body_add(
        w->b, "dc = %s",
        held(w, s, at_step(w, w->given[AT_P] ? "dn * f_# + p_i * di + p_f * df" : "dn * f_#", s), "dc"));
    zt_function_body_add(w->b, "dh = %s", held(w, s, at_step(w, "MatMul(da_#, R)", s), "dh"));
}

static void gru_forward(struct direction *w, int s) {
    say(w, s, "xz, xr, g_# = Split<axis=1, num_outputs=3>(ax)");
    say(w, s, "hz, hr = Split<axis=1, num_outputs=2>(MatMul(h_#, Transpose(R_zr))); z_# = xz + hz; r_# = xr + hr");
    say_gate(w, 0, "z", s);
    say_gate(w, 0, "r", s);
    if (w->r.on)
        say(w, s, "in_# = h_#; q_# = MatMul(h_#, Transpose(R_g)) + b_g; g_# = g_# + r_# * q_#");
    else
        say(w, s, "in_# = r_# * h_#; g_# = g_# + MatMul(in_#, Transpose(R_g))");
    say_gate(w, 1, "g", s);
    zt_function_body_add(w->b, "h_%d = %s", s + 1,
                         held(w, s, at_step(w, "(1 - z_#) * g_# + z_# * h_#", s), at_step(w, "h_#", s)));
}

static void gru_backward(struct direction *w, int s) {
    say(w, s, "dz = dh * (h_# - g_#) * z_#_slope; dg = dh * (1 - z_#) * g_#_slope");
    if (w->r.on)
        say(w, s, "u = dg * r_#; dr = dg * q_# * r_#_slope; before = MatMul(u, R_g)");
    else
        say(w, s, "u = dg; back = MatMul(dg, R_g); dr = back * h_# * r_#_slope; before = back * r_#");
    say(w, s, "before = before + dh * z_# + MatMul(Concat<axis=1>(dz, dr), R_zr)");
    zt_function_body_add(w->b, "da_%d = %s", s, held(w, s, "Concat<axis=1>(dz, dr, dg)", "0"));
    zt_function_body_add(w->b, "ra_%d = %s", s, held(w, s, "Concat<axis=1>(dz, dr, u)", "0"));
    zt_function_body_add(w->b, "dh = %s", held(w, s, "before", "dh"));
}

static const struct say_cell {
    int gates;
    void (*forward)(struct direction *w, int s), (*backward)(struct direction *w, int s);
} cells[] = { { 1, rnn_forward, rnn_backward }, { 3, gru_forward, gru_backward }, { 4, lstm_forward, lstm_backward } };

static const struct say_cell *cell_of(const struct direction *w) {
    const struct say_cell *c = cells;
    while (c->gates != w->r.cell->gates)
        c++;
    return c;
}

/* ---- a direction ---- */

static bool reversed(const struct direction *w) {
    return w->r.reverse || w->d == 1;
}

/* Brings NAME, [S, N, ...], into the order of the time loop, or back. */
static void say_reversed(struct direction *w, const char *name) {
    if (reversed(w))
        zt_function_body_add(w->b, "%s = ReverseSequence<batch_axis=1, time_axis=0>(%s, length)", name, name);
}

/* TO = this direction's [N, H] of a tensor of states, zeros where it is not there. */
static void say_state(struct direction *w, const char *to, const char *from, bool there) {
    if (there)
        zt_function_body_add(w->b, "%s = Gather<axis=%d>(%s, %di)", to, w->r.rows_first, from, w->d);
    else
        zt_function_body_add(w->b, "%s = Expand(0, [%lld, %lld])", to, (long long)w->r.rows, (long long)w->r.hidden);
}

static void say_weights(struct direction *w) {
    struct zt_function_body *b = w->b;
    long long h = w->r.hidden, wide = w->r.cell->gates * h;
    zt_function_body_add(b, "W = Gather(w, %di); R = Gather(r, %di); turned = Transpose(R)", w->d, w->d);
    zt_function_body_add(b, "b_x = Expand(0, [%lld]); b_h = b_x", wide);
    if (w->given[AT_B])
        zt_function_body_add(b, "b_x, b_h = Split<axis=0, num_outputs=2>(Gather(bias, %di))", w->d);
    if (w->given[AT_P])
        zt_function_body_add(b, "p_i, p_o, p_f = Split<axis=0, num_outputs=3>(Gather(peephole, %di))", w->d);
    if (w->r.cell->apart) {
        zt_function_body_add(
            b, "R_zr = Slice(R, [0], [%lld]); R_g = Slice(R, [%lld], [%lld]); b_g = Slice(b_h, [%lld], [%lld])", 2 * h,
            2 * h, wide, 2 * h, wide);
        if (w->r.on)
            zt_function_body_add(b, "b_h = Concat<axis=0>(Slice(b_h, [0], [%lld]), 0 * b_g)", 2 * h);
    }
}

static void say_forward(struct direction *w) {
    struct zt_function_body *b = w->b;
    say_weights(w);
    zt_function_body_add(b, w->r.rows_first ? "x_d = Transpose<perm=[1, 0, 2]>(x)" : "x_d = x");
    say_reversed(w, "x_d");
    zt_function_body_add(b, "gates = MatMul(x_d, Transpose(W)) + b_x + b_h");
    say_state(w, "h_0", "h", w->given[AT_H]);
    say_state(w, "c_0", "c", w->given[AT_C]);
    for (int s = 0; s < w->r.steps; s++) {
        zt_function_body_add(b, "ax = Gather(gates, %di)", s);
        if (w->lengths)
            zt_function_body_add(b, "run_%d = Reshape(Less(%di, length), [%lld, 1])", s, s, (long long)w->r.rows);
        cell_of(w)->forward(w, s);
    }
}

/* Returns the input number of the first cotangent of the outputs: behind Y and the saved outputs of the training form,
 * which the body recomputes. */
static int first_gradient(const struct zt_cell *cell) {
    return cell->ins + 1 + cell->extra;
}

static void say_backward(struct direction *w) {
    struct zt_function_body *b = w->b;
    int first = first_gradient(w->r.cell);
    say_state(w, "dh", "dy_h", zt_in(b->g, b->node, first + 1));
    say_state(w, "dc", "dy_c", w->r.cell->outs > 2 && zt_in(b->g, b->node, first + 2));
    if (w->lengths)
        zt_function_body_add(
            b, "some = Reshape(Less(0i, length), [%lld, 1]); dh = Where(some, dh, 0); dc = Where(some, dc, 0)",
            (long long)w->r.rows);
    if (w->dy) {
        zt_function_body_add(b,
                             w->r.rows_first ? "dy_d = Transpose<perm=[1, 0, 2]>(Gather<axis=2>(dy, %di))"
                                             : "dy_d = Gather<axis=1>(dy, %di)",
                             w->d);
        say_reversed(w, "dy_d");
    }
    for (int s = (int)w->r.steps - 1; s >= 0; s--) {
        if (w->dy)
            zt_function_body_add(b, "dh = dh + %s", held(w, s, zt_function_body_text(b, "Gather(dy_d, %di)", s), "0"));
        cell_of(w)->backward(w, s);
    }
}

/* "Concat<axis=0>(NAME_0, NAME_1, ...)": all steps as rows */
static const char *rows_of(struct direction *w, const char *name, int from) {
    const char *text = "";
    for (int s = 0; s < w->r.steps; s++)
        text = zt_function_body_text(w->b, "%s%s%s_%d", text, s ? ", " : "", name, from + s);
    return zt_function_body_text(w->b, "Concat<axis=0>(%s)", text);
}

/* The gradients of this direction, NAME_d, each with an axis for the direction. */
static void say_results(struct direction *w) {
    struct zt_function_body *b = w->b;
    long long h = w->r.hidden, wide = w->r.cell->gates * h, steps = w->r.steps, rows = w->r.rows, input = w->r.input;
    int d = w->d, axis = w->r.rows_first;
    zt_function_body_add(b, "da = %s; ra = %s; before = %s", rows_of(w, "da", 0), rows_of(w, "ra", 0),
                         rows_of(w, "h", 0));
    zt_function_body_add(b, "dx_d = Reshape(MatMul(da, W), [%lld, %lld, %lld])", steps, rows, input);
    say_reversed(w, "dx_d");
    zt_function_body_add(b, "dx = dx + dx_d; dw_%d = Unsqueeze(MatMul(Transpose(da), Reshape(x_d, [%lld, %lld])), [0])",
                         d, steps * rows, input);
    zt_function_body_add(b, "dR = MatMul(Transpose(ra), before)");
    if (w->r.cell->apart)
        zt_function_body_add(
            b, "dR = Concat<axis=0>(Slice(dR, [0], [%lld]), MatMul(Transpose(Slice(ra, [%lld], [%lld], [1])), %s))",
            2 * h, 2 * h, wide, rows_of(w, "in", 0));
    zt_function_body_add(b, "dr_%d = Unsqueeze(dR, [0])", d);
    zt_function_body_add(
        b, "db_%d = Unsqueeze(Concat<axis=0>(ReduceSum<keepdims=0>(da, [0]), ReduceSum<keepdims=0>(ra, [0])), [0])", d);
    zt_function_body_add(b, "dh_%d = Unsqueeze(dh, [%d]); dc_%d = Unsqueeze(dc, [%d])", d, axis, d, axis);
    if (w->given[AT_P]) {
        zt_function_body_add(b, "di, do, df, dg = Split<axis=1, num_outputs=4>(da); c = %s", rows_of(w, "c", 0));
        zt_function_body_add(b, "dP = Concat<axis=1>(di * c, do * %s, df * c)", rows_of(w, "c", 1));
        zt_function_body_add(b, "dp_%d = ReduceSum(dP, [0])", d);
    }
}

/* ---- both ---- */

static void say_joined(struct direction *w, const char *to, const char *name, int axis) {
    if (w->r.directions == 2)
        zt_function_body_add(w->b, "%s = Concat<axis=%d>(%s_0, %s_1)", to, axis, name, name);
    else
        zt_function_body_add(w->b, "%s = %s_0", to, name);
}

static void say_names(struct direction *w) {
    const char *saved = "_";
    for (int i = 0; i < w->r.cell->extra; i++)
        saved = zt_function_body_text(w->b, "%s, _", saved);
    bool lstm = w->r.cell->ins > AT_C;
    zt_function_body_names(
        w->b, zt_function_body_text(
                  w->b, "x, w, r, bias, lengths, h, %s%s, dy, dy_h%s -> out_x, out_w, out_r, out_b, out_n, out_h%s",
                  lstm ? "c, peephole, " : "", saved, lstm ? ", dy_c" : "", lstm ? ", out_c, out_p" : ""));
}

bool zt_recurrent_grad_function_body(const struct zt_cell *cell, struct zt_function_body *b, const struct zt_graph *g,
                                     int node, struct zt_err *err) {
    struct direction w = { .b = b, .names = zt_node_attr(g->nodes[node], "activations") };
    if (!zt_recurrent_read(cell, g, node, &w.r, err))
        return false;
    for (int i = 0; i < cell->ins; i++)
        w.given[i] = zt_in(g, node, i);
    w.lengths = w.given[AT_LENGTHS];
    w.dy = zt_in(g, node, first_gradient(cell));
    int64_t *full = ZT_NEW_N(b->arena, int64_t, w.r.rows);
    for (int64_t n = 0; n < w.r.rows; n++)
        full[n] = w.r.steps;
    say_names(&w);
    zt_function_body_int64s(b, "length", &(struct zt_shape){ 1, { w.r.rows } }, full);
    if (w.lengths)
        zt_function_body_add(b, "length = Cast<to=int64>(lengths)");
    zt_function_body_add(b, "dx = 0");
    for (w.d = 0; w.d < w.r.directions; w.d++) {
        say_forward(&w);
        say_backward(&w);
        say_results(&w);
    }
    zt_function_body_add(b, w.r.rows_first ? "out_x = Transpose<perm=[1, 0, 2]>(dx)" : "out_x = dx");
    say_joined(&w, "out_w", "dw", 0);
    say_joined(&w, "out_r", "dr", 0);
    say_joined(&w, "out_b", "db", 0);
    say_joined(&w, "out_h", "dh", w.r.rows_first);
    say_joined(&w, "out_c", "dc", w.r.rows_first);
    if (w.given[AT_P])
        say_joined(&w, "out_p", "dp", 0);
    return true;
}
