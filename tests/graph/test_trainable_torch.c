/* Changes of parameters by PyTorch's exporters, in graphs made by hand. tests/exported has files of the exporters. */
#include "build.h"
#include "base/map.h"
#include "graph/passes/trainable/derived.h"
#include "graph/passes/trainable/trainable.h"
#include "graph/passes/trainable/torch.h"
#include "rows.h"

#include <check.h>
#include <math.h>
#include <string.h>

/* A graph of initializers: each is multiplied into the output, so that a gradient reaches it. */
struct file {
    struct zt_graph *g;
    struct zt_onnx model;
    int sum;
};

static void begin(struct file *f, const char *signature) {
    *f = (struct file){ .g = zt_graph_create("by hand"), .sum = -1 };
    f->model = (struct zt_onnx){ .graph = f->g, .producer = "pytorch 2.15.0", .torch_signature = signature };
}

static int add(struct file *f, const char *name, struct zt_shape shape, const void *data) {
    const int v = zt_graph_add_value(f->g, name, ZT_FLOAT, &shape);
    f->g->values[v]->origin = ZT_FROM_INITIALIZER;
    f->g->values[v]->data = data;
    return v;
}

static int op(struct file *f, const char *type, int a, int b, const char *out) {
    const int y = zt_graph_add_value(f->g, out, ZT_UNDEFINED, NULL), in[2] = { a, b };
    zt_graph_add_node(f->g, &(struct zt_node_spec){ out, type, "", 17, in, b < 0 ? 1 : 2, &y, 1 });
    return y;
}

static struct zt_value *use(struct file *f, const char *name, struct zt_shape shape, const void *data) {
    const int v = add(f, name, shape, data);
    f->sum = f->sum < 0 ? v : op(f, "Mul", f->sum, v, zt_arena_printf(f->g->arena, "use of %s", name));
    return f->g->values[v];
}

static void judge(struct file *f) {
    f->g->outputs = zt_arena_copy(f->g->arena, &f->sum, sizeof f->sum);
    f->g->output_count = 1;
    zt_test_resolve(f->g);
    zt_pass_trainable(f->g, &f->model, -1);
}

static const struct zt_shape scalar = { 0 }, three = { 1, { 3 } };
static const float other[3] = { 3, -2, 5 }, one = 1.5F, mix[3] = { 0.25F, 0.5F, 0.875F },
                   rest[3] = { 0.75F, 0.5F, 0.125F };
static const char *const signature =
    "\n# inputs\np_t: PARAMETER target='t'\np_mix: PARAMETER target='mix'\np_g: PARAMETER target='g'\n"
    "p_v: PARAMETER target='v'\nb: BUFFER target='zeros' persistent=True\nx: USER_INPUT\n";

START_TEST(torchscript_names_tell_scalars_that_are_parameters) {
    struct file f;
    begin(&f, NULL);
    const struct zt_value *temperature = use(&f, "head.temperature", scalar, &one);
    const struct zt_value *numbered = use(&f, "onnx::Mul_7", scalar, &one),
                          *path = use(&f, "/fc/Constant_output_0", scalar, &one);
    const struct zt_value *folded = use(&f, "onnx::Mul_8", three, mix);
    judge(&f);
    ck_assert(temperature->trainable);
    ck_assert(!numbered->trainable && numbered->may_train);
    ck_assert(!path->trainable);
    ck_assert(folded->trainable);
    f.model.producer = "tf2onnx"; /* another exporter's scalars are constants */
    zt_pass_trainable(f.g, &f.model, -1);
    ck_assert(!temperature->trainable);
    ck_assert_str_eq(temperature->why, "a scalar: epsilon, scale or exponent");
    zt_graph_destroy(f.g);
}
END_TEST

START_TEST(dynamos_names_tell_no_scalar_where_onnxruntime_dropped_the_signature) {
    struct file f;
    struct zt_onnx_opset opsets[2] = { { "", 20 }, { "com.microsoft.nchwc", 1 } };
    begin(&f, NULL);
    const struct zt_value *pi = use(&f, "_MATH_PI", scalar, &one), *weight = use(&f, "fc.weight", three, mix);
    f.model.opsets = opsets;
    f.model.opset_count = 2;
    ck_assert(zt_trainable_is_optimized(&f.model)); /* TorchScript's */
    judge(&f);
    ck_assert(pi->trainable);
    f.g->nodes[f.g->node_count - 1]->name = "node_mul";
    zt_pass_trainable(f.g, &f.model, -1);
    ck_assert(!pi->trainable);
    ck_assert(weight->trainable);
    ck_assert(zt_trainable_is_optimized(&f.model));
    f.model.opset_count = 1;
    ck_assert(!zt_trainable_is_optimized(&f.model));
    f.model.producer = "";
    f.model.opset_count = 2;
    ck_assert(!zt_trainable_is_optimized(&f.model));
    zt_graph_destroy(f.g);
}
END_TEST

static bool folds(const char *name, const char *folded_from) {
    struct file f;
    begin(&f, signature);
    struct zt_value *v = use(&f, name, three, mix);
    v->torch_folded_from = folded_from;
    use(&f, "other", three, mix);
    judge(&f);
    const bool trained = v->trainable;
    zt_graph_destroy(f.g);
    return trained;
}

START_TEST(only_elements_picked_and_placed_are_the_parameter) {
    ck_assert(folds("val_3", "['val_1', 'mix']"));
    ck_assert(folds("permute_2", "['mix', 'val_0']"));
    ck_assert(folds("cat", "['t', 'mix']"));
    ck_assert(folds("val_9", "['getitem_1', 'val_8', 'mix', 'permute']"));
    ck_assert(folds("expand", "['view_default_1', 'arange', 'mix', 'x']"));
    ck_assert(!folds("exp", "['mix']"));
    ck_assert(!folds("sub_12", "['mix', 'scalar_tensor_default']"));
    ck_assert(!folds("permute", "['div', 'mix']"));
    ck_assert(!folds("val_3", "['mul_2', 'linalg_vector_norm', 'mix']"));
    ck_assert(!folds("val_3", "['zeros', 'x']")); /* no parameter at all */
}
END_TEST

/* ---- undoing ---- */

/* The one row that is found, or none. */
static bool derive(struct file *f, struct zt_derived *to) {
    struct zt_derived *list;
    judge(f);
    const int count = zt_derived_find(&f->model, f->g, f->g->arena, &list);
    ck_assert_int_le(count, 1);
    if (count)
        *to = list[0];
    return count == 1;
}

static bool derive_folded(const char *name, const char *folded_from, bool present, const float *contents,
                          const char *text) {
    struct file f;
    struct zt_derived d;
    begin(&f, signature);
    use(&f, name, three, contents)->torch_folded_from = folded_from;
    if (present)
        use(&f, "mix", three, mix)->torch_kind = "PARAMETER";
    else
        use(&f, "other", three, mix);
    const bool found = derive(&f, &d);
    if (found)
        ck_assert_str_eq(zt_derived_text(f.g->arena, &d), text);
    zt_graph_destroy(f.g);
    return found;
}

START_TEST(what_was_computed_of_one_parameter_is_found) {
    const float powers[3] = { expf(mix[0]), expf(mix[1]), expf(mix[2]) };
    const float negative[3] = { -powers[0], -powers[1], -powers[2] }, half[3] = { 0.125F, 0.25F, 0.4375F };
    ck_assert(derive_folded("sub", "['mix']", true, rest, "1 - mix"));
    ck_assert(derive_folded("mul_3", "['mix']", true, half, "mix * 0.5"));
    ck_assert(derive_folded("exp", "['mix']", true, powers, "exp(mix)"));
    ck_assert(derive_folded("exp", "['mix']", false, powers, "exp(mix)"));
    ck_assert(derive_folded("neg", "['exp', 'mix']", false, negative, "-(exp(mix))"));
}
END_TEST

START_TEST(what_numbers_or_names_do_not_prove_is_not_undone) {
    const float offset[3] = { 1.25F, 1.5F, 1.875F };
    ck_assert(!derive_folded("sub", "['mix']", true, mix, ""));            /* nothing was computed */
    ck_assert(!derive_folded("exp", "['mix']", true, rest, ""));           /* that is not exp */
    ck_assert(!derive_folded("sub", "['mix']", false, rest, ""));          /* the constant is not known */
    ck_assert(!derive_folded("mul", "['g', 'v']", false, mix, ""));        /* two are lost */
    ck_assert(!derive_folded("exp", "['select', 'mix']", false, mix, "")); /* elements may be missing */
    ck_assert(derive_folded("add", "['val_0', 'mix']", false, offset, "mix + 1"));
    ck_assert(!derive_folded("add", "['flip', 'val_0', 'mix']", false, offset, "")); /* of mix itself */
    ck_assert(!derive_folded("special_erf", "['mix']", false, mix, ""));             /* no inverse */
    const float beyond[3] = { -1, 0.5F, 2 };
    ck_assert(!derive_folded("exp", "['mix']", false, beyond, "")); /* no exponent gives -1 */
}
END_TEST

START_TEST(torchscript_numbers_are_derived_by_their_contents) {
    struct file f;
    struct zt_derived d;
    begin(&f, NULL);
    use(&f, "mix", three, mix);
    const struct zt_value *v = use(&f, "onnx::Mul_9", three, rest);
    ck_assert(derive(&f, &d));
    ck_assert_str_eq(d.name, "onnx::Mul_9");
    ck_assert_str_eq(zt_derived_text(f.g->arena, &d), "1 - mix");
    float computed[3];
    zt_derived_compute(&d, v, ZT_FLOAT, mix, computed);
    ck_assert_mem_eq(computed, rest, sizeof rest);
    zt_graph_destroy(f.g);
}
END_TEST

/* y = x p + z v, as time mixing reads a parameter and one minus it. */
static void mix_in(struct file *f, int p, int v, int number) {
    static const char *const letters[] = { "a", "b" };
    const char *n = letters[number];
    const int left = op(f, "Mul", f->sum, p, zt_arena_printf(f->g->arena, "left %s", n));
    const int right = op(f, "Mul", f->sum, v, zt_arena_printf(f->g->arena, "right %s", n));
    f->sum = op(f, "Add", left, right, zt_arena_printf(f->g->arena, "mixed %s", n));
}

START_TEST(of_equal_candidates_the_one_that_meets_the_tensor_counts_and_else_none) {
    for (int meets = 0; meets < 2; meets++) {
        struct file f;
        struct zt_derived *list;
        begin(&f, NULL);
        use(&f, "weight", three, other);
        const int p[2] = { add(&f, "one.mix", three, mix), add(&f, "two.mix", three, mix) };
        const int v[2] = { add(&f, "onnx::Mul_1", three, rest), add(&f, "onnx::Mul_2", three, rest) };
        for (int i = 0; i < 2 && meets; i++)
            mix_in(&f, p[1 - i], v[i], i);
        for (int i = 0; i < 4 && !meets; i++)
            f.sum = op(&f, "Mul", f.sum, i < 2 ? p[i] : v[i - 2], zt_arena_printf(f.g->arena, "use %s", &"abcd"[i]));
        judge(&f);
        ck_assert_int_eq(zt_derived_find(&f.model, f.g, f.g->arena, &list), meets ? 2 : 0);
        for (int i = 0; i < 2 && meets; i++) {
            ck_assert_str_eq(list[i].name, f.g->values[v[i]]->name);
            ck_assert_str_eq(list[i].parameter, f.g->values[p[1 - i]]->name);
        }
        zt_graph_destroy(f.g);
    }
}
END_TEST

START_TEST(one_minus_a_parameter_wins_over_another_constant) {
    static const float shifted[3] = { 0.5F, 0.75F, 1.125F }; /* mix + 0.25, so that 1 - shifted = 0.75 - mix */
    static const float left[3] = { 0.5F, 0.25F, -0.125F };
    struct file f;
    struct zt_derived d;
    begin(&f, NULL);
    use(&f, "a.mix", three, mix);
    use(&f, "b.mix", three, shifted);
    use(&f, "onnx::Mul_9", three, left);
    ck_assert(derive(&f, &d));
    ck_assert_str_eq(zt_derived_text(f.g->arena, &d), "1 - b.mix");
    zt_graph_destroy(f.g);
}
END_TEST

/* ---- repeated elements ---- */

static const struct zt_shape expanded = { 3, { 3, 1, 2 } };

/* Fills *to from a tensor of these contents, folded from the parameter "v". */
static bool repeat(struct file *f, const char *name, struct zt_shape shape, const float *data, struct zt_derived *to) {
    begin(f, signature);
    use(f, name, shape, data)->torch_folded_from = "['v', 'val_3']";
    use(f, "other", three, mix);
    return derive(f, to);
}

START_TEST(a_parameter_that_was_expanded_is_one_again) {
    static const float token[6] = { 7, 8, 7, 8, 7, 8 }, vector[2] = { 7, 8 };
    struct file f;
    struct zt_derived d;
    float again[6];
    ck_assert(repeat(&f, "expand", expanded, token, &d));
    ck_assert_str_eq(zt_derived_text(f.g->arena, &d), "vectors of v");
    ck_assert_int_eq(d.repeated.vectors, 1);
    ck_assert_int_eq(d.repeated.axis, 2);
    ck_assert_mem_eq(d.made, vector, sizeof vector);
    zt_derived_compute(&d, f.g->values[zt_graph_find(f.g, "expand")], ZT_FLOAT, (const float[2]){ 1, 2 }, again);
    ck_assert_mem_eq(again, ((const float[6]){ 1, 2, 1, 2, 1, 2 }), sizeof again);
    zt_graph_destroy(f.g);
}
END_TEST

/* Two heads, distances of 2 x 2 positions: the table's rows stand along axis 0. */
START_TEST(rows_that_a_lookup_repeats_are_found_along_any_axis) {
    static const float bias[8] = { 1, 2, 3, 1, 10, 20, 30, 10 }, rows[6] = { 1, 10, 2, 20, 3, 30 };
    struct file f;
    struct zt_derived d;
    float again[8];
    ck_assert(repeat(&f, "index", (struct zt_shape){ 3, { 2, 2, 2 } }, bias, &d));
    ck_assert_int_eq(d.repeated.vectors, 3);
    ck_assert_int_eq(d.repeated.axis, 0);
    ck_assert_mem_eq(d.made, rows, sizeof rows);
    zt_derived_compute(&d, f.g->values[zt_graph_find(f.g, "index")], ZT_FLOAT, rows, again);
    ck_assert_mem_eq(again, bias, sizeof bias);
    zt_graph_destroy(f.g);
}
END_TEST

START_TEST(equal_elements_without_a_sign_of_repetition_stay_apart) {
    static const float token[6] = { 7, 8, 7, 8, 7, 8 }, each[6] = { 1, 2, 3, 4, 5, 6 }, ones[6] = { 1, 1, 1, 1, 1, 1 };
    struct file f;
    struct zt_derived d;
    struct zt_map listed = { 0 };
    for (int i = 0; i < 3; i++) {
        ck_assert(!repeat(&f, i ? "expand" : "view", expanded, i == 0 ? token : i == 1 ? each : ones, &d));
        zt_torch_read_signature(f.g->arena, signature, &listed);
        const char *apart = zt_derived_apart(f.g->arena, f.g->values[0], &listed);
        ck_assert_str_eq(apart ? apart : "", i == 2 ? "v" : ""); /* ones may be repeated, and it is said */
        zt_map_finish(&listed);
        zt_graph_destroy(f.g);
    }
}
END_TEST

START_TEST(arithmetic_before_a_lookup_is_its_indices_own) {
    ck_assert(folds("embedding_1", "['add', 'arange', 'mix', 'zeros']"));
    ck_assert(!folds("view", "['add', 'embedding_1', 'mix']"));
    ck_assert(folds("embedding_1", "['cumsum', 'mix', 'mul']")); /* positions that a mask multiplies */
    ck_assert(!folds("embedding_1", "['mix', 'mul']"));
    ck_assert(folds("unsqueeze_1", "['abs', 'add', 'arange', 'embedding_1', 'log', 'minimum', 'mix', 'mul', 'where']"));
    ck_assert(!folds("unsqueeze_1", "['add', 'arange', 'embedding_1', 'log', 'mix', 'mul']"));
    ck_assert(!folds("embedding_1", "['exp', 'mix']"));
}
END_TEST

/* ---- doubts ---- */

static const char *doubt_of(struct file *f, const struct zt_value *v) {
    judge(f);
    ck_assert(v->trainable);
    const char *doubt = zt_trainable_doubt(f->g, v, &f->model);
    return doubt ? doubt : "";
}

START_TEST(a_table_of_sinusoids_is_doubted) {
    enum { ROWS = 6, COLUMNS = 8 };
    float table[ROWS * COLUMNS], shifted[ROWS * COLUMNS], noise[ROWS * COLUMNS];
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) {
            const double angle = r * pow(0.1, c % 4);
            table[r * COLUMNS + c] = (float)(c < COLUMNS / 2 ? sin(angle) : cos(angle));
            shifted[r * COLUMNS + c] = 0.14F * table[r * COLUMNS + c] - 0.08F;
            noise[r * COLUMNS + c] = (float)sin(7.0 * r * r + 3.0 * c * c);
        }
    noise[0] = 0;
    struct file f;
    begin(&f, NULL);
    const struct zt_value *positions = use(&f, "positions", (struct zt_shape){ 2, { ROWS, COLUMNS } }, table);
    const struct zt_value *learned = use(&f, "learned", (struct zt_shape){ 2, { ROWS, COLUMNS } }, noise);
    const struct zt_value *moved = use(&f, "shifted and scaled", (struct zt_shape){ 2, { ROWS, COLUMNS } }, shifted);
    ck_assert_str_eq(doubt_of(&f, positions), "a table of sinusoids");
    ck_assert_str_eq(doubt_of(&f, moved), "a table of sinusoids");
    ck_assert_str_eq(doubt_of(&f, learned), "");
    zt_graph_destroy(f.g);
}
END_TEST

/* Contents, and the doubt: `marked` as a parameter, and not. */
struct table {
    const char *name, *bare, *marked;
    struct zt_shape shape;
    float element[16];
};

#define DECIMALS "decimals of up to three digits"

static const struct table tables[] = {
    { "anchors", "whole numbers", "whole numbers", { 2, { 2, 3 } }, { 10, 13, 16, 30, 33, 23 } },
    { "edges", "whole numbers", "whole numbers", { 4, { 1, 1, 3, 3 } }, { 1, 0, -1, 2, 0, -2, 1, 0, -1 } },
    { "window", "the same read backwards", "the same read backwards", { 1, { 5 } }, { 0, .5F, 1, .5F, 0 } },
    { "cosines",
      "the same read backwards",
      "the same read backwards",
      { 2, { 3, 4 } },
      { .5F, .5F, .5F, .5F, .6533F, .2706F, -.2706F, -.6533F, .5F, -.5F, -.5F, .5F } },
    { "periodic window",
      "the same read backwards",
      "the same read backwards",
      { 1, { 8 } },
      { 0, .146447F, .5F, .853553F, 1, .853553F, .5F, .146447F } },
    { "blur",
      "the same read backwards",
      "the same read backwards",
      { 4, { 1, 1, 2, 4 } },
      { .1F, .3F, .7F, .2F, .2F, .7F, .3F, .1F } },
    { "around zero", "evenly spaced numbers", "the same read backwards", { 1, { 4 } }, { -1.5F, -.5F, .5F, 1.5F } },
    { "centres", "evenly spaced numbers", "", { 1, { 4 } }, { .1F, .2F, .3F, .4F } },
    { "grid", "evenly spaced numbers", "", { 2, { 4, 2 } }, { .1F, 0, .1F, .2F, .1F, .4F, .1F, .6F } },
    { "ramp", "evenly spaced numbers", "", { 1, { 9 } }, { 0, .1F, .2F, .3F, .4F, .5F, .6F, .7F, .8F } },
    { "frequencies", "powers of one number", "", { 1, { 4 } }, { .9F, .09F, .009F, .0009F } },
    { "slopes of heads", "powers of one number", "", { 3, { 4, 1, 1 } }, { .5F, .25F, .125F, .0625F } },
    { "rotary cosines",
      "sines or cosines in steps",
      "sines or cosines in steps",
      { 2, { 8, 2 } },
      { 1, 1, 0.5403023F, 0.9950042F, -0.4161468F, 0.9800666F, -0.9899925F, 0.9553365F, -0.6536436F, 0.921061F,
        0.2836622F, 0.8775826F, 0.9601703F, 0.8253356F, 0.7539023F, 0.7648422F } },
    { "part of a Fourier transform",
      "sines or cosines in steps",
      "sines or cosines in steps",
      { 2, { 2, 8 } },
      { 0.4605305F, 0.2276302F, -0.1117808F, -0.3988883F, -0.4993516F, -0.3661627F, -0.06164216F, 0.2717214F,
        0.5986896F, -0.1453151F, -0.649157F, -0.08013481F, 0.6213265F, 0.2959192F, -0.5185548F, -0.4760114F } },
    { "cosines beside sines of multiples of pi",
      "sines or cosines in steps",
      "sines or cosines in steps",
      { 2, { 8, 2 } },
      { 0.5403023F, 0, -0.4161468F, -9e-8F, -0.9899925F, 2e-7F, -0.6536436F, -2e-8F, 0.2836622F, 3.5e-7F, 0.9601703F,
        7e-7F, 0.7539023F, -5e-8F, -0.1455F, 1e-7F } },
    { "almost cosines",
      "",
      "",
      { 2, { 8, 2 } },
      { 1, 1, 0.5403023F, 0.9950042F, -0.4161468F, 0.9800666F, -0.9899925F, 0.9553365F, -0.6536436F, 0.931061F,
        0.2836622F, 0.8775826F, 0.9601703F, 0.8253356F, 0.7539023F, 0.7648422F } },
    { "mask", "a mask", "", { 2, { 3, 3 } }, { 1, 0, 0, 1, 1, 0, 1, 1, 1 } },
    { "forget gate", "", "", { 2, { 1, 8 } }, { 0, 0, 0, 0, 1, 1, 0, 0 } },
    { "constant", "", "", { 1, { 4 } }, { .5F, .5F, .5F, .5F } },
    { "repeated rows", DECIMALS, "", { 2, { 4, 3 } }, { .1F, .4F, .2F, .1F, .4F, .2F, .1F, .4F, .2F, .1F, .4F, .2F } },
    { "constant rows", DECIMALS, "", { 2, { 3, 4 } }, { .1F, .1F, .1F, .1F, .4F, .4F, .4F, .4F, .2F, .2F, .2F, .2F } },
    { "one row", DECIMALS, "", { 2, { 2, 4 } }, { .1F, .4F, .4F, .1F, .3F, .2F, .9F, .7F } },
    { "almost even", "", "", { 1, { 4 } }, { .1F, .2F, .3F, .4001F } },
    { "almost the same", "", "", { 1, { 5 } }, { .1F, .7F, 1, .7F, .1001F } },
    { "signs", "", "", { 1, { 4 } }, { .9F, -.09F, .009F, -.0009F } },
    { "few", "", "", { 1, { 3 } }, { 1, 2, 3 } },
    { "levels", DECIMALS, "", { 1, { 4 } }, { .1F, .25F, .5F, .9F } },
    { "two levels", DECIMALS, "", { 1, { 2 } }, { .05F, .95F } },
    { "eighths", "", "", { 1, { 3 } }, { .25F, .5F, .875F } },
    { "four digits", "", "", { 1, { 3 } }, { .1F, .2F, .4001F } },
    { "large decimals", "", "", { 1, { 3 } }, { .1F, .2F, 10.4F } },
};

START_TEST(contents_that_nobody_trains_are_doubted) {
    const struct table *t = &tables[_i];
    struct file f;
    begin(&f, NULL);
    use(&f, "weight", (struct zt_shape){ 1, { 1 } }, &one);
    const struct zt_value *v = use(&f, t->name, t->shape, t->element);
    ck_assert_str_eq(doubt_of(&f, v), t->bare);
    const char *marked = zt_trainable_table(v, true);
    ck_assert_str_eq(marked ? marked : "", t->marked);
    zt_graph_destroy(f.g);
}
END_TEST

START_TEST(zeros_added_to_the_output_are_doubted_where_nothing_marks_them) {
    static const float zeros[3];
    const struct zt_shape wide = { 2, { 1, 3 } };
    for (int marked = 0; marked < 2; marked++)
        for (int bias = 0; bias < 2; bias++) { /* a bias has one axis */
            struct file f;
            begin(&f, marked ? signature : NULL);
            use(&f, "weight", three, mix);
            const int v = add(&f, "final_logits_bias", bias ? three : wide, zeros);
            f.sum = op(&f, "Add", f.sum, v, "logits");
            ck_assert_str_eq(doubt_of(&f, f.g->values[v]), marked || bias ? "" : "zeros added to the output");
            zt_graph_destroy(f.g);
        }
}
END_TEST

START_TEST(zeros_joined_with_parameters_are_doubted) {
    static const float zeros[3];
    for (int computed = 0; computed < 2; computed++) { /* a class token is joined with what was computed */
        struct file f;
        begin(&f, NULL);
        const int k = add(&f, "k_bias", three, zeros), q = add(&f, "q_bias", three, mix);
        f.sum = op(&f, "Concat", computed ? op(&f, "Mul", q, q, "square") : q, k, "joined");
        ck_assert_str_eq(doubt_of(&f, f.g->values[k]), computed ? "" : "zeros joined with parameters");
        ck_assert_str_eq(doubt_of(&f, f.g->values[q]), "");
        zt_graph_destroy(f.g);
    }
}
END_TEST

/* ---- copies ---- */

static const float matrix[6] = { 1, 2, 3, 4, 5, 6 }, turned[6] = { 1, 4, 2, 5, 3, 6 };
static const struct zt_shape tall = { 2, { 3, 2 } }, flat = { 2, { 2, 3 } };

START_TEST(an_embedding_and_its_head_are_copies_and_other_equal_tensors_are_not) {
    for (int gathered = 0; gathered < 2; gathered++) {
        struct file f;
        struct zt_trainable_pair *pairs;
        begin(&f, NULL);
        f.model.producer = "tf2onnx";
        const int e = add(&f, "embed", tall, matrix), h = add(&f, "head", flat, (float[6]){ 1, 3, 5, 2, 4, 6 });
        const int ids = zt_graph_add_value(f.g, "ids", ZT_INT64, &three);
        f.g->values[ids]->origin = ZT_FROM_INPUT;
        f.sum =
            op(&f, "MatMul", gathered ? op(&f, "Gather", e, ids, "rows") : op(&f, "Mul", e, e, "rows"), h, "logits");
        judge(&f);
        ck_assert_int_eq(zt_trainable_copies(&f.model, f.g, &pairs), gathered);
        if (gathered) {
            ck_assert_int_eq(pairs[0].a, e);
            ck_assert_int_eq(pairs[0].b, h);
            ck_assert(pairs[0].transposed && pairs[0].perm[0] == 1 && pairs[0].perm[1] == 0);
        }
        zt_graph_destroy(f.g);
    }
}
END_TEST

START_TEST(axes_of_a_copy_may_be_exchanged) {
    struct file f;
    int64_t perm[ZT_TIE_RANK];
    begin(&f, NULL);
    const struct zt_value *a = use(&f, "a", (struct zt_shape){ 3, { 1, 2, 3 } }, matrix);
    const struct zt_value *b = use(&f, "b", (struct zt_shape){ 3, { 3, 1, 2 } }, turned);
    const struct zt_value *c = use(&f, "c", (struct zt_shape){ 3, { 3, 1, 2 } }, matrix);
    ck_assert(zt_trainable_find_perm(a, b, perm));
    ck_assert(perm[0] == 2 && perm[1] == 0 && perm[2] == 1);
    ck_assert(zt_trainable_same(a, b, perm));
    ck_assert(!zt_trainable_find_perm(a, c, perm));
    zt_graph_destroy(f.g);
}
END_TEST

/* ---- parts of one parameter ---- */

START_TEST(parts_of_a_parameter_are_found_where_the_exporter_made_one) {
    enum { ROWS = 6, COLUMNS = 5 };
    static float w[ROWS][COLUMNS], part[ROWS][COLUMNS], rolled[ROWS][COLUMNS], twice[ROWS][COLUMNS],
        chance[ROWS][COLUMNS];
    const struct zt_shape shape = { 2, { ROWS, COLUMNS } };
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) {
            w[i][j] = sinf((float)(1 + i * COLUMNS + j));
            part[i][j] = sinf((float)(1 + (i + 4) * COLUMNS + j)); /* two rows of w, and others */
            rolled[(i + 2) % ROWS][j] = w[i][j];
            twice[i][j] = cosf((float)(1 + i % 5 * COLUMNS + j)); /* the first row again */
            chance[i][j] = cosf((float)(200 + i * COLUMNS + j));
        }
    chance[1][1] = w[2][2], chance[3][0] = w[5][4], chance[5][4] = w[0][0]; /* without their neighbours */
    const struct {
        const char *name;
        const void *data;
        bool found;
    } rows[] = { { "onnx::MatMul_7", part, true },
                 { "onnx::MatMul_7", rolled, true },
                 { "onnx::MatMul_7", w, false }, /* a copy */
                 { "onnx::MatMul_7", chance, false },
                 { "other", rolled, false } }; /* two parameters that started alike */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct file f;
        struct zt_trainable_overlap *list;
        begin(&f, NULL);
        const struct zt_value *a = use(&f, "w", shape, w), *b = use(&f, rows[i].name, shape, rows[i].data);
        judge(&f);
        ck_assert_int_eq(zt_trainable_overlaps(&f.model, f.g, &list), rows[i].found);
        if (rows[i].found)
            ck_assert(list->a + list->b == a->id + b->id && list->a != list->b);
        zt_graph_destroy(f.g);
    }
    for (int folded = 0; folded < 2; folded++) {
        struct file f;
        struct zt_trainable_overlap *list;
        begin(&f, NULL);
        use(&f, "w", shape, w);
        const struct zt_value *v = use(&f, folded ? "onnx::MatMul_7" : "A_log", shape, twice);
        judge(&f);
        ck_assert_int_eq(zt_trainable_overlaps(&f.model, f.g, &list), folded);
        if (folded)
            ck_assert(list->a == v->id && list->b == v->id);
        zt_graph_destroy(f.g);
    }
}
END_TEST

int main(void) {
    TCase *cases = tcase_create("trainable_torch");
    tcase_add_test(cases, torchscript_names_tell_scalars_that_are_parameters);
    tcase_add_test(cases, dynamos_names_tell_no_scalar_where_onnxruntime_dropped_the_signature);
    tcase_add_test(cases, only_elements_picked_and_placed_are_the_parameter);
    tcase_add_test(cases, what_was_computed_of_one_parameter_is_found);
    tcase_add_test(cases, what_numbers_or_names_do_not_prove_is_not_undone);
    tcase_add_test(cases, torchscript_numbers_are_derived_by_their_contents);
    tcase_add_test(cases, of_equal_candidates_the_one_that_meets_the_tensor_counts_and_else_none);
    tcase_add_test(cases, one_minus_a_parameter_wins_over_another_constant);
    tcase_add_test(cases, a_parameter_that_was_expanded_is_one_again);
    tcase_add_test(cases, rows_that_a_lookup_repeats_are_found_along_any_axis);
    tcase_add_test(cases, equal_elements_without_a_sign_of_repetition_stay_apart);
    tcase_add_test(cases, arithmetic_before_a_lookup_is_its_indices_own);
    tcase_add_test(cases, a_table_of_sinusoids_is_doubted);
    tcase_add_loop_test(cases, contents_that_nobody_trains_are_doubted, 0, (int)(sizeof tables / sizeof *tables));
    tcase_add_test(cases, zeros_added_to_the_output_are_doubted_where_nothing_marks_them);
    tcase_add_test(cases, zeros_joined_with_parameters_are_doubted);
    tcase_add_test(cases, an_embedding_and_its_head_are_copies_and_other_equal_tensors_are_not);
    tcase_add_test(cases, axes_of_a_copy_may_be_exchanged);
    tcase_add_test(cases, parts_of_a_parameter_are_found_where_the_exporter_made_one);
    return run_cases("trainable_torch", cases);
}
