/* Reads a configuration in five steps: parse the files to trees of values (json.c) with today's keys (deprecated.c);
 * lay them over one another (overlay.c), and the command line over them (set.c); check every value against its row
 * (keys.c); check conflicts and the batch arithmetic (check.c, batch.c); refuse what is not supported, by name
 * (refuse.c). All problems are reported at once. */
#include "config/config.h"

#include "base/file.h"
#include "config/batch.h"
#include "config/check.h"
#include "config/defaults.h"
#include "config/deprecated.h"
#include "config/json/json.h"
#include "config/keys.h"
#include "config/overlay.h"
#include "config/refuse.h"
#include "config/set.h"

#include <stdlib.h>
#include <string.h>

static struct zt_json_node *read_file(struct zt_reading *r, const struct zt_config_source *source) {
    struct zt_file_map map;
    if (!zt_file_map(&map, source->file, ZT_EXIT_CONFIG, r->err))
        return NULL;
    struct zt_json_text text = { .file = source->file, .at = map.data, .size = map.size, .source = source };
    struct zt_json_node *root = zt_json_read(&text, r->arena, r->err);
    if (!zt_file_close(&map, root != NULL, r->err))
        return NULL;
    if (root->kind == ZT_JSON_NODE_OBJECT)
        return root;
    zt_fail(r->err, ZT_EXIT_CONFIG, "%s:%d:%d: expected an object: '{'", source->file, root->line, root->column);
    return NULL;
}

static const struct zt_config_source *open_source(struct zt_reading *r, const char *path, int layer, bool several) {
    char *folder = zt_path_folder(path);
    struct zt_config_source source = { zt_arena_strdup(r->arena, path), zt_arena_strdup(r->arena, folder), layer,
                                       several };
    free(folder);
    return zt_arena_copy(r->arena, &source, sizeof source);
}

/* Reads all files, so that the problems of each are reported, and lays each over the ones before it. */
static bool read_files(struct zt_reading *r, const struct zt_texts *paths) {
    bool ok = true;
    for (int i = 0; i < paths->count; i++) {
        struct zt_json_node *root = read_file(r, open_source(r, paths->at[i], i, paths->count > 1));
        if (!root) {
            ok = false;
            continue;
        }
        r->holes |= root->holes;
        zt_config_drop_comments(r, root);
        zt_config_modernise(r, root);
        if (r->root)
            zt_config_lay_over(r, r->root, root);
        else
            r->root = root;
    }
    return ok;
}

static void open_table(struct zt_reading *r, const struct zt_key_catalog *catalog) {
    const struct zt_key_table *t = r->config->table = r->table = zt_key_table_create(r->arena, catalog);
    r->node = ZT_NEW_N(r->arena, struct zt_json_node *, t->count);
    r->next = ZT_NEW_N(r->arena, int, t->count);
    for (int i = t->count - 1; i >= 0; i--) { /* backwards: the map ends with the first row of a key */
        r->next[i] = zt_map_get(&r->by_key, t->row[i]->key, -1);
        zt_map_put(&r->by_key, t->row[i]->key, i);
    }
}

static void resolve(struct zt_reading *r, const struct zt_config_overrides *over) {
    zt_config_lay_options(r, over);
    zt_config_add_defaults(r, !over->evaluates);
    zt_keys_read(r);
    if (r->holes)
        return;
    zt_config_conflicts(r);
    zt_config_batch(r, over);
    zt_keys_refuse(r);
    if (r->problem_count == 0) {
        zt_config_derive(r, over);
        if (!over->evaluates)
            zt_config_note_defaults(r);
        zt_keys_note(r);
    }
    r->config->given = (const struct zt_json_node *const *)r->node;
}

struct zt_config *zt_config_read(const struct zt_texts *paths, const struct zt_config_overrides *over,
                                 const struct zt_key_catalog *catalog, struct zt_err *err) {
    static const struct zt_config_overrides none = { .epochs = -1, .steps = -1, .seed = -1 };
    struct zt_arena *arena = zt_arena_create();
    struct zt_config *config = ZT_NEW(arena, struct zt_config);
    int before = err->count;
    *config = (struct zt_config){ .arena = arena };
    struct zt_reading r = { .config = config, .arena = arena, .err = err };
    open_table(&r, catalog);
    if (read_files(&r, paths))
        resolve(&r, over ? over : &none);
    zt_problems_report(&r);
    zt_map_finish(&r.by_key);
    config->root = r.root;
    if (err->count == before)
        return config;
    zt_config_destroy(config);
    return NULL;
}

void zt_config_destroy(struct zt_config *config) {
    if (config)
        zt_arena_destroy(config->arena);
}
