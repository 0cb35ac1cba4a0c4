/* ztrain ops: the table of operators as rows of text. */
#include "cli/commands.h"

#include "session/options.h"
#include "ops/table.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *domain_of(const struct zt_op *op) {
    return op->domain && op->domain[0] ? op->domain : "ai.onnx";
}

static bool is_own(const struct zt_op *op) {
    return strcmp(domain_of(op), "ztrain") == 0;
}

/* ONNX may change or drop what this domain has. */
static bool is_experimental(const struct zt_op *op) {
    return strcmp(domain_of(op), "ai.onnx.preview") == 0;
}

/* Appends the types of input 0, separated by `between`; "any" for all types with kernels, "narrow" for those of
 * quantized tensors, "-" without inputs. */
static void add_types(struct zt_text *to, const struct zt_op *op, const char *between) {
    unsigned set = op->in_types[0] ? op->in_types[0] & ZT_ANY_STORED : ZT_ANY_TYPE;
    if (op->max_in == 0 && !(op->flags & ZT_OP_VARIADIC)) {
        zt_text_add(to, "-");
        return;
    }
    const char *sign = "";
    if ((set & ZT_ANY_TYPE) == ZT_ANY_TYPE) {
        zt_text_add(to, "any");
        set &= ~(unsigned)ZT_ANY_TYPE;
        sign = between;
    }
    if (set == ZT_ANY_NARROW) {
        zt_text_add(to, "%snarrow", sign);
        return;
    }
    for (enum zt_dtype t = ZT_FLOAT; t < ZT_DTYPES; t++) {
        if (!zt_dtype_in(t, set))
            continue;
        zt_text_add(to, "%s%s", sign, zt_dtype_name(t));
        sign = between;
    }
}

static void add_backends(struct zt_text *to, const struct zt_op *op, const char *between) {
    static const char *const name[ZT_BACKENDS] = { "ref", "cpu", "cuda" };
    const char *sign = "";
    if (op->expand && !op->infer)
        zt_text_add(to, "bodies"); /* the types of the nodes inside */
    for (int b = 0; b < ZT_BACKENDS; b++) {
        if (!op->kernel[b].run)
            continue;
        zt_text_add(to, "%s%s", sign, name[b]);
        sign = between;
    }
}

static void print_row(const struct zt_op *op, bool json) {
    struct zt_text types = { 0 }, backends = { 0 }, opsets = { 0 };
    add_types(&types, op, json ? "\", \"" : ",");
    add_backends(&backends, op, json ? "\", \"" : ",");
    zt_text_add(&opsets, "%d-", op->since);
    if (op->until)
        zt_text_add(&opsets, "%d", op->until);
    if (json)
        printf(
            "{\"name\": \"%s\", \"domain\": \"%s\", \"opsets\": \"%s\", \"dtypes\": [\"%s\"], \"gradient\": %s, "
            "\"back_ends\": [\"%s\"], \"experimental\": %s}\n",
            op->name, domain_of(op), opsets.at, types.at, zt_op_has_gradient(op) ? "true" : "false", backends.at,
            is_experimental(op) ? "true" : "false");
    else
        printf("%-28s %-8s %-7s %-9s %-13s %s%s\n", op->name, domain_of(op), opsets.at,
               zt_op_has_gradient(op) ? "yes" : "none", backends.at, types.at,
               is_experimental(op) ? " experimental" : "");
    zt_text_finish(&types);
    zt_text_finish(&backends);
    zt_text_finish(&opsets);
}

/* By name, then domain, then opset. */
static int by_name(const void *a, const void *b) {
    const struct zt_op *const *x = a, *const *y = b;
    const int name = strcasecmp((*x)->name, (*y)->name);
    return name ? name : (*x)->since - (*y)->since;
}

bool zt_cli_ops(const struct zt_options *options, struct zt_err *err) {
    (void)err;
    struct zt_op_cursor at = { 0 };
    int count = 0;
    while (zt_op_next(&zt_ops, &at))
        count++;
    const struct zt_op **row = zt_malloc((size_t)count * sizeof *row);
    at = (struct zt_op_cursor){ 0 };
    for (int i = 0; i < count; i++)
        row[i] = zt_op_next(&zt_ops, &at);
    qsort(row, (size_t)count, sizeof *row, by_name);
    if (!options->json)
        printf("%-28s %-8s %-7s %-9s %-13s %s\n", "name", "domain", "opsets", "gradient", "back ends", "dtypes");
    for (int own = 0; own < 2; own++)
        for (int i = 0; i < count; i++)
            if (is_own(row[i]) == own)
                print_row(row[i], options->json);
    free(row);
    return true;
}
