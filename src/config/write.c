/* Writes config.resolved.json: the keys that work, in table order, with their values. Read back, the file gives the
 * same configuration. */
#include "config/config.h"
#include "base/file.h"
#include "base/text.h"
#include "config/json/node_text.h"
#include "config/offload.h"
#include "config/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void write_text(FILE *to, const char *text) {
    fputc('"', to);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\')
            fprintf(to, "\\%c", *p);
        else if (*p < 0x20)
            fprintf(to, "\\u%04x", *p);
        else
            fputc(*p, to);
    }
    fputc('"', to);
}

static void write_number(FILE *to, double value) {
    char text[ZT_NUMBER_TEXT];
    fputs(zt_format_number(text, value), to);
}

static void write_numbers(FILE *to, const double *at, int count) {
    for (int i = 0; i < count; i++) {
        fputs(i ? ", " : "[", to);
        write_number(to, at[i]);
    }
    fputs(count ? "]" : "null", to);
}

static void write_texts(FILE *to, const struct zt_texts *texts) {
    fputc('[', to);
    for (int i = 0; i < texts->count; i++) {
        fputs(i ? ", " : "", to);
        write_text(to, texts->at[i]);
    }
    fputc(']', to);
}

static void write_text_lists(FILE *to, const struct zt_text_lists *lists) {
    fputc('[', to);
    for (int i = 0; i < lists->count; i++) {
        fputs(i ? ", " : "", to);
        write_texts(to, &lists->at[i]);
    }
    fputc(']', to);
}

/* Absolute, since the file may be in another folder than the paths are relative to. */
static void write_path(FILE *to, const char *path) {
    char *here = getcwd(NULL, 0);
    char *whole = zt_path_join(here ? here : "", path);
    write_text(to, whole);
    free(whole);
    free(here);
}

static void write_groups(FILE *to, const struct zt_config *config) {
    fputc('[', to);
    for (int i = 0; i < config->group_count; i++) {
        const struct zt_group_config *group = &config->groups[i];
        fputs(i ? ", {\"match\": " : "{\"match\": ", to);
        write_text(to, group->match);
        if (!isnan(group->lr)) {
            fputs(", \"lr\": ", to);
            write_number(to, group->lr);
        }
        if (!isnan(group->weight_decay)) {
            fputs(", \"weight_decay\": ", to);
            write_number(to, group->weight_decay);
        }
        if (group->use_muon >= 0)
            fprintf(to, ", \"use_muon\": %s", group->use_muon ? "true" : "false");
        fputc('}', to);
    }
    fputc(']', to);
}

static void write_paddings(FILE *to, const struct zt_config *config) {
    fputc('{', to);
    for (int i = 0; i < config->padding_count; i++) {
        fputs(i ? ", " : "", to);
        write_text(to, config->paddings[i].match);
        fprintf(to, ": %lld", (long long)config->paddings[i].row);
    }
    fputc('}', to);
}

static int64_t whole(const struct zt_key_row *row, const void *at) {
    return row->size == sizeof(int) ? *(const int *)at : *(const int64_t *)at;
}

/* Whether `value` of a number that keeps "auto" means "auto". */
static bool means_auto(const struct zt_key_row *row, double value) {
    return row->keeps_auto && value == atof(row->automatic ? row->automatic : row->def);
}

/* A text at `at`, NULL: none. */
static void write_text_of(FILE *to, const struct zt_key_row *row, const void *at) {
    const char *text;
    memcpy(&text, at, sizeof text);
    if (!text)
        fputs("null", to);
    else if (row->type == ZT_KEY_PATH)
        write_path(to, text);
    else if (row->type == ZT_KEY_FREE)
        fputs(text, to);
    else
        write_text(to, text);
}

static void write_value(FILE *to, const struct zt_config *config, const struct zt_key_row *row) {
    const void *at = zt_key_stored(config, row);
    switch (row->type) {
    case ZT_KEY_BOOL:
        fputs(*(const bool *)at ? "true" : "false", to);
        break;
    case ZT_KEY_INT:
        if (means_auto(row, (double)whole(row, at)))
            fputs("\"auto\"", to);
        else
            fprintf(to, "%lld", (long long)whole(row, at));
        break;
    case ZT_KEY_BYTES:
        if (*(const int64_t *)at)
            fprintf(to, "%lld", (long long)*(const int64_t *)at);
        else
            fputs("null", to);
        break;
    case ZT_KEY_NUMBER:
        if (means_auto(row, *(const double *)at))
            fputs("\"auto\"", to);
        else
            write_number(to, *(const double *)at);
        break;
    case ZT_KEY_PAIR:
        write_numbers(to, at, 2);
        break;
    case ZT_KEY_EACH:
        if (((const struct zt_numbers *)at)->count == 1) {
            write_number(to, ((const struct zt_numbers *)at)->at[0]);
            break;
        } /* else a list */
        /* fall through */
    case ZT_KEY_NUMBERS:
        write_numbers(to, ((const struct zt_numbers *)at)->at, ((const struct zt_numbers *)at)->count);
        break;
    case ZT_KEY_INDEX:
        write_text(to, row->choices[row->size == sizeof(bool) ? *(const bool *)at : *(const int *)at].name);
        break;
    case ZT_KEY_HAS:
        fprintf(to, *(const bool *)at ? "[\"%s\"]" : "[]", row->choices[0].name);
        break;
    case ZT_KEY_TEXTS:
        write_texts(to, at);
        break;
    case ZT_KEY_GROUPS:
        write_text_lists(to, at);
        break;
    case ZT_KEY_OBJECTS:
        write_groups(to, config);
        break;
    case ZT_KEY_NAMED:
        write_paddings(to, config);
        break;
    default:
        write_text_of(to, row, at);
    }
}

/* Whether row i is written: its key works, the optimizer, rule, format or adapters that it is about are those given,
 * and the offload that it is about is on. */
static bool is_written(const struct zt_config *config, int i) {
    const struct zt_key_row *row = config->table->row[i];
    bool scheduler = strncmp(row->key, "scheduler.", 10) == 0;
    if (row->status != ZT_KEY_WORKS || !row->size)
        return false;
    if (scheduler && !config->scheduler.type)
        return false;
    if (strncmp(row->key, "ztrain.lora.", 12) == 0 && !config->lora.match.count)
        return false;
    if (strncmp(row->key, "ztrain.qat.", 11) == 0 && strcmp(row->key, "ztrain.qat.scales") != 0 &&
        !config->qat.weights && !config->qat.activations)
        return false;
    return zt_key_has_value(config->table, i) && !zt_offload_unread(config, row->key);
}

static void new_line(FILE *to, int depth) {
    fprintf(to, "\n%*s", 2 * depth, "");
}

/* Returns the number of leading path parts that two keys share, not counting the last part of either. */
static int shared_depth(const char *a, const char *b) {
    int depth = 0;
    for (size_t i = 0; a[i] && a[i] == b[i]; i++)
        depth += a[i] == '.';
    return depth;
}

static int depth_of(const char *key) {
    int depth = 0;
    for (; *key; key++)
        depth += *key == '.';
    return depth;
}

/* Closes the objects that `last` stands in and `key` does not, and opens those that `key` adds. */
static void move(FILE *to, const char *last, const char *key) {
    int shared = shared_depth(last, key), depth = 0;
    for (int d = depth_of(last); d > shared; d--) {
        new_line(to, d);
        fputc('}', to);
    }
    fputs(last[0] ? "," : "", to);
    for (const char *dot; (dot = strchr(key, '.')); key = dot + 1)
        if (++depth > shared) {
            new_line(to, depth);
            fprintf(to, "\"%.*s\": {", (int)(dot - key), key);
        }
    new_line(to, depth + 1);
    fprintf(to, "\"%s\": ", key);
}

void zt_config_write(const struct zt_config *config, FILE *to) {
    const char *last = "";
    fputc('{', to);
    for (int i = 0; i < config->table->count; i++) {
        const struct zt_key_row *row = config->table->row[i];
        if (!is_written(config, i))
            continue;
        move(to, last, row->key);
        write_value(to, config, row);
        last = row->key;
    }
    for (int d = depth_of(last); d >= 0; d--) {
        new_line(to, d);
        fputc('}', to);
    }
    fputc('\n', to);
}

char *zt_config_text(const struct zt_config *config, size_t *bytes, struct zt_err *err) {
    char *text = NULL;
    FILE *to = open_memstream(&text, bytes);
    if (!to) {
        zt_fail(err, ZT_EXIT_RUN, "out of memory");
        return NULL;
    }
    zt_config_write(config, to);
    fclose(to);
    return text;
}

bool zt_config_write_in(const struct zt_config *config, const char *folder, const char *name, struct zt_err *err) {
    struct zt_file_out out;
    size_t bytes;
    char *text = zt_config_text(config, &bytes, err);
    bool ok = text && zt_file_out_open_in(&out, folder, name, err);
    if (ok) {
        zt_json_print(out.stream, text, bytes);
        ok = zt_file_out_commit(&out, err);
    }
    free(text);
    return ok;
}

/* Returns the value of a row as JSON. Free with free(). */
static char *value_text(const struct zt_config *config, const struct zt_key_row *row) {
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    if (!to)
        return NULL;
    write_value(to, config, row);
    fclose(to);
    return text;
}

/* ---- dump_state ---- */

/* Whether `value`, a row's value as JSON, is no value: null or empty. */
static bool is_empty(const char *value) {
    static const char *const empty[] = { "null", "[]", "{}", "\"\"" };
    bool found = false;
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
        found |= strcmp(value, empty[i]) == 0;
    return found;
}

/* Whether `value`, a row's value as JSON, is the text `def`, or a list of that text alone. */
static bool is_text(const char *value, const char *def) {
    const size_t n = strlen(def), open = strspn(value, "[\"");
    return strncmp(value + open, def, n) == 0 && strspn(value + open + n, "\"]") == strlen(value + open + n);
}

static bool is_default(const struct zt_config *config, const struct zt_key_row *row, const char *value) {
    const void *at = zt_key_stored(config, row);
    const double *pair = at;
    const char *second = row->def ? strchr(row->def, ' ') : NULL;
    const double number = row->def ? strtod(row->def, NULL) : 0;
    switch (row->type) {
    case ZT_KEY_BOOL:
        return *(const bool *)at == (row->def && strcmp(row->def, "true") == 0);
    case ZT_KEY_INT:
        return (double)whole(row, at) == number;
    case ZT_KEY_NUMBER:
        return *pair == number;
    case ZT_KEY_EACH:
        return ((const struct zt_numbers *)at)->count == 1 && ((const struct zt_numbers *)at)->at[0] == number;
    case ZT_KEY_PAIR:
        return second && pair[0] == number && pair[1] == strtod(second, NULL);
    default:
        return row->def ? is_text(value, row->def) : is_empty(value);
    }
}

/* Whether a row has the value that was given: the plan may choose another one, and some keys exclude it. */
static bool is_kept(const struct zt_config *config, const struct zt_key_row *row, const struct zt_json_node *given,
                    const char *value) {
    const void *at = zt_key_stored(config, row);
    if (given->kind == ZT_JSON_NODE_BOOL && row->type == ZT_KEY_BOOL)
        return *(const bool *)at == given->truth;
    if (given->kind == ZT_JSON_NODE_NUMBER && row->type == ZT_KEY_INT)
        return whole(row, at) == given->integer;
    if (given->kind == ZT_JSON_NODE_NUMBER && row->type == ZT_KEY_NUMBER)
        return *(const double *)at == given->number;
    return given->kind != ZT_JSON_NODE_TEXT || !row->choices || is_text(value, given->text);
}

/* "ds.json:12", "--set" */
static void place_of(const struct zt_json_node *given, char *to) {
    const char *file = given->source ? given->source->file : "", *slash = strrchr(file, '/');
    const bool option = !given->source && strncmp(given->option, "--", 2) == 0;
    if (given->source)
        snprintf(to, ZT_JSON_ORIGIN, "%.255s:%d", slash ? slash + 1 : file, given->line);
    else /* "--set key.path" need not say the key twice */
        snprintf(to, ZT_JSON_ORIGIN, "%.*s", (int)strcspn(given->option, option ? " " : ""), given->option);
}

/* The origin of the value of row i, which is `value` as JSON, into `to` (ZT_JSON_ORIGIN bytes). */
static const char *origin_of(const struct zt_config *config, int i, const char *value, char *to) {
    const struct zt_key_row *row = config->table->row[i];
    const struct zt_json_node *given = config->given[i] ? config->given[i] : zt_json_node_find(config->root, row->key);
    const char *rule = row->rule ? row->rule : "default";
    if (given && given->automatic)
        snprintf(to, ZT_JSON_ORIGIN, "auto: %.200s", given->rule ? given->rule : rule);
    else if ((!given || given->kind == ZT_JSON_NODE_NULL) && is_default(config, row, value))
        snprintf(to, ZT_JSON_ORIGIN, "default");
    else if (!given || !is_kept(config, row, given, value))
        snprintf(to, ZT_JSON_ORIGIN, "derived");
    else
        place_of(given, to);
    return to;
}

void zt_config_say(const struct zt_config *config, const struct zt_log *log) {
    static const char dots[] = ".............................";
    zt_say(log, ZT_LOG_INFO, "DeepSpeedEngine configuration:");
    for (int i = 0; i < config->table->count; i++) {
        const struct zt_key_row *row = config->table->row[i];
        char *value = is_written(config, i) ? value_text(config, row) : NULL, origin[ZT_JSON_ORIGIN];
        size_t length = strlen(row->key) < sizeof dots ? strlen(row->key) : sizeof dots - 1;
        if (!value)
            continue;
        origin_of(config, i, value, origin);
        const bool text = value[0] == '"' && value[strlen(value) - 1] == '"';
        if (text)
            value[strlen(value) - 1] = 0;
        zt_say(log, ZT_LOG_INFO, "  %s %s %s (%s)", row->key, dots + length, text ? value + 1 : value, origin);
        free(value);
    }
}
