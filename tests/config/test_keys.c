/* Every key of keys.tsv, which is written from DeepSpeed's documentation, by itself: values of the right type, of a
 * wrong type and out of range, "auto", null, a misspelt key, and the default. */
#include "read.h"

#include <math.h>

enum { COLUMNS = 7, ROWS = 1000, CONTEXTS = 100, VALUES = 32 };

struct row {
    const char *key, *type, *allowed, *def, *automatic, *status, *context; /* the columns of keys.tsv */
};

static struct row rows[ROWS];
static int row_count;
static struct { const char *name, *text; } contexts[CONTEXTS];
static int context_count;

struct values {
    char text[VALUES][96];
    int count;
};

/* ---- the table ---- */

/* Check's own assertions work in a test alone. */
static void demand(bool ok, const char *what) {
    if (ok)
        return;
    fprintf(stderr, "keys.tsv: %s\n", what);
    exit(EXIT_FAILURE);
}

static void add_line(char *line) {
    const char *column[COLUMNS] = { 0 };
    char *rest = line;
    int count = 0;
    while (count < COLUMNS && rest)
        column[count++] = strsep(&rest, "\t");
    if (line[0] == '@') {
        demand(count == 2 && context_count < CONTEXTS, line);
        contexts[context_count].name = column[0] + 1;
        contexts[context_count++].text = column[1];
        return;
    }
    demand(count == COLUMNS && !rest && row_count < ROWS, line);
    rows[row_count++] = (struct row){ column[0], column[1], column[2], column[3], column[4], column[5], column[6] };
}

static void read_table(const char *path) {
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    demand(file != NULL, path);
    while (getline(&line, &room, file) >= 0) {
        line[strcspn(line, "\n")] = 0;
        if (line[0] && line[0] != '#')
            add_line(strdup(line)); /* the rows keep it */
    }
    free(line);
    fclose(file);
    demand(row_count > 600, "rows are missing");
}

static const char *context_of(const struct row *row) {
    for (int i = 0; i < context_count; i++)
        if (strcmp(contexts[i].name, row->context) == 0)
            return contexts[i].text;
    ck_assert_msg(strcmp(row->context, "-") == 0, "%s: unknown context %s", row->key, row->context);
    return "{}";
}

static bool is(const char *text, const char *other) {
    return strcmp(text, other) == 0;
}

/* ---- values ---- */

static void add(struct values *to, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct values *to, const char *fmt, ...) {
    va_list ap;
    ck_assert_int_lt(to->count, VALUES);
    va_start(ap, fmt);
    vsnprintf(to->text[to->count++], sizeof to->text[0], fmt, ap);
    va_end(ap);
}

struct range {
    double min, max; /* -HUGE_VAL, HUGE_VAL: unbounded */
    bool above, below, has_bad;
    double bad;
};

static struct range range_of(const struct row *row) {
    struct range r = { .min = -HUGE_VAL, .max = HUGE_VAL };
    const char *text = row->allowed, *bad = strchr(text, '!'), *to = strstr(text, "..");
    if (text[0] == '>') {
        r.above = text[1] != '=';
        r.min = atof(text + 2 - r.above);
    } else if (text[0] == '[' || text[0] == '(') {
        r.above = text[0] == '(';
        r.min = atof(text + 1);
        r.max = atof(strchr(text, ',') + 1);
        r.below = text[strlen(text) - 1] == ')';
    } else if (to) {
        r.min = atof(text);
        r.max = atof(to + 2);
    }
    r.has_bad = bad;
    r.bad = bad ? atof(bad + 1) : 0;
    return r;
}

/* Two numbers in the range. */
static void inside(const struct row *row, double number[2]) {
    struct range r = range_of(row);
    bool whole = is(row->type, "int");
    number[0] = r.min > -HUGE_VAL ? r.min : -7;
    if (r.above)
        number[0] += whole ? 1 : 0.5;
    number[1] = r.max < HUGE_VAL ? (r.min + r.max) / 2 : number[0] + 2; /* the bucket sizes want even numbers */
    if (whole)
        number[1] = floor(number[1]);
}

static int outside(const struct row *row, double number[2]) {
    struct range r = range_of(row);
    int count = 0;
    if (r.min > -HUGE_VAL)
        number[count++] = r.has_bad ? r.bad : r.above ? r.min : r.min - 1;
    if (r.max < HUGE_VAL)
        number[count++] = r.below ? r.max : r.max + 1;
    return count;
}

/* Spellings of numbers for keys of numbers and lists of numbers: formats of one number. */
static const struct {
    const char *type, *format[2];
} numeric[] = {
    { "int", { "%.10g" } },
    { "float", { "%.10g" } },
    { "each", { "%.10g", "[%.10g]" } },
    { "pair", { "[%1$.10g, %1$.10g]" } },
    { "numbers", { "[%.10g]" } },
};

static void add_numbers(struct values *to, const struct row *row, const double *number, int count) {
    for (size_t i = 0; i < sizeof numeric / sizeof *numeric; i++)
        for (int k = 0; is(numeric[i].type, row->type) && k < 2 && numeric[i].format[k]; k++)
            for (int n = 0; n < count; n++) {
                to->count++;
                ck_assert_int_le(to->count, VALUES);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
                snprintf(to->text[to->count - 1], sizeof to->text[0], numeric[i].format[k], number[n]);
#pragma GCC diagnostic pop
            }
}

/* The values of types without a range, and those of a wrong type. */
static const struct {
    const char *type, *right[3], *wrong[4];
} fixed[] = {
    { "bool", { "true", "false", "\"yes\"" }, { "\"maybe\"", "\"2\"", "[]", "{}" } },
    { "int", { 0 }, { "\"many\"", "\"1.5\"", "1.5", "[1]" } },
    { "float", { 0 }, { "\"many\"", "\"true\"", "[1]", "{}" } },
    { "each", { 0 }, { "\"many\"", "\"true\"", "{}", "[\"a\"]" } },
    { "pair", { 0 }, { "0.5", "true", "[0.5]", "[\"a\", \"b\"]" } },
    { "numbers", { 0 }, { "7", "\"many\"", "{}", "[\"a\"]" } },
    { "text", { "\"some\"" }, { "7", "true", "[]", "{}" } },
    { "character", { "\",\"", "\";\"" }, { "7", "true", "[]", "{}" } },
    { "path", { "\"some/file\"" }, { "7", "true", "[]", "{}" } },
    { "texts", { "[]", "[\"a\", \"b.*\"]" }, { "\"a\"", "7", "[7]", "{}" } },
    { "groups", { "[]", "[[\"a\", \"b\"]]" }, { "\"a\"", "7", "[\"a\"]", "[[\"a\"]]" } },
    { "choice", { 0 }, { "7", "true", "[]", "{}" } },
    { "choices", { "[]" }, { "\"accuracy\"", "7", "[7]", "{}" } },
    { "bytes", { "\"8GiB\"", "\"500 MB\"", "1e9" }, { "true", "[]", "{}", "\"some\"" } },
    { "object", { "{}" }, { "7", "\"some\"", "[]", NULL } },
    { "named", { "{}" }, { "7", "\"some\"", "[]", "true" } },
    { "objects", { "[]", "[{\"match\": \"*\"}]" }, { "7", "\"some\"", "{}", "[7]" } },
    { "any", { "{\"a\": 1}", "\"some\"", "7" }, { 0 } },
};

static void add_fixed(struct values *to, const struct row *row, bool wrong) {
    bool known = false;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        if (!is(fixed[i].type, row->type))
            continue;
        known = true;
        const char *const *value = wrong ? fixed[i].wrong : fixed[i].right;
        for (int k = 0; k < (wrong ? 4 : 3) && value[k]; k++)
            add(to, "%s", value[k]);
    }
    ck_assert_msg(known, "%s: unknown type %s", row->key, row->type);
}

static struct values right_values(const struct row *row) {
    struct values values = { 0 };
    double number[2];
    inside(row, number);
    add_numbers(&values, row, number, 2);
    add_fixed(&values, row, false);
    for (const char *c = row->allowed; strncmp(row->type, "choice", 6) == 0 && *c; c += strspn(c, "|")) {
        int n = (int)strcspn(c, "|");
        add(&values, is(row->type, "choice") ? "\"%.*s\"" : "[\"%.*s\"]", n, c);
        c += n;
    }
    return values;
}

static struct values bad_values(const struct row *row) {
    struct values values = { 0 };
    double number[2];
    add_numbers(&values, row, number, outside(row, number));
    if (is(row->type, "choice") && !strchr(row->allowed, '*'))
        add(&values, "\"nonesuch\"");
    if (is(row->type, "choices"))
        add(&values, "[\"nonesuch\"]");
    return values;
}

/* ---- configurations ---- */

/* Writes {"a": {"b": VALUE}} for the key "a.b". */
static void nest(struct zt_text *to, const char *key, const char *value) {
    size_t n = strcspn(key, ".");
    bool list = n > 2 && key[n - 1] == ']', last = !key[n];
    if (is(key, "*"))
        zt_text_add(to, "{\"w\": ");
    else
        zt_text_add(to, "{\"%.*s\": ", (int)(list ? n - 2 : n), key[0] == '*' ? "w" : key);
    if (last)
        zt_text_add(to, "%s", value);
    else if (list && strncmp(key + n + 1, "match", 5) != 0) /* an item of ztrain.param_groups */
        zt_text_add(to, "[{\"match\": \"*\", \"%s\": %s}]", key + n + 1, value);
    else if (list)
        zt_text_add(to, "[{\"%s\": %s}]", key + n + 1, value);
    else
        nest(to, key + n + 1, value);
    zt_text_add(to, "}");
}

/* Reads `key` = `value` beside the context of the row. */
static struct result *read_key(const struct row *row, const char *key, const char *value) {
    static struct result got;
    struct zt_config_overrides over = no_overrides();
    struct zt_text text = { 0 };
    char first[] = TEMPORARY, second[] = TEMPORARY;
    const char *context = context_of(row);
    nest(&text, key, value);
    write_temporary(first, context, strlen(context));
    write_temporary(second, text.at, text.length);
    read_paths(&got, (const char *[]){ first, second }, 2, &over);
    unlink(first);
    unlink(second);
    zt_text_finish(&text);
    return &got;
}

static int failures;

static void report(const struct row *row, const char *value, const char *wants, const struct result *got) {
    failures++;
    fprintf(stderr, "%s (%s) = %s: wants %s, found: %s", row->key, row->context, value, wants,
            got->config ? "accepted\n" : got->text);
}

static bool has(const struct result *got, const char *words) {
    return strstr(got->text, words) != NULL;
}

/* Whether all problems say that something is not there, or that keys contradict or need each other. */
static bool is_understood(const struct row *row, const struct result *got) {
    static const char *const reasons[] = { "not supported yet", "needs ",        "need as many",     "excludes",
                                           "belongs to",        "do not divide", "all weights are 0" };
    bool refusable = is(row->status, "reject") || is(row->status, "some");
    for (int i = 0; i < got->err.count && i < ZT_ERR_LINES; i++) {
        bool known = refusable && strstr(got->err.text[i], "is refused: ");
        for (size_t k = 0; k < sizeof reasons / sizeof *reasons; k++)
            known |= strstr(got->err.text[i], reasons[k]) != NULL;
        if (!known)
            return false;
    }
    return true;
}

static bool is_default(const struct row *row, const char *value) {
    char *end;
    double number = strtod(row->def, &end);
    return is(row->def, value) || (*end == 0 && number == strtod(value, NULL));
}

static void each(void (*check)(const struct row *)) {
    failures = 0;
    for (int i = 0; i < row_count; i++)
        check(&rows[i]);
    ck_assert_msg(failures == 0, "%d failures", failures);
}

static void check_right(const struct row *row) {
    struct values values = right_values(row);
    add(&values, "null");
    for (int i = 0; i < values.count; i++) {
        struct result *got = read_key(row, row->key, values.text[i]);
        if (!is_understood(row, got))
            report(row, values.text[i], "no problem", got);
        zt_config_destroy(got->config);
    }
}

START_TEST(values_of_the_right_type_are_accepted_or_refused_by_name) {
    each(check_right);
}
END_TEST

/* A key of a feature that will not be here is refused by name where it has another value than its default. */
static void check_refused(const struct row *row) {
    struct values values = right_values(row);
    for (int i = 0; i < values.count && is(row->status, "reject"); i++) {
        struct result *got = read_key(row, row->key, values.text[i]);
        bool neutral = is_default(row, values.text[i]) || (is(values.text[i], "\"yes\"") && is(row->def, "true"));
        if (neutral ? !got->config : !has(got, "is refused: ") && !has(got, "not supported yet"))
            report(row, values.text[i], neutral ? "acceptance" : "refusal", got);
        zt_config_destroy(got->config);
    }
}

START_TEST(what_is_not_there_is_refused_by_name) {
    each(check_refused);
}
END_TEST

static void check_words(const struct row *row, const struct values *values, const char *words) {
    for (int i = 0; i < values->count; i++) {
        struct result *got = read_key(row, row->key, values->text[i]);
        if (got->config || !has(got, words))
            report(row, values->text[i], words, got);
        zt_config_destroy(got->config);
    }
}

static void check_wrong(const struct row *row) {
    struct values values = { 0 };
    add_fixed(&values, row, true);
    check_words(row, &values, is(row->type, "bytes") || is(row->type, "groups") ? "wants" : ": wants ");
}

START_TEST(values_of_a_wrong_type_are_refused) {
    each(check_wrong);
}
END_TEST

static void check_range(const struct row *row) {
    struct values values = bad_values(row);
    check_words(row, &values, strncmp(row->type, "choice", 6) == 0 ? "unknown \"nonesuch\"" : ", allowed ");
}

START_TEST(values_out_of_range_are_refused) {
    each(check_range);
}
END_TEST

static void check_auto(const struct row *row) {
    bool legal = is(row->automatic, "auto"),
         text = is(row->type, "text") || is(row->type, "path") || is(row->type, "character");
    struct result *got = read_key(row, row->key, "\"auto\"");
    if (legal && !is_understood(row, got))
        report(row, "\"auto\"", "no problem", got);
    if (!legal && !text && !is(row->type, "any") && !has(got, "unknown \"auto\"") && !has(got, "wants"))
        report(row, "\"auto\"", "refusal", got);
    zt_config_destroy(got->config);
}

START_TEST(auto_is_a_value_of_scalars) {
    each(check_auto);
}
END_TEST

/* The last part of the key with one more letter. */
static void check_typo(const struct row *row) {
    char key[160], wants[160];
    const char *dot = strrchr(row->key, '.'), *leaf = dot ? dot + 1 : row->key;
    struct values values = right_values(row);
    if (is(leaf, "*") || is(row->status, "old"))
        return;
    snprintf(key, sizeof key, "%sx", row->key);
    snprintf(wants, sizeof wants, "unknown key, did you mean %s?", leaf);
    struct result *got = read_key(row, key, values.text[0]);
    if (got->config || !has(got, wants))
        report(row, key, wants, got);
    zt_config_destroy(got->config);
}

START_TEST(a_misspelt_key_is_told_its_spelling) {
    each(check_typo);
}
END_TEST

/* The row of the table for the types of the context. */
static const struct zt_key_row *row_of(const struct zt_key_table *table, const char *key) {
    for (int i = 0; i < table->count; i++)
        if (is(table->row[i]->key, key) && zt_key_exists(table, i))
            return table->row[i];
    return NULL;
}

static bool same_default(const struct row *row, const struct zt_key_row *found) {
    char text[64];
    if (is(row->def, "auto") && found->keeps_auto)
        return !found->automatic || is(found->def, found->automatic);
    snprintf(text, sizeof text, "%s", found->def ? found->def : "-");
    for (char *c = text; *c; c++)
        if (*c == ' ') /* a pair */
            *c = ',';
    return is_default(row, text);
}

static void check_default(const struct row *row) {
    struct result *got = read_key(row, row->key, "null");
    if (!got->config) /* a context of a type that is not there */
        return;
    const struct zt_key_row *found = row_of(got->config->table, row->key);
    if (!is(row->def, "-") && (!found || !same_default(row, found))) {
        failures++;
        fprintf(stderr, "%s (%s): default %s, found %s\n", row->key, row->context, row->def,
                found && found->def ? found->def : "none");
    }
    zt_config_destroy(got->config);
}

START_TEST(defaults_are_those_of_the_documentation) {
    each(check_default);
}
END_TEST

/* Numbers at the ends of types, as numbers, texts and in lists. read_paths() demands a config or a message; the
 * sanitizers see what is stored. */
static void check_extreme(const struct row *row) {
    static const char *const numbers[] = { "0",
                                           "-1",
                                           "1",
                                           "-0.0",
                                           "2147483647",
                                           "2147483648",
                                           "9007199254740992",
                                           "9223372036854775807",
                                           "9223372036854775808",
                                           "-9223372036854775808",
                                           "1e308",
                                           "-1e308",
                                           "1e-320" };
    static const char *const formats[] = { "%s", "\"%s\"", "[%s]", "[%s, %s]" };
    static const char *const types[] = { "int", "float", "each", "pair", "numbers", "bytes" };
    bool counts = false;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        counts |= is(row->type, types[i]);
    for (size_t i = 0; counts && i < 4 * (sizeof numbers / sizeof *numbers); i++) {
        char value[96];
        const char *number = numbers[i / 4];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
        snprintf(value, sizeof value, formats[i % 4], number, number);
#pragma GCC diagnostic pop
        zt_config_destroy(read_key(row, row->key, value)->config);
    }
}

START_TEST(numbers_at_the_ends_of_types_give_a_config_or_a_message) {
    each(check_extreme);
}
END_TEST

int main(void) {
    const char *path = getenv("ZT_KEYS");
    const TTest *const cases[] = { values_of_the_right_type_are_accepted_or_refused_by_name,
                                   what_is_not_there_is_refused_by_name,
                                   values_of_a_wrong_type_are_refused,
                                   values_out_of_range_are_refused,
                                   auto_is_a_value_of_scalars,
                                   a_misspelt_key_is_told_its_spelling,
                                   defaults_are_those_of_the_documentation,
                                   numbers_at_the_ends_of_types_give_a_config_or_a_message };
    read_table(path ? path : "keys.tsv");
    return run_cases("config keys", cases, sizeof cases / sizeof cases[0]);
}
