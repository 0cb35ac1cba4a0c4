#include "session/options.h"

#include "base/text.h"
#include "base/vec.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum kind { FLAG, TEXT, TEXTS, MAYBE_TEXT, NUMBER, SMALL_NUMBER };

/* One option. `at` is the offset of its value in struct zt_options. */
struct row {
    const char *name, *argument, *help; /* name without dashes */
    unsigned bit;
    enum kind kind;
    size_t at;
    int64_t min, max;
};

#define AT(field) .at = offsetof(struct zt_options, field)

static const struct row rows[] = {
    { "model", "FILE", "the ONNX model", ZT_TAKES_MODEL, TEXT, AT(model) },
    { "config", "FILE", "the configuration, DeepSpeed's JSON; keys of a later --config override earlier ones",
      ZT_TAKES_CONFIG, TEXTS, AT(configs) },
    { "inputs", "SRC", "an npz file, or a folder of input_N.pb", ZT_TAKES_INPUTS, TEXT, AT(inputs) },
    { "output", "DIR", "output folder", ZT_TAKES_OUTPUT, TEXT, AT(output) },
    { "emit", "FILE", "write the forward and backward graph as an ONNX file", ZT_TAKES_EMIT, TEXT, AT(emit) },
    { "overwrite", NULL, "replace the run in the output folder", ZT_TAKES_OVERWRITE, FLAG, AT(overwrite) },
    { "resume", "[CHECKPOINT]", "resume from a checkpoint, by default the latest", ZT_TAKES_RESUME, MAYBE_TEXT,
      AT(resume_from) },
    { "load", "CHECKPOINT|FILE", "start from these weights, by name and shape; with --weights-only", ZT_TAKES_LOAD,
      TEXT, AT(load) },
    { "weights-only", NULL, "with --load: optimizer and step start anew", ZT_TAKES_LOAD, FLAG, AT(weights_only) },
    { "data", "FORMAT:PATH", "set ztrain.data.format and ztrain.data.path", ZT_TAKES_SET, TEXT, AT(over.data) },
    { "set", "KEY.PATH=VALUE", "set any key of the configuration; repeatable", ZT_TAKES_SET, TEXTS, AT(over) },
    { "device", "auto|cpu|cuda", "device for the computation (default auto: CUDA if there is a GPU)", ZT_TAKES_DEVICE,
      TEXT, AT(over.device) },
    { "ranks", "N", "number of ranks on this host (default 1)", ZT_TAKES_RANKS, SMALL_NUMBER, AT(over.ranks), .min = 1,
      .max = 65536 },
    { "hostfile", "FILE", "hosts to run on, one per line: worker-1 slots=4", ZT_TAKES_HOSTS, TEXT, AT(hostfile) },
    { "include", "HOST[:SLOT,...]@...", "use only these hosts and slots of the hostfile", ZT_TAKES_HOSTS, TEXT,
      AT(include) },
    { "exclude", "HOST[:SLOT,...]@...", "use all other hosts and slots", ZT_TAKES_HOSTS, TEXT, AT(exclude) },
    { "cluster", "NAME", "plan for other hardware: h200, h100, a100", ZT_TAKES_PLAN, TEXT, AT(over.cluster) },
    { "trace", "FILE", "write the simulated step as a Chrome trace", ZT_TAKES_PLAN, TEXT, AT(trace) },
    { "nodes", "FILE", "write a line per node: implementation, reason, FLOPs, bytes, estimated time", ZT_TAKES_PLAN,
      TEXT, AT(nodes) },
    { "profile", NULL, "time every node of a step; prints a table and writes profile.tsv to the output folder",
      ZT_TAKES_PROFILE, FLAG, AT(profile) },
    { "epochs", "N", "passes over the data (default 10)", ZT_TAKES_LENGTH, NUMBER, AT(over.epochs), .min = 0,
      .max = INT64_MAX },
    { "steps", "N", "optimizer steps; overrides the epochs (default: those of the epochs)", ZT_TAKES_LENGTH, NUMBER,
      AT(over.steps), .min = 0, .max = INT64_MAX },
    { "modes", "LIST", "comma-separated modes: dp, ddp, zero1, zero2, zero3, ppS[-SCHEDULE][-zeroN]",
      ZT_TAKES_COMBINATIONS, TEXT, AT(modes) },
    { "ranks", "LIST", "comma-separated numbers of ranks", ZT_TAKES_COMBINATIONS, TEXT, AT(rank_list) },
    { "batch-sizes", "LIST", "comma-separated samples of a step (default: train_batch_size of the configuration)",
      ZT_TAKES_REPEATS, TEXT, AT(batch_sizes) },
    { "steps", "N", "optimizer steps of a run (default 30)", ZT_TAKES_REPEATS, NUMBER, AT(over.steps), .min = 1,
      .max = 1000000 },
    { "warmup", "N", "uncounted steps at the start of a run (default 5)", ZT_TAKES_REPEATS, SMALL_NUMBER, AT(warmup),
      .min = 0, .max = 1000000 },
    { "repeats", "N", "runs of each combination (default 3)", ZT_TAKES_REPEATS, SMALL_NUMBER, AT(repeats), .min = 1,
      .max = 1000 },
    { "seed", "N", "seed of random numbers (default 0)", ZT_TAKES_SEED, NUMBER, AT(over.seed), .min = 0,
      .max = INT64_MAX },
    { "threads", "N", "compute threads per rank (default: cores / ranks); results do not depend on it",
      ZT_TAKES_THREADS, SMALL_NUMBER, AT(over.threads), .min = 1, .max = 4096 },
    { "strict", NULL, "treat warnings about the model as errors", ZT_TAKES_STRICT, FLAG, AT(strict) },
    { "quiet", NULL, "print only errors and the last line", ZT_TAKES_CONTROL, FLAG, AT(quiet) },
    { "verbose", NULL, "print more details", ZT_TAKES_CONTROL, FLAG, AT(verbose) },
    { "json", NULL, "print lines as JSON objects", ZT_TAKES_JSON, FLAG, AT(json) },
    { "man", NULL, "print the manual page", ZT_TAKES_PAGES, FLAG, AT(man) },
    { "completions", "bash|zsh|fish", "print the completions of a shell", ZT_TAKES_PAGES, TEXT, AT(completions) },
    { "keys", NULL, "print the keys of the configuration as JSON objects, one per line", ZT_TAKES_PAGES, FLAG,
      AT(keys) },
    { "help", NULL, "print this text", UINT_MAX, FLAG, AT(help) },
    { "version", NULL, "print the version", 0, FLAG, AT(version) },
};
enum { ROWS = sizeof rows / sizeof rows[0] };

struct parser {
    struct zt_options *o;
    const struct zt_command_row *commands;
    int argc, next, operand_count;
    char *const *argv;
    bool given[ROWS];
    ZT_VEC(const char *) configs;
    ZT_VEC(const char *) set;
    ZT_VEC(const char *) runs;
    struct zt_err *err;
};

/* ---- nearest names ---- */

/* Keeps the nearer of two candidates; distant candidates are ignored. */
static void consider(const char *candidate, const char *wrong, const char **best, int *distance) {
    int d = zt_edit_distance(candidate, wrong);
    if (d < *distance && d <= 1 + (int)strlen(candidate) / 3) {
        *best = candidate;
        *distance = d;
    }
}

/* Options that other programs have, and what to give here. Both spellings, with '-' and with '_', are in use. */
struct foreign {
    const char *name, *hint;
};

#define HOSTS "list the hosts in --hostfile FILE, or start the ranks with srun or mpirun"
#define NONE  "leave it out: "
/* The launchers of DeepSpeed and PyTorch. */
static const struct foreign of_launchers[] = {
    { "deepspeed_config", "use --config FILE" },
    { "deepspeed", "ztrain always reads DeepSpeed's JSON: use --config FILE" },
    { "num_gpus", "use --ranks N" },
    { "num_nodes", HOSTS },
    { "nproc_per_node", "use --ranks N" },
    { "standalone", "use --ranks N" },
    { "nnodes", HOSTS },
    { "node_rank", HOSTS },
    { "rdzv_endpoint", HOSTS },
    { "rdzv_backend", HOSTS },
    { "rdzv_id", HOSTS },
    { "local_rank", "ranks read LOCAL_RANK, which torchrun sets; --ranks N starts ranks on this host" },
    { "master_addr", "set MASTER_ADDR, or use --ranks N or --hostfile FILE, which need no address" },
    { "master_port", "set MASTER_PORT, or use --ranks N or --hostfile FILE, which need no port" },
    { "launcher", "use --ranks N or --hostfile FILE, or start the ranks with srun or mpirun" },
    { "launcher_args", "start the ranks with srun or mpirun, which take these arguments" },
    { "autotuning", "use --set autotuning.enabled=true" },
    { "bind_cores_to_rank", "ranks are bound to cores already; --threads N sets the threads of each" },
    { "bind_core_list", "ranks are bound to cores already; --threads N sets the threads of each" },
    { "module", NONE "ztrain is the program that trains, and runs no script" },
    { "no_python", NONE "ztrain is the program that trains, and runs no script" },
    { "no_local_rank", NONE "ztrain is the program that trains, and runs no script" },
    { "force_multi", "use --hostfile FILE, also for one host" },
    { "no_ssh", HOSTS },
    { "no_ssh_check", HOSTS },
    { "ssh_port", "state the port in the configuration of ssh" },
    { "enable_each_rank_log", NONE "rank 0 prints the lines of the run, and errors name their rank" },
    { "elastic_training", NONE "a run keeps its number of ranks, and --resume continues it with another one" },
    { "min_elastic_nodes", NONE "a run keeps its number of ranks, and --resume continues it with another one" },
    { "max_elastic_nodes", NONE "a run keeps its number of ranks, and --resume continues it with another one" },
    { "venv_script", NONE "ztrain needs no Python: set its environment before it starts" },
    { "save_pid", NONE "ranks end with the command that started them" },
    { "log_level", "use --quiet, --verbose or --set log_level=LEVEL" },
    { "gpus", "use --ranks N, or --hostfile FILE with --include HOST:0,1; CUDA_VISIBLE_DEVICES selects GPUs" },
    { "max_restarts", NONE "--resume continues a run that ended" },
};
/* Hugging Face's TrainingArguments, and what training scripts call the same. */
static const struct foreign of_scripts[] = {
    { "model_name_or_path", "use --model FILE, which is an ONNX file" },
    { "train_file", "use --data FORMAT:PATH" },
    { "dataset_name", "use --data FORMAT:PATH" },
    { "data_path", "use --data FORMAT:PATH" },
    { "validation_file", "use --set ztrain.data.eval_path=PATH" },
    { "output_dir", "use --output DIR" },
    { "overwrite_output_dir", "use --overwrite" },
    { "resume_from_checkpoint", "use --resume [CHECKPOINT]" },
    { "num_train_epochs", "use --epochs N" },
    { "max_steps", "use --steps N" },
    { "per_device_train_batch_size", "use --set train_micro_batch_size_per_gpu=N" },
    { "per_device_eval_batch_size", NONE "evaluation uses train_micro_batch_size_per_gpu" },
    { "gradient_accumulation_steps", "use --set gradient_accumulation_steps=N" },
    { "gradient_checkpointing", "use --set activation_checkpointing.enabled=true" },
    { "optim", "use --set optimizer.type=NAME" },
    { "learning_rate", "use --set optimizer.params.lr=X" },
    { "lr", "use --set optimizer.params.lr=X" },
    { "weight_decay", "use --set optimizer.params.weight_decay=X" },
    { "adam_beta1", "use --set optimizer.params.betas=[B1,B2]" },
    { "adam_beta2", "use --set optimizer.params.betas=[B1,B2]" },
    { "adam_epsilon", "use --set optimizer.params.eps=X" },
    { "max_grad_norm", "use --set gradient_clipping=X" },
    { "lr_scheduler_type", "use --set scheduler.type=NAME" },
    { "warmup_steps", "use --set scheduler.params.warmup_num_steps=N, with a scheduler.type that has it" },
    { "label_smoothing_factor", "use --set ztrain.loss.label_smoothing=X" },
    { "bf16", "use --set bf16.enabled=true" },
    { "fp16", "use --set fp16.enabled=true" },
    { "tf32", "use --set ztrain.tf32=true" },
    { "use_cpu", "use --device cpu" },
    { "no_cuda", "use --device cpu" },
    { "dataloader_drop_last", "use --set dataloader_drop_last=true" },
    { "logging_steps", "use --set steps_per_print=N" },
    { "report_to", "use --set tensorboard.enabled=true or --set csv_monitor.enabled=true" },
    { "save_steps", "use --set ztrain.checkpoint.every_steps=N" },
    { "save_total_limit", "use --set ztrain.checkpoint.keep=N" },
    { "metric_for_best_model", "use --set ztrain.checkpoint.best=NAME" },
    { "load_best_model_at_end", NONE "ztrain.checkpoint.best keeps the best checkpoint" },
    { "do_train", NONE "ztrain trains" },
    { "do_eval", NONE "a run evaluates where ztrain.data.eval_path names data" },
};
#undef NONE
#undef HOSTS

static const char *foreign_hint(const struct foreign *list, size_t count, const char *name) {
    char spelled[64];
    snprintf(spelled, sizeof spelled, "%s", name);
    for (char *c = spelled; *c; c++)
        if (*c == '-')
            *c = '_';
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].name, spelled) == 0)
            return list[i].hint;
    return NULL;
}

/* Short options of other programs. */
static const char *short_hint(const struct parser *p, const char *argument) {
    static const struct foreign of_hosts[] = { { "i", "use --include HOSTS, with --hostfile FILE" },
                                               { "e", "use --exclude HOSTS, with --hostfile FILE" },
                                               { "H", "use --hostfile FILE" } };
    const char *hint = p->o->command->takes & ZT_TAKES_HOSTS
                           ? foreign_hint(of_hosts, sizeof of_hosts / sizeof *of_hosts, argument + 1)
                           : NULL;
    return hint                          ? hint
           : strcmp(argument, "-h") == 0 ? "did you mean --help?"
                                         : "options are long, for example `--model FILE`";
}

/* Reports an option of another program; false: none that is known has it. */
static bool is_foreign(const struct parser *p, const char *name) {
    const char *launcher = foreign_hint(of_launchers, sizeof of_launchers / sizeof *of_launchers, name);
    const char *script = foreign_hint(of_scripts, sizeof of_scripts / sizeof *of_scripts, name);
    if (!(p->o->command->takes & ZT_TAKES_SET) || (!launcher && !script))
        return false;
    zt_fail(p->err, ZT_EXIT_CONFIG, "unknown option --%s, which belongs to %s", name,
            launcher ? "another launcher" : "training scripts");
    zt_hint(p->err, "%s", launcher ? launcher : script);
    return true;
}

static bool fail_unknown_option(const struct parser *p, const char *name) {
    const char *best = NULL;
    int distance = INT_MAX;
    if (is_foreign(p, name))
        return false;
    zt_fail(p->err, ZT_EXIT_CONFIG, "unknown option --%s", name);
    for (int i = 0; i < ROWS; i++)
        if (rows[i].bit & p->o->command->takes)
            consider(rows[i].name, name, &best, &distance);
    return best ? zt_hint(p->err, "did you mean --%s?", best)
                : zt_hint(p->err, "`ztrain %s --help` lists the options", p->o->command->name);
}

static bool fail_unknown_command(const struct parser *p, const char *name) {
    const char *best = NULL;
    int distance = INT_MAX;
    zt_fail(p->err, ZT_EXIT_CONFIG, "unknown command %s", name);
    for (const struct zt_command_row *c = p->commands; c->name; c++)
        consider(c->name, name, &best, &distance);
    return best ? zt_hint(p->err, "did you mean `ztrain %s`?", best)
                : zt_hint(p->err, "`ztrain --help` lists the commands; a model follows --model");
}

/* ---- values ---- */

static bool set_number(const struct parser *p, const struct row *row, void *to, const char *text) {
    int64_t number;
    if (!zt_text_number(text, &number))
        return zt_fail(p->err, ZT_EXIT_CONFIG, "--%s: \"%s\" is not a whole number", row->name, text);
    if (number < row->min || number > row->max) {
        if (row->max == INT64_MAX)
            return zt_fail(p->err, ZT_EXIT_CONFIG, "--%s: %s, allowed >= %lld", row->name, text, (long long)row->min);
        return zt_fail(p->err, ZT_EXIT_CONFIG, "--%s: %s, allowed %lld..%lld", row->name, text, (long long)row->min,
                       (long long)row->max);
    }
    if (row->kind == NUMBER)
        *(int64_t *)to = number;
    else
        *(int *)to = (int)number;
    return true;
}

static bool set_value(struct parser *p, const struct row *row, const char *text) {
    void *to = (char *)p->o + row->at;
    if (!text[0])
        return zt_fail(p->err, ZT_EXIT_CONFIG, "--%s: the value is empty, wants %s", row->name, row->argument);
    if (row->kind == TEXT || row->kind == MAYBE_TEXT)
        *(const char **)to = text;
    else if (row->kind == TEXTS && row->at == offsetof(struct zt_options, configs))
        zt_vec_push(&p->configs, text);
    else if (row->kind == TEXTS)
        zt_vec_push(&p->set, text);
    else
        return set_number(p, row, to, text);
    return true;
}

/* ---- arguments ---- */

/* Returns the row of "name" or "name=value" for the command; *value is NULL without '='. */
static const struct row *find_row(unsigned takes, const char *argument, const char **value) {
    const struct row *found = NULL;
    size_t n = strcspn(argument, "=");
    *value = argument[n] ? argument + n + 1 : NULL;
    for (int i = 0; i < ROWS; i++)
        if (strlen(rows[i].name) == n && memcmp(rows[i].name, argument, n) == 0 && (!found || rows[i].bit & takes))
            found = &rows[i];
    return found;
}

/* Checks that the command accepts the option and that it is given only once. */
static bool admit(struct parser *p, const struct row *row) {
    const struct zt_command_row *command = p->o->command;
    if (!(row->bit & command->takes) && row->at != offsetof(struct zt_options, version))
        return zt_fail(p->err, ZT_EXIT_CONFIG, "option --%s is not accepted by `ztrain %s`", row->name,
                       command->name) ||
               zt_hint(p->err, "`ztrain %s --help` lists its options", command->name);
    if (p->given[row - rows] && row->kind != TEXTS)
        return zt_fail(p->err, ZT_EXIT_CONFIG, "option --%s is given twice", row->name);
    p->given[row - rows] = true;
    return true;
}

static bool parse_option(struct parser *p, const char *argument) {
    const char *value;
    const struct row *row = find_row(p->o->command->takes, argument, &value);
    if (!row) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(argument, "="), argument);
        return fail_unknown_option(p, name);
    }
    if (!admit(p, row))
        return false;
    if (row->kind == FLAG) {
        if (value)
            return zt_fail(p->err, ZT_EXIT_CONFIG, "option --%s takes no value, not \"%s\"", row->name, value);
        *(bool *)((char *)p->o + row->at) = true;
        return true;
    }
    p->o->resume |= row->kind == MAYBE_TEXT;
    if (!value) {
        bool none = p->next >= p->argc || strncmp(p->argv[p->next], "--", 2) == 0;
        if (none && row->kind == MAYBE_TEXT)
            return true;
        if (none)
            return zt_fail(p->err, ZT_EXIT_CONFIG, "option --%s wants a value: --%s %s", row->name, row->name,
                           row->argument);
        value = p->argv[p->next++];
    }
    return set_value(p, row, value);
}

static bool parse_command(struct parser *p) {
    p->o->command = p->commands;
    if (p->argc < 2 || p->argv[1][0] == '-')
        return true;
    p->next = 2;
    p->o->named = true;
    for (const struct zt_command_row *c = p->commands; c->name; c++)
        if (strcmp(c->name, p->argv[1]) == 0) {
            p->o->command = c;
            return true;
        }
    return fail_unknown_command(p, p->argv[1]);
}

static int most_operands(const struct zt_command_row *command) {
    return (command->operands[0] != NULL) + (command->operands[1] != NULL);
}

static bool take_operand(struct parser *p, const char *argument) {
    const struct zt_command_row *c = p->o->command;
    const char *name = c->operands[c->repeats_operand ? 0 : p->operand_count];
    if (!argument[0])
        return zt_fail(p->err, ZT_EXIT_CONFIG, "%s: the value is empty", name);
    if (c->repeats_operand)
        zt_vec_push(&p->runs, argument);
    else
        p->o->operands[p->operand_count] = argument;
    p->operand_count = c->repeats_operand ? 1 : p->operand_count + 1;
    return true;
}

static bool parse_arguments(struct parser *p) {
    while (p->next < p->argc && !p->o->help && !p->o->version) {
        const char *argument = p->argv[p->next++];
        if (strncmp(argument, "--", 2) == 0 && argument[2]) {
            if (!parse_option(p, argument + 2))
                return false;
        } else if (argument[0] == '-' && argument[1]) {
            zt_fail(p->err, ZT_EXIT_CONFIG, "unknown option %s", argument);
            return zt_hint(p->err, "%s", short_hint(p, argument));
        } else if (p->o->command->repeats_operand || p->operand_count < most_operands(p->o->command)) {
            if (!take_operand(p, argument))
                return false;
        } else {
            zt_fail(p->err, ZT_EXIT_CONFIG, "unexpected argument \"%s\"", argument);
            if (p->o->command->takes & ZT_TAKES_MODEL && zt_text_ends(argument, ".onnx"))
                return zt_hint(p->err, "a model follows --model: --model %s", argument);
            return zt_hint(p->err, "every value belongs to an option; `ztrain %s --help` lists them",
                           p->o->command->name);
        }
    }
    return true;
}

/* Reports every missing option. */
static bool check_needs(const struct parser *p) {
    bool ok = true;
    for (int i = 0; i < ROWS; i++)
        if (rows[i].argument && rows[i].bit & p->o->command->needs && !p->given[i])
            ok = zt_fail(p->err, ZT_EXIT_CONFIG, "option --%s %s is missing", rows[i].name, rows[i].argument);
    for (int i = p->operand_count; i < most_operands(p->o->command) && p->o->command->operands[i][0] != '['; i++)
        ok = zt_fail(p->err, ZT_EXIT_CONFIG, "%s is missing", p->o->command->operands[i]);
    if (ok || p->argc < 2)
        return ok || zt_hint(p->err, "`ztrain --help` lists the commands and options");
    return zt_hint(p->err, "`ztrain %s --help` lists the options", p->o->command->name);
}

/* "a.json + b.json", NULL without files; free with free(). */
static char *join(const struct zt_texts *files) {
    struct zt_text joined = { 0 };
    for (int i = 0; i < files->count; i++)
        zt_text_add(&joined, "%s%s", i ? " + " : "", files->at[i]);
    return joined.at;
}

bool zt_options_parse(struct zt_options *o, const struct zt_command_row *commands, int argc, char *const *argv,
                      struct zt_err *err) {
    struct parser p = { .o = o, .commands = commands, .argc = argc, .next = 1, .argv = argv, .err = err };
    *o = (struct zt_options){
        .commands = commands, .argv = argv, .warmup = -1, .over = { .epochs = -1, .steps = -1, .seed = -1 }
    };
    bool ok = parse_command(&p) && parse_arguments(&p);
    if (ok && !o->help && !o->version)
        ok = check_needs(&p);
    if (ok && o->quiet && o->verbose)
        ok = zt_fail(err, ZT_EXIT_CONFIG, "--quiet and --verbose exclude each other");
    if (ok && o->load && !o->weights_only)
        ok = zt_fail(err, ZT_EXIT_CONFIG, "--load needs --weights-only: optimizer and step start anew") ||
             zt_hint(err, "--resume CHECKPOINT continues a run with its optimizer and step");
    if (ok && o->weights_only && !o->load)
        ok = zt_fail(err, ZT_EXIT_CONFIG, "--weights-only needs --load CHECKPOINT or --load MODEL");
    if (ok && o->hostfile && o->over.ranks)
        ok = zt_fail(err, ZT_EXIT_CONFIG,
                     "--ranks starts ranks on this host, --hostfile on several: use only one of them");
    if (ok && !o->hostfile && (o->include || o->exclude))
        ok = zt_fail(err, ZT_EXIT_CONFIG, "--%s selects hosts of a --hostfile, which is missing",
                     o->include ? "include" : "exclude");
    if (ok && o->resume && o->overwrite)
        ok = zt_fail(err, ZT_EXIT_CONFIG, "--resume and --overwrite exclude each other");
    o->configs = (struct zt_texts){ p.configs.at, p.configs.count };
    o->config = join(&o->configs);
    o->over.set = p.set.at;
    o->over.set_count = p.set.count;
    o->runs = p.runs.at;
    o->run_count = p.runs.count;
    o->log.level = o->quiet ? ZT_LOG_ERROR : o->verbose ? ZT_LOG_DEBUG : ZT_LOG_INFO;
    o->log.json = o->json;
    return ok;
}

void zt_options_finish(struct zt_options *o) {
    free((void *)o->over.set);
    free((void *)o->configs.at);
    free((void *)o->config);
    o->over.set = NULL;
    o->configs = (struct zt_texts){ 0 };
    o->config = NULL;
    free(o->runs);
    o->runs = NULL;
}

/* ---- help ---- */

bool zt_options_at(const struct zt_command_row *command, int i, struct zt_option *option) {
    for (const struct row *row = rows; row < rows + ROWS; row++)
        if (row->bit & command->takes && i-- == 0) {
            *option = (struct zt_option){ row->name, row->argument, row->help, row->kind == TEXTS };
            return true;
        }
    return false;
}

static void print_option(const struct zt_option *option, FILE *to) {
    char text[48];
    snprintf(text, sizeof text, "--%s%s%s", option->name, option->argument ? " " : "",
             option->argument ? option->argument : "");
    fprintf(to, strlen(text) > 24 ? "  %s\n%26s %s\n" : "  %-24s%s %s\n", text, "", option->help);
}

static void print_command_help(const struct zt_command_row *command, FILE *to) {
    struct zt_option option;
    fprintf(to, "%s\nOptions:\n", command->help);
    for (int i = 0; zt_options_at(command, i, &option); i++)
        print_option(&option, to);
}

void zt_options_help(const struct zt_options *o, const struct zt_command_row *commands, FILE *to) {
    if (o->named) {
        print_command_help(o->command, to);
        return;
    }
    fputs("usage: ztrain [COMMAND] [OPTIONS]\n\nCommands:\n", to);
    for (const struct zt_command_row *c = commands; c->name; c++)
        fprintf(to, "  %-10s %s\n", c->name, c->summary);
    fprintf(to, "\n`ztrain COMMAND --help` lists the options of a command, `ztrain --version` prints the version.\n\n");
    print_command_help(commands, to);
}
