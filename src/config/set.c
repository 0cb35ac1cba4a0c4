/* Overrides the files by the command line: each option becomes a value of a tree under its key path, so that the same
 * rows check it, and an error names the option. */
#include "config/set.h"

#include "config/deprecated.h"
#include "config/json/json.h"
#include "config/overlay.h"

#include <stdio.h>
#include <string.h>

/* The tree of the options. */
struct options {
    struct zt_reading *r;
    struct zt_json_node *root;
};

/* Refuses an option that sets a value where `old`, of another option, makes a key of it: one of them would be lost. */
static void refuse_inside(const struct options *o, const struct zt_json_node *value, const struct zt_json_node *old) {
    char path[256], shown[64];
    zt_json_node_path(old, path, sizeof path);
    if (old->kind == ZT_JSON_NODE_OBJECT)
        zt_key_fail(o->r, value, "%s is %s here, but %s sets a key inside it", path,
                    zt_json_node_show(value, shown, sizeof shown), old->option);
    else
        zt_key_fail(o->r, value, "sets a key inside %s, but %s makes it %s", path, old->option,
                    zt_json_node_show(old, shown, sizeof shown));
}

/* Puts `value` under `key` of `at`. An object is laid over an object key by key; otherwise the later value counts. */
static void put_child(const struct options *o, struct zt_json_node *at, const char *key, struct zt_json_node *value) {
    struct zt_json_node *old = zt_json_node_child(at, key);
    if (old && old->kind == ZT_JSON_NODE_OBJECT && value->kind == ZT_JSON_NODE_OBJECT) {
        old->replaces |= value->replaces;
        for (struct zt_json_node *child = value->first, *next; child; child = next) {
            next = child->next;
            put_child(o, old, child->key, child);
        }
        return;
    }
    if (old && old->kind == ZT_JSON_NODE_OBJECT && value->kind != ZT_JSON_NODE_NULL) {
        refuse_inside(o, value, old);
        return;
    }
    if (old)
        zt_json_node_remove(old);
    value->key = key;
    zt_json_node_append(at, value);
}

/* Puts `value` at the end of `path` and creates the objects on the way. */
static void put(const struct options *o, const char *path, struct zt_json_node *value) {
    struct zt_reading *r = o->r;
    struct zt_json_node *at = o->root;
    value->replaces = true;
    for (size_t n; path[n = strcspn(path, ".")]; path += n + 1) {
        const char *key = zt_arena_strndup(r->arena, path, n);
        struct zt_json_node *old = zt_json_node_child(at, key);
        if (old && old->kind != ZT_JSON_NODE_OBJECT && old->kind != ZT_JSON_NODE_NULL) {
            refuse_inside(o, value, old);
            return;
        }
        if (!old) {
            old = zt_json_node_create(r->arena, ZT_JSON_NODE_OBJECT, key, value->option);
            zt_json_node_append(at, old);
        }
        old->kind = ZT_JSON_NODE_OBJECT; /* null empties the object, which then takes the key */
        at = old;
    }
    put_child(o, at, zt_arena_strdup(r->arena, path), value);
}

static struct zt_json_node *text_node(struct zt_reading *r, const char *text, const char *option) {
    struct zt_json_node *node = zt_json_node_create(r->arena, ZT_JSON_NODE_TEXT, NULL, option);
    node->text = zt_arena_strdup(r->arena, text);
    return node;
}

static struct zt_json_node *integer_node(struct zt_reading *r, int64_t value, const char *option) {
    struct zt_json_node *node = zt_json_node_create(r->arena, ZT_JSON_NODE_NUMBER, NULL, option);
    node->number = (double)value;
    node->integer = value;
    node->whole = true;
    return node;
}

/* "--set key.path=value". The value is JSON where it parses as JSON, else a text. */
static bool set(const struct options *o, const char *option) {
    struct zt_reading *r = o->r;
    const char *equals = strchr(option, '=');
    if (!equals || equals == option)
        return zt_fail(r->err, ZT_EXIT_CONFIG, "--set %s: expected key.path=value", option);
    char *path = zt_arena_strndup(r->arena, option, (size_t)(equals - option));
    const char *name = zt_arena_printf(r->arena, "--set %s", path);
    struct zt_err quiet = { 0 };
    struct zt_json_text text = {
        .file = name, .at = (const unsigned char *)equals + 1, .size = strlen(equals + 1), .option = name
    };
    struct zt_json_node *value = zt_json_read(&text, r->arena, &quiet);
    if (!value) {
        value = text_node(r, equals + 1, name);
        if (equals[1] && strchr("{[+-0123456789", equals[1])) /* meant as JSON */
            value->not_json = zt_arena_strdup(r->arena, quiet.text[0] + strlen(name) + strlen(":"));
    }
    put(o, path, value);
    return true;
}

/* "--data FORMAT:PATH"; a format whose samples are computed needs no path. */
static void set_data(const struct options *o, const char *data, bool evaluates) {
    struct zt_reading *r = o->r;
    size_t n = strcspn(data, ":");
    if (!data[n] && strpbrk(data, "./")) {
        zt_fail(r->err, ZT_EXIT_CONFIG, "--data %s: the format is missing, wants FORMAT:PATH", data);
        return;
    }
    struct zt_json_node *eval_path = zt_json_node_find(r->root, "ztrain.data.eval_path");
    if (evaluates && eval_path) /* --data replaces the evaluation data of the files */
        zt_json_node_remove(eval_path);
    put(o, "ztrain.data.format", text_node(r, zt_arena_strndup(r->arena, data, n), "--data"));
    const bool names = data[n] && data[n + 1]; /* otherwise the path of the files goes, too: it is another format's */
    put(o, "ztrain.data.path",
        names ? text_node(r, data + n + 1, "--data")
              : zt_json_node_create(r->arena, ZT_JSON_NODE_NULL, NULL, "--data"));
}

void zt_config_lay_options(struct zt_reading *r, const struct zt_config_overrides *over) {
    const struct options o = { r, zt_json_node_create(r->arena, ZT_JSON_NODE_OBJECT, NULL, "the command line") };
    const struct {
        const char *option, *key;
        int64_t value;
    } numbers[] = {
        { "--epochs", "ztrain.epochs", over->epochs },
        { "--steps", "ztrain.steps", over->steps },
        { "--seed", "ztrain.seed", over->seed },
    };
    for (int i = 0; i < over->set_count; i++)
        set(&o, over->set[i]);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (numbers[i].value != -1)
            put(&o, numbers[i].key, integer_node(r, numbers[i].value, numbers[i].option));
    if (over->epochs != -1 && !zt_json_node_find(o.root, "ztrain.steps") && zt_json_node_find(r->root, "ztrain.steps"))
        put(&o, "ztrain.steps", integer_node(r, 0, "--epochs")); /* steps of a file would win over epochs */
    if (over->data)
        set_data(&o, over->data, over->evaluates);
    if (over->device)
        put(&o, "ztrain.device", text_node(r, over->device, "--device"));
    if (over->cluster)
        put(&o, "ztrain.cluster", text_node(r, over->cluster, "--cluster"));
    if (over->threads < 0)
        zt_fail(r->err, ZT_EXIT_CONFIG, "--threads: %d, allowed >= 0", over->threads);
    r->config->threads = over->threads;
    zt_config_drop_comments(r, o.root);
    zt_config_modernise(r, o.root);
    zt_config_lay_over(r, r->root, o.root);
}
