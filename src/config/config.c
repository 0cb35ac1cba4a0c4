/* Reads a configuration in five steps: parse the file to a tree of values (json.c); add the command line (set.c) and
 * rename deprecated keys (deprecated.c); check every value against its row (keys.c); check conflicts and the batch
 * arithmetic (check.c, batch.c); refuse what is not supported, by name and all at once (keys.c). */
#include "config/config.h"

#include "base/file.h"
#include "config/batch.h"
#include "config/check.h"
#include "config/deprecated.h"
#include "config/json.h"
#include "config/keys.h"
#include "config/set.h"

#include <stdlib.h>
#include <string.h>

static struct zt_node *read_file(struct zt_arena *arena, const char *path, struct zt_err *err) {
    struct zt_file_map map;
    if (!zt_file_map(&map, path, ZT_EXIT_CONFIG, err))
        return NULL;
    struct zt_json_text text = { .file = path, .at = map.data, .size = map.size };
    struct zt_node *root = zt_json_read(&text, arena, err);
    if (!zt_file_close(&map, root != NULL, err))
        return NULL;
    if (root->kind != ZT_NODE_OBJECT) {
        zt_fail(err, ZT_EXIT_CONFIG, "%s:%d:%d: expected an object: '{'", path, root->line, root->column);
        return NULL;
    }
    return root;
}

static void open_table(struct zt_reading *r, const struct zt_key_catalog *catalog) {
    const struct zt_key_table *t = r->config->table = r->table = zt_key_table_create(r->arena, catalog);
    r->node = ZT_NEW_N(r->arena, struct zt_node *, t->count);
    r->next = ZT_NEW_N(r->arena, int, t->count);
    for (int i = t->count - 1; i >= 0; i--) { /* backwards: the map ends with the first row of a key */
        r->next[i] = zt_map_get(&r->by_key, t->row[i]->key, -1);
        zt_map_put(&r->by_key, t->row[i]->key, i);
    }
}

static bool resolve(struct zt_reading *r, const struct zt_config_overrides *over) {
    int before = r->err->count;
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
    return r->err->count == before;
}

struct zt_config *zt_config_read(const char *path, const struct zt_config_overrides *over,
                                 const struct zt_key_catalog *catalog, struct zt_err *err) {
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
    open_table(&r, catalog);
    bool ok = r.root && resolve(&r, over ? over : &none);
    zt_map_finish(&r.by_key);
    if (ok && err->count == before)
        return config;
    zt_config_destroy(config);
    return NULL;
}

void zt_config_destroy(struct zt_config *config) {
    if (config)
        zt_arena_destroy(config->arena);
}
