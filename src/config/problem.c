/* The problems of a configuration: collected while its values are checked, and reported in the order of its lines.
 * Problems that model or data reveal later are located by the key with which their text begins. */
#include "config/read.h"

#include "base/show.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char *format(struct zt_reading *r, const char *fmt, va_list ap) {
    char text[ZT_ERR_TEXT];
    vsnprintf(text, sizeof text, fmt, ap);
    return zt_arena_strdup(r->arena, text);
}

/* The place of a value, "FILE:LINE:COLUMN: key.path: " or "--set key.path: ". */
static const char *place(struct zt_reading *r, const struct zt_json_node *node) {
    char path[256];
    zt_json_node_path(node, path, sizeof path);
    const char *colon = path[0] ? ": " : "";
    if (node->source)
        return zt_arena_printf(r->arena, "%s:%d:%d: %s%s", node->source->file, node->line, node->column, path, colon);
    const char *space = strchr(node->option, ' '); /* "--set key.path" need not say the key twice */
    if (space && strcmp(space + 1, path) == 0)
        return zt_arena_printf(r->arena, "%s: ", node->option);
    return zt_arena_printf(r->arena, "%s: %s%s", node->option, path, colon);
}

bool zt_key_fail(struct zt_reading *r, const struct zt_json_node *node, const char *fmt, ...) {
    if (r->problem_count++ >= ZT_CONFIG_PROBLEMS)
        return false;
    va_list ap;
    va_start(ap, fmt);
    const char *text = zt_arena_printf(r->arena, "%s%s", place(r, node), format(r, fmt, ap));
    va_end(ap);
    zt_vec_push(&r->problems,
                (struct zt_reading_problem){
                    .layer = zt_json_node_layer(node), .line = node->line, .column = node->column, .text = text });
    return false;
}

void zt_key_hint(struct zt_reading *r, const char *fmt, ...) {
    if (r->problem_count > r->problems.count)
        return;
    va_list ap;
    va_start(ap, fmt);
    r->problems.at[r->problems.count - 1].hint = format(r, fmt, ap);
    va_end(ap);
}

static int by_place(const void *a, const void *b) {
    const struct zt_reading_problem *x = a, *y = b;
    const int first[] = { x->layer, x->line, x->column, x->order },
              second[] = { y->layer, y->line, y->column, y->order };
    for (int i = 0; i < 4; i++)
        if (first[i] != second[i])
            return first[i] < second[i] ? -1 : 1;
    return 0;
}

void zt_problems_report(struct zt_reading *r) {
    for (int i = 0; i < r->problems.count; i++)
        r->problems.at[i].order = i;
    if (r->problems.count)
        qsort(r->problems.at, (size_t)r->problems.count, sizeof *r->problems.at, by_place);
    r->err->keeps_all = true;
    for (int i = 0; i < r->problems.count; i++) {
        zt_fail(r->err, ZT_EXIT_CONFIG, "%s", r->problems.at[i].text);
        if (r->problems.at[i].hint)
            zt_hint(r->err, "%s", r->problems.at[i].hint);
    }
    r->err->keeps_all = false;
    r->err->count += r->problem_count - r->problems.count;
    zt_vec_finish(&r->problems);
}

/* ---- problems found after the files were read ---- */

/* The child of `node` whose name `text` begins with, the longest where names hold dots; *end: the text behind it. */
static const struct zt_json_node *child_named(const struct zt_json_node *node, const char *text, const char **end) {
    const struct zt_json_node *found = NULL;
    size_t longest = 0;
    char index[16];
    for (const struct zt_json_node *child = node->first; child; child = child->next) {
        const char *name = child->key;
        if (!name) {
            snprintf(index, sizeof index, "[%d]", child->index);
            name = index;
        }
        size_t n = strlen(name);
        if (n <= longest || strncmp(text, name, n) != 0 || (text[n] && !strchr(".[: ", text[n])))
            continue;
        found = child;
        longest = n;
    }
    *end = text + longest;
    return found;
}

/* The value whose path `message` begins with, or the list that lacks the item. NULL: it was not given. */
static const struct zt_json_node *value_of(const struct zt_config *config, const char *message) {
    const struct zt_json_node *node = config->root, *child;
    const char *rest = message, *end;
    while ((child = child_named(node, rest + (*rest == '.'), &end))) {
        node = child;
        rest = end;
    }
    bool whole = node != config->root && *rest != '.';
    return whole && (node->source || strncmp(node->option, "--", 2) == 0) ? node : NULL;
}

const char *zt_config_origin(const struct zt_config *config, const char *files, const char *message,
                             char to[ZT_CONFIG_ORIGIN]) {
    const struct zt_json_node *node = value_of(config, message);
    if (node && node->source)
        snprintf(to, ZT_CONFIG_ORIGIN, "%.255s:%d:%d", node->source->file, node->line, node->column);
    else
        snprintf(to, ZT_CONFIG_ORIGIN, "%s", node ? node->option : files);
    return to;
}

bool zt_config_locate(const struct zt_config *config, const char *files, struct zt_err *err, int first) {
    for (int i = first; i < err->count && i < ZT_ERR_LINES; i++) {
        char origin[ZT_CONFIG_ORIGIN], shown[ZT_CONFIG_ORIGIN], prefix[ZT_CONFIG_ORIGIN + 2];
        const char *text = err->text[i];
        zt_show(shown, sizeof shown, zt_config_origin(config, files, text, origin));
        const char *space = strncmp(shown, "--", 2) == 0 ? strchr(shown, ' ') : NULL;
        size_t n = space ? strlen(space + 1) : 0;
        if (n && strncmp(text, space + 1, n) == 0 && text[n] != '.') /* "--set key.path" need not say the key twice */
            snprintf(prefix, sizeof prefix, "%.*s ", (int)(space - shown), shown);
        else
            snprintf(prefix, sizeof prefix, "%s: ", shown);
        zt_err_prepend(err, i, prefix);
    }
    return false;
}

void zt_texts_add(struct zt_arena *arena, struct zt_texts *texts, const char *fmt, ...) {
    char text[ZT_ERR_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    bool full = (texts->count & (texts->count - 1)) == 0; /* the room is the next power of two */
    if (full) {
        const char **old = texts->at;
        texts->at = ZT_NEW_N(arena, const char *, texts->count ? 2 * texts->count : 1);
        if (old)
            memcpy(texts->at, old, (size_t)texts->count * sizeof *old);
    }
    texts->at[texts->count++] = zt_arena_strdup(arena, text);
}
