/* One run of a combination: child process, log, metrics, memory. */
#include "cli/bench.h"

#include "base/file.h"
#include "base/process_memory.h"
#include "base/vec.h"
#include "report/metrics_file.h"
#include "run/stop/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- processes ---- */

/* The signals that the command waits for in a thread (run/stop/stop.h) have their usual effect in a child. */
static void unblock(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

bool zt_bench_start(char *const *argv, const char *log, int *pid, struct zt_err *err) {
    int to = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666), told[2] = { -1, -1 }, why = 0;
    if (to < 0)
        return zt_fail(err, ZT_EXIT_DATA, "%s: cannot be written: %s", log, strerror(errno));
    pid_t parent = getpid();
    *pid = pipe2(told, O_CLOEXEC) == 0 ? fork() : -1;
    if (*pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        signal(SIGPIPE, SIG_DFL);
        unblock();
        int from = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (getppid() == parent && dup2(from, 0) >= 0 && dup2(to, 1) >= 0 && dup2(to, 2) >= 0)
            execvp(argv[0], argv);
        why = errno ? errno : EINTR;
        _exit(write(told[1], &why, sizeof why) < 0 ? 126 : 127);
    }
    bool forked = *pid > 0;
    int problem = errno;
    close(to);
    close(told[1]);
    if (forked && read(told[0], &why, sizeof why) > 0) { /* the pipe closes without data if the program started */
        waitpid(*pid, NULL, 0);
        *pid = -1;
    }
    close(told[0]);
    if (!forked || (why && why != ENOENT))
        return zt_fail(err, ZT_EXIT_RUN, "%s cannot be started: %s", argv[0], strerror(forked ? why : problem));
    return true;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *at) {
    (void)status, (void)type, (void)at;
    remove(path);
    return 0;
}

void zt_bench_remove(const char *folder) {
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Writes the path of the program that process `pid` runs, "" if it has ended. */
static void program_of(int pid, char *to, size_t room) {
    char link[64];
    snprintf(link, sizeof link, "/proc/%d/exe", pid);
    ssize_t n = readlink(link, to, room - 1);
    to[n > 0 ? n : 0] = 0;
}

/* Memory observed of a process. */
struct seen {
    int pid;
    int64_t high, peak; /* peak including and excluding shared memory of other ranks */
};
typedef ZT_VEC(struct seen) sights;

/* Reads the peak of a process. Shared memory of other ranks is read only if the peak has changed, because the kernel
 * then visits every page within the process's own time, which is being measured. */
static int64_t peak_of(sights *all, int pid) {
    int i = 0;
    while (i < all->count && all->at[i].pid != pid)
        i++;
    if (i == all->count)
        zt_vec_push(all, (struct seen){ .pid = pid });
    struct seen *s = &all->at[i];
    int64_t high = zt_process_memory_high(pid);
    if (high != s->high)
        *s = (struct seen){ pid, high, zt_process_memory_of(pid).peak };
    return s->peak;
}

/* Returns the sum of the peaks of the process and its descendants that run this program. If there are descendants,
 * these are the ranks, and the process itself only started them. (The kernel's figure for a finished child is not used,
 * because it includes the parent's memory at fork.) */
static int64_t peak_below(sights *all, int pid, const char *self, int depth) {
    char path[64], program[4096];
    int64_t below = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    FILE *file = fopen(path, "r");
    int child;
    while (file && depth < 8 && fscanf(file, "%d", &child) == 1)
        below += peak_below(all, child, self, depth + 1);
    if (file)
        fclose(file);
    program_of(pid, program, sizeof program);
    return below ? below : strcmp(program, self) == 0 ? peak_of(all, pid) : 0;
}

/* ---- output of a run ---- */

/* Adds the full steps after the warm-up to the row; the smaller last step of an epoch is not counted. */
static int64_t read_metrics(const struct zt_bench *bench, struct zt_bench_row *row, const char *path, bool keep) {
    char line[2048];
    int64_t steps = 0;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strstr(line, "\"eval\": true"))
            continue;
        steps++;
        if (!keep)
            continue;
        row->loss = zt_metrics_number(line, "loss");
        if (steps > bench->warmup && (int64_t)zt_metrics_number(line, "samples") == row->batch) {
            struct {
                double *at;
                int count, room;
            } list = { row->seconds, row->count, row->room };
            zt_vec_push(&list, zt_metrics_number(line, "seconds"));
            row->seconds = list.at;
            row->count = list.count;
            row->room = list.room;
        }
    }
    if (file)
        fclose(file);
    return steps;
}

static void take_weights(struct zt_bench_row *row, const char *line) {
    char hash[17] = "";
    const char *at = strstr(line, "{\"weights\": \"");
    if (!at || sscanf(at, "{\"weights\": \"%16[0-9a-f]\"", hash) != 1)
        return;
    row->unsteady |= row->weights[0] && strcmp(row->weights, hash) != 0;
    snprintf(row->weights, sizeof row->weights, "%s", hash);
}

/* Whether the file system of a file has no space left, also not for the messages of a run. */
static bool is_full(const char *path) {
    struct statvfs st;
    return statvfs(path, &st) == 0 && st.f_bavail == 0;
}

/* Reads the hash, or the first error as the reason. */
static void read_log(struct zt_bench_row *row, const char *path, int status) {
    const enum zt_exit code = WIFEXITED(status) ? (enum zt_exit)WEXITSTATUS(status) : ZT_EXIT_RUN;
    char line[2048];
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        take_weights(row, line);
        if (status && !row->reason[0] && strncmp(line, ZT_ERR_MARK, strlen(ZT_ERR_MARK)) == 0)
            zt_bench_refuse(row, code, line + strlen(ZT_ERR_MARK));
    }
    if (file)
        fclose(file);
    row->code = code;
    if (status && !row->reason[0] && WIFSIGNALED(status))
        snprintf(row->reason, sizeof row->reason, "ended by signal %d", WTERMSIG(status));
    else if (status && !row->reason[0])
        snprintf(row->reason, sizeof row->reason, "ended with status %d and no message%s", WEXITSTATUS(status),
                 is_full(path) ? ": no space is left on the device of --output" : "");
}

/* Reads the forecast in plan.txt, which the run rewrote after its own measurements. */
static void read_forecast(struct zt_bench_row *row, const char *path) {
    char line[2048];
    double ms, percent;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "predicted step %lf ms, bubble %lf %%", &ms, &percent) != 2)
            continue;
        double before = row->repeats;
        row->forecast_seconds = (before * row->forecast_seconds + 1e-3 * ms) / (before + 1);
        if (row->mode->pipeline) /* without a pipeline, the idle time of a forecast is waiting for collectives */
            row->forecast_bubble = (before * row->forecast_bubble + 1e-2 * percent) / (before + 1);
        break;
    }
    if (file)
        fclose(file);
}

/* ---- one run ---- */

int zt_bench_stopped(const struct zt_bench *bench) {
    double requests[ZT_REQUESTS] = { 0 };
    zt_stop_take(bench->stop, requests);
    return zt_stop_signal(requests);
}

static int wait_for(int pid, const char *self, const struct zt_bench_progress *progress, const char *metrics,
                    struct zt_bench_row *row) {
    enum { OFTEN_MS = 5, SELDOM_MS = 50, OFTEN = 100, SAY_MS = 100 };
    sights all = { 0 };
    int status = 0;
    int64_t most = 0;
    bool stopped = false;
    for (int round = 0; waitpid(pid, &status, WNOHANG) == 0; round++) {
        const int ms = round < OFTEN ? OFTEN_MS : SELDOM_MS;
        int64_t bytes = peak_below(&all, pid, self, 0);
        most = bytes > most ? bytes : most;
        if (!stopped && (stopped = zt_bench_stopped(progress->bench)))
            kill(pid, SIGTERM);
        if (progress->terminal && round % (SAY_MS / ms) == 0)
            progress->say(progress, read_metrics(progress->bench, row, metrics, false));
        nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000L }, NULL);
    }
    zt_vec_finish(&all);
    most /= row->ranks;
    row->measured_bytes = most > row->measured_bytes ? most : row->measured_bytes;
    return status;
}

typedef ZT_VEC(char *) words;

static void add_option(words *w, const char *name, const char *value) {
    zt_vec_push(w, (char *)name);
    zt_vec_push(w, (char *)value);
}

static void add_words(words *w, const struct zt_options *o, char number[4][24]) {
    add_option(w, "--model", o->model);
    for (int i = 0; i < o->configs.count; i++)
        add_option(w, "--config", o->configs.at[i]);
    add_option(w, "--output", o->output);
    for (int i = 0; i < o->over.set_count; i++)
        add_option(w, "--set", o->over.set[i]);
    const struct {
        const char *name;
        int64_t value, none;
    } numbers[] = { { "--ranks", o->over.ranks, 0 },
                    { "--steps", o->over.steps, -1 },
                    { "--seed", o->over.seed, -1 },
                    { "--threads", o->over.threads, 0 } };
    for (int i = 0; i < 4; i++) {
        snprintf(number[i], 24, "%lld", (long long)numbers[i].value);
        if (numbers[i].value != numbers[i].none)
            add_option(w, numbers[i].name, number[i]);
    }
    if (o->over.data)
        add_option(w, "--data", o->over.data);
    if (o->over.device)
        add_option(w, "--device", o->over.device);
    zt_vec_push(w, (char *)"--json");
    zt_vec_push(w, NULL);
}

bool zt_bench_run(const struct zt_bench *bench, struct zt_bench_row *row, const char *folder,
                  const struct zt_bench_progress *progress, struct zt_err *err) {
    char self[4096], batch[ZT_BENCH_WORD], number[4][24];
    char *log = zt_path_join(folder, "log.txt"), *run = zt_path_join(folder, "run");
    char *metrics = zt_path_join(run, "metrics.jsonl"), *plan = zt_path_join(run, "plan.txt");
    const char **set = zt_calloc((size_t)(bench->options->over.set_count + ZT_BENCH_EXTRA_SETS), sizeof *set);
    struct zt_options options;
    words w = { 0 };
    int pid = -1;
    program_of(getpid(), self, sizeof self);
    zt_bench_overlay(bench, row, &options, set, batch);
    options.output = run;
    zt_vec_push(&w, self);
    zt_vec_push(&w, (char *)"train");
    add_words(&w, &options, number);
    bool ok = zt_file_make_folder(folder, err) && zt_bench_start(w.at, log, &pid, err);
    if (ok && pid < 0)
        ok = zt_fail(err, ZT_EXIT_RUN, "%s: the program no longer exists", self);
    if (ok) {
        int status = wait_for(pid, self, progress, metrics, row);
        read_log(row, log, status);
        if (!row->reason[0] && read_metrics(bench, row, metrics, true) < bench->steps)
            zt_bench_refuse(row, ZT_EXIT_RUN, "the run ended before its last step");
        if (!row->reason[0]) {
            read_forecast(row, plan);
            row->repeats++;
        }
    }
    const int stopped = ok ? zt_bench_stopped(bench) : 0;
    if (stopped) {
        err->code = (enum zt_exit)(128 + stopped);
        ok = false;
    }
    zt_bench_remove(folder);
    zt_vec_finish(&w);
    free(set);
    free(metrics);
    free(plan);
    free(run);
    free(log);
    return ok;
}
