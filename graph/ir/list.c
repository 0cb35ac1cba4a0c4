#include "graph/ir/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void zt_list_set(struct zt_graph *g, int value, const struct zt_list *list) {
    struct zt_list *own = zt_arena_copy(g->arena, list, sizeof *list);
    own->room = NULL;
    own->at = list->count > 0 ? zt_arena_copy(g->arena, list->at, (size_t)list->count * sizeof *list->at) : NULL;
    zt_list_share(g, value, own);
}

void zt_list_share(struct zt_graph *g, int value, const struct zt_list *list) {
    struct zt_value *v = g->values[value];
    v->list = list;
    v->dtype = ZT_UNDEFINED;
    v->shape = (struct zt_shape){ .rank = -1 };
    v->data = NULL;
}

int zt_list_append(struct zt_graph *g, int value, const struct zt_list *list, int element) {
    struct zt_list *longer = zt_arena_copy(g->arena, list, sizeof *list);
    const int count = list->count;
    const bool fits = list->room && list->room->used == count && count < list->room->room;
    if (!fits) {
        longer->room = ZT_NEW(g->arena, struct zt_list_room);
        *longer->room = (struct zt_list_room){ ZT_NEW_N(g->arena, int, 2 * count + 8), count, 2 * count + 8 };
        if (count)
            memcpy(longer->room->ids, list->at, (size_t)count * sizeof *list->at);
    }
    longer->room->ids[longer->room->used++] = element;
    longer->at = longer->room->ids;
    longer->count = count + 1;
    zt_list_share(g, value, longer);
    return fits ? 0 : longer->room->room;
}

static int copy_tensor(struct zt_graph *to, const struct zt_value *v, enum zt_origin origin) {
    const int id = zt_graph_add_value(to, v->name, v->dtype, &v->shape);
    to->values[id]->origin = origin;
    to->values[id]->data = v->data;
    return id;
}

/* The elements of a sequence are tensors, so one list inside another is the deepest case. */
int zt_list_copy(struct zt_graph *to, const struct zt_graph *from, int value, enum zt_origin origin) {
    const struct zt_value *v = from->values[value];
    if (!v->list)
        return copy_tensor(to, v, origin);
    struct zt_list list = *v->list;
    int *at = zt_malloc(((size_t)(list.count > 0 ? list.count : 0) + 1) * sizeof *at);
    for (int i = 0; i < list.count; i++)
        at[i] = zt_list_copy(to, from, list.at[i], origin);
    list.at = at;
    const int id = zt_graph_add_value(to, v->name, ZT_UNDEFINED, NULL);
    to->values[id]->origin = origin;
    zt_list_set(to, id, &list);
    free(at);
    return id;
}

int zt_list_tensor_count(const struct zt_graph *g, int value) {
    const struct zt_list *l = g->values[value]->list;
    int count = l ? 0 : 1;
    for (int i = 0; l && i < l->count; i++)
        count += zt_list_tensor_count(g, l->at[i]);
    return count;
}

int zt_list_tensor(const struct zt_graph *g, int value, int index) {
    const struct zt_list *l = g->values[value]->list;
    if (!l)
        return index == 0 ? value : -1;
    if (l->kind == ZT_SEQUENCE)
        return index < l->count ? l->at[index] : -1;
    return l->count > 0 ? zt_list_tensor(g, l->at[0], index) : -1;
}

char *zt_list_text(const struct zt_list *l, char *to) {
    const char *what = l->kind == ZT_SEQUENCE ? "sequence" : l->of_sequence ? "optional sequence" : "optional";
    snprintf(to, ZT_LIST_TEXT, "%s%s%s", what, l->dtype ? " of " : "", l->dtype ? zt_dtype_name(l->dtype) : "");
    return to;
}
