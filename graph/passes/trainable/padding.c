/* The row of an embedding that PyTorch gives no gradient: nn.Embedding(padding_idx). Dynamo keeps the traced call,
 *
 *     %embedding = call_function[target=torch.ops.aten.embedding.default](args = (%p_weight, %ids, 1), kwargs = {})
 *
 * of which the third argument is the row. In PyTorch's other files the row is told by its zeros: PyTorch starts it so,
 * and without a gradient it stays so. */
#include "graph/passes/trainable/constants.h"
#include "graph/passes/trainable/torch.h"
#include "graph/passes/trainable/trainable.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The third argument of the call; -1: it has none. */
static int64_t traced_row(const char *call) {
    static const char target[] = "target=torch.ops.aten.embedding.default](args = (";
    const char *at = strstr(call, target);
    at = at ? at + sizeof target - 1 : NULL;
    for (int skipped = 0; at && skipped < 2; skipped++) {
        at += strcspn(at, ",)");
        at = *at == ',' ? at + 2 : NULL;
    }
    return at && isdigit((unsigned char)*at) ? strtoll(at, NULL, 10) : -1;
}

static bool is_zeros(const struct zt_value *table, int64_t row) {
    const int64_t columns = table->shape.dim[1];
    for (int64_t i = 0; i < columns; i++)
        if (zt_constant_at(table, row * columns + i) != 0)
            return false;
    return columns > 0;
}

/* The only row of zeros; -1: there are none or several. */
static int64_t row_of_zeros(const struct zt_value *table) {
    int64_t found = -1;
    for (int64_t row = 0; table->data && row < table->shape.dim[0]; row++)
        if (is_zeros(table, row)) {
            if (found >= 0)
                return -1;
            found = row;
        }
    return found;
}

int64_t zt_trainable_padding(const struct zt_onnx *model, const struct zt_node *lookup, const struct zt_value *table) {
    const enum zt_writer writer = zt_writer_of(model);
    const bool torch = writer == ZT_WRITER_DYNAMO || writer == ZT_WRITER_TORCHSCRIPT || writer == ZT_WRITER_STRIPPED;
    if (table->shape.rank != 2 || !torch)
        return -1;
    const int64_t row = lookup->torch_fx_node ? traced_row(lookup->torch_fx_node) : row_of_zeros(table);
    return row < table->shape.dim[0] ? row : -1;
}
