#include "ops/reduce/reduce_cpu.h"

#include "ops/kernel/layout.h"
#include "ops/kernel/shape.h"
#include "ops/kernel/tile.h"

struct zt_shape zt_reduce_memory(struct zt_prepare *p, bool over[ZT_MAX_RANK], struct zt_reduce_channels *channels) {
    struct zt_shape x = zt_in(p->graph, p->node, 0)->shape;
    int block;
    bool blocked = zt_layout_order(p->in_layout[0], &block) == ZT_ORDER_BLOCKED;
    const bool ends = blocked && x.dim[1] % block != 0; /* which needs an axis that is reduced behind it */
    blocked = blocked && (!ends || (!over[1] && zt_dims(&x, 2, x.rank) > 1));
    for (int k = 2; blocked && k < x.rank; k++)
        blocked = over[k];
    for (int i = blocked ? 1 : 0; i < p->graph->nodes[p->node]->in_count; i++)
        p->in_layout[i] = NULL;
    *channels = (struct zt_reduce_channels){ 0 };
    if (!blocked)
        return x;
    if (ends)
        *channels = (struct zt_reduce_channels){ x.dim[1], zt_ceil_div(x.dim[1], block) };
    x.dim[1] = zt_ceil_div(x.dim[1], block);
    over[x.rank] = over[1];
    x.dim[x.rank++] = block;
    return x;
}
