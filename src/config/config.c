/* Reading in six steps: bytes -> plain JSON with marks (scan.c) -> tree -> command line laid over (set.c)
 * and deprecated keys renamed (deprecated.c) -> every value against its row (keys.c) -> conflicts and batch
 * arithmetic (check.c, batch.c) -> what is not there yet refused, by name and all at once. */
#include "config/config.h"
#include "base/file.h"
#include "config/read.h"
#include "config/scan.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* cJSON's tree and the scan's marks, walked side by side. */
struct pairing {
    const struct zt_scan *scan;
    int next; /* mark */
    const char *file, *option;
    struct zt_arena *arena;
    struct zt_err *err;
};

/* A number without fraction or exponent is read once more, exactly; cJSON holds a double. */
static void read_number(struct zt_node *node, const struct zt_scan *scan, const struct zt_scan_mark *mark) {
    const char *text = scan->clean + mark->begin;
    bool plain = strcspn(text, ".eE") >= mark->end - mark->begin;
    errno = 0;
    long long exact = plain ? strtoll(text, NULL, 10) : 0;
    node->whole = plain ? errno == 0 : fabs(node->number) < 9.2e18 && node->number == trunc(node->number);
    node->integer = plain ? exact : node->whole ? (int64_t)node->number : 0;
}

static struct zt_node *build(struct pairing *p, const cJSON *json, struct zt_node *parent, int index);

static void build_members(struct pairing *p, struct zt_node *parent, const cJSON *json) {
    struct zt_map seen = { 0 }; /* key -> line */
    struct zt_node *last = NULL;
    for (const cJSON *item = json->child; item; item = item->next) {
        struct zt_node *node = build(p, item, parent, last ? last->index + 1 : 0);
        int first = node->key ? zt_map_get(&seen, node->key, 0) : 0;
        if (first) {
            char path[256];
            zt_fail(p->err, ZT_EXIT_CONFIG, "%s:%d:%d: %s: given twice, in line %d and in line %d", p->file, node->line,
                    node->column, zt_node_path(node, path, sizeof path), first, node->line);
            continue;
        }
        if (node->key)
            zt_map_put(&seen, node->key, node->line);
        *(last ? &last->next : &parent->first) = node;
        last = node;
    }
    zt_map_finish(&seen);
}

static struct zt_node *build(struct pairing *p, const cJSON *json, struct zt_node *parent, int index) {
    static const struct {
        int type;
        enum zt_node_kind kind;
    } kinds[] = { { cJSON_True, ZT_NODE_BOOL },   { cJSON_False, ZT_NODE_BOOL }, { cJSON_Number, ZT_NODE_NUMBER },
                  { cJSON_String, ZT_NODE_TEXT }, { cJSON_Array, ZT_NODE_LIST }, { cJSON_Object, ZT_NODE_OBJECT },
                  { cJSON_NULL, ZT_NODE_NULL } };
    struct zt_node *node = zt_node_create(p->arena, ZT_NODE_NULL, NULL, p->option);
    const struct zt_scan_mark *mark = &p->scan->mark[p->next++];
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if ((json->type & 0xff) == kinds[i].type)
            node->kind = kinds[i].kind;
    node->parent = parent;
    node->index = index;
    node->key = json->string ? zt_arena_strdup(p->arena, json->string) : NULL;
    node->line = mark->line;
    node->column = mark->column;
    node->truth = cJSON_IsTrue(json);
    if (node->kind == ZT_NODE_TEXT)
        node->text = zt_arena_strdup(p->arena, json->valuestring);
    if (node->kind == ZT_NODE_NUMBER) {
        node->number = json->valuedouble;
        read_number(node, p->scan, mark);
        if (!isfinite(node->number))
            zt_fail(p->err, ZT_EXIT_CONFIG, "%s:%d:%d: the number %.*s is too large", p->file, node->line, node->column,
                    (int)(mark->end - mark->begin), p->scan->clean + mark->begin);
    }
    build_members(p, node, json);
    return node;
}

struct zt_node *zt_config_parse(struct zt_arena *arena, const char *file, const unsigned char *text, size_t size,
                                const char *option, struct zt_err *err) {
    struct zt_scan scan;
    if (!zt_config_scan(&scan, arena, file, text, size, err))
        return NULL;
    /* from here on in the whole process: what does not parse is not what no memory was left for */
    cJSON_InitHooks(&(cJSON_Hooks){ zt_malloc, free });
    cJSON *json = cJSON_ParseWithLength(scan.clean, size);
    if (!json) {
        zt_fail(err, ZT_EXIT_CONFIG, "%s: cJSON cannot read it (out of memory?)", file);
        return NULL;
    }
    struct pairing p = { .scan = &scan, .file = file, .option = option, .arena = arena, .err = err };
    int before = err->count;
    struct zt_node *root = build(&p, json, NULL, 0);
    cJSON_Delete(json);
    return err->count == before || !option ? root : NULL;
}

static struct zt_node *read_file(struct zt_arena *arena, const char *path, struct zt_err *err) {
    struct zt_file_map map;
    if (!zt_file_map(&map, path, ZT_EXIT_CONFIG, err))
        return NULL;
    struct zt_node *root = zt_config_parse(arena, path, map.data, map.size, NULL, err);
    if (!zt_file_close(&map, root != NULL, err))
        return NULL;
    if (root->kind != ZT_NODE_OBJECT) {
        zt_fail(err, ZT_EXIT_CONFIG, "%s:%d:%d: expected an object: '{'", path, root->line, root->column);
        return NULL;
    }
    return root;
}

static void open_table(struct zt_reading *r) {
    r->count = (int)zt_key_count();
    r->row = ZT_NEW_N(r->arena, const struct zt_key_row *, r->count);
    r->node = ZT_NEW_N(r->arena, struct zt_node *, r->count);
    for (int i = r->count - 1; i >= 0; i--) { /* backwards: the first row of a key stays */
        r->row[i] = zt_key_at((size_t)i);
        zt_map_put(&r->by_key, r->row[i]->key, i);
    }
}

static bool resolve(struct zt_reading *r, const struct zt_config_overrides *over) {
    int before = r->err->count;
    open_table(r);
    zt_config_overlay(r, over);
    zt_config_modernise(r);
    zt_keys_read(r);
    zt_config_conflicts(r);
    zt_config_batch(r, over);
    zt_keys_refuse(r, false);
    if (r->err->count == before)
        zt_keys_refuse(r, true);
    if (r->err->count == before) {
        zt_config_derive(r, over);
        zt_keys_note(r);
    }
    zt_map_finish(&r->by_key);
    return r->err->count == before;
}

struct zt_config *zt_config_read(const char *path, const struct zt_config_overrides *over, struct zt_err *err) {
    static const struct zt_config_overrides none = { .epochs = -1, .steps = -1, .seed = -1 };
    struct zt_arena *arena = zt_arena_create();
    struct zt_config *config = ZT_NEW(arena, struct zt_config);
    int before = err->count;
    char *folder = zt_path_folder(path);
    *config = (struct zt_config){ .arena = arena, .path = zt_arena_strdup(arena, path) };
    config->folder = zt_arena_strdup(arena, folder);
    free(folder);
    struct zt_reading r = { .config = config, .arena = arena, .err = err, .file = config->path };
    r.root = read_file(arena, config->path, err);
    bool ok = r.root && resolve(&r, over ? over : &none);
    if (ok && err->count == before)
        return config;
    zt_config_destroy(config);
    return NULL;
}

void zt_config_destroy(struct zt_config *config) {
    if (config)
        zt_arena_destroy(config->arena);
}
