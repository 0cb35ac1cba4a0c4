/* main: selects the command from argv and returns its exit status. Only this file prints errors and exits. */
#include "base/arena.h"
#include "checkpoint/format.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "device/threads.h"
#include "ops/cpu/isa.h"
#include "session/options.h"
#include "parallel/comm/comm.h"
#include "parallel/launch/environment.h"
#include "parallel/launch/error_once.h"
#include "parallel/launch/supervisor_channel.h"
#include "run/stop/stop.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define ON_ONE_RANK                                                                                                    \
    (ZT_TAKES_MODEL | ZT_TAKES_CONFIG | ZT_TAKES_SET | ZT_TAKES_DEVICE | ZT_TAKES_SEED | ZT_TAKES_THREADS |            \
     ZT_TAKES_CONTROL | ZT_TAKES_JSON)
#define RUNS_CONFIG (ON_ONE_RANK | ZT_TAKES_RANKS)
#define TRAINS                                                                                                         \
    (RUNS_CONFIG | ZT_TAKES_HOSTS | ZT_TAKES_LENGTH | ZT_TAKES_OUTPUT | ZT_TAKES_OVERWRITE | ZT_TAKES_RESUME |         \
     ZT_TAKES_STRICT | ZT_TAKES_PROFILE | ZT_TAKES_LOAD)
#define ON_ARRAYS  (ZT_TAKES_MODEL | ZT_TAKES_INPUTS | ZT_TAKES_OUTPUT)
#define AND_CONFIG (ZT_TAKES_MODEL | ZT_TAKES_CONFIG)
#define EAGERLY    (ON_ARRAYS | ZT_TAKES_THREADS | ZT_TAKES_SEED | ZT_TAKES_CONTROL)

/* The first row is the default command. */
static const struct zt_command_row commands[] = {
    { "train", "train a model (also without a command)", TRAINS, AND_CONFIG, zt_cli_train, zt_help_train },
    { "plan", "print what training would run; run nothing",
      RUNS_CONFIG | ZT_TAKES_LENGTH | ZT_TAKES_PLAN | ZT_TAKES_STRICT, AND_CONFIG, zt_cli_plan, zt_help_plan },
    { "inspect", "list inputs, outputs, parameters and operators of a model", ZT_TAKES_MODEL | ZT_TAKES_CONTROL,
      ZT_TAKES_MODEL, zt_cli_inspect, zt_help_inspect },
    { "evaluate", "compute loss and metrics on the evaluation data", ON_ONE_RANK, AND_CONFIG, zt_cli_evaluate,
      zt_help_evaluate },
    { "predict", "run a model forward on whole arrays", EAGERLY, ON_ARRAYS, zt_cli_predict, zt_help_predict },
    { "grad", "compute a vector-Jacobian product on whole arrays", EAGERLY | ZT_TAKES_EMIT, ON_ARRAYS, zt_cli_grad,
      zt_help_grad },
    { "bench", "compare parallel modes, numbers of ranks and batch sizes",
      ZT_TAKES_MODEL | ZT_TAKES_CONFIG | ZT_TAKES_SET | ZT_TAKES_DEVICE | ZT_TAKES_SEED | ZT_TAKES_THREADS |
          ZT_TAKES_CONTROL | ZT_TAKES_OUTPUT | ZT_TAKES_OVERWRITE | ZT_TAKES_COMBINATIONS | ZT_TAKES_REPEATS,
      AND_CONFIG | ZT_TAKES_OUTPUT | ZT_TAKES_COMBINATIONS, zt_cli_bench, zt_help_bench },
    { "verify",
      "check every checksum of a checkpoint",
      ZT_TAKES_HELP,
      0,
      zt_cli_verify,
      zt_help_verify,
      { "CHECKPOINT" } },
    { "report",
      "draw the curves of runs as one page",
      ZT_TAKES_OUTPUT,
      0,
      zt_cli_report,
      zt_help_report,
      { "RUN" },
      .repeats_operand = true },
    { "diff",
      "find the first step, node and tensor in which two runs differ",
      ZT_TAKES_HELP,
      0,
      zt_cli_diff,
      zt_help_diff,
      { "RUN_A", "RUN_B" } },
    { "tune-nvme",
      "measure a disk and print the keys of aio for it",
      ZT_TAKES_HELP,
      0,
      zt_cli_tune_nvme,
      zt_help_tune_nvme,
      { "DIR" } },
    { "ops", "list operators: opsets, types, gradient, back ends", ZT_TAKES_JSON, 0, zt_cli_ops, zt_help_ops },
    { "doctor", "list devices, libraries and programs, and how to install those that are missing", ZT_TAKES_HELP, 0,
      zt_cli_doctor, zt_help_doctor },
    { "help",
      "print the commands, the manual page, shell completions or the config keys",
      ZT_TAKES_PAGES,
      0,
      zt_cli_help,
      zt_help_help,
      { "[COMMAND]" } },
    { 0 },
};

/* The loader calls this function before the libraries' own initialisation, which takes tens of milliseconds. */
static void (*const early[])(void) __attribute__((section(".preinit_array"), used)) = { zt_stop_prepare };

/* Threads that wait for work should spin briefly and then sleep. libgomp's default of 300,000 iterations takes the core
 * from other threads. With a hundred, threads sleep between the kernels of small networks, and waking a thread takes
 * longer than most of these kernels. To measure it, run models/vit.onnx on two threads with GOMP_SPINCOUNT=N and
 * compare the median step. */
static bool set_short_spin(void) {
    static const char spin_count[] = "3000";
    return !getenv("GOMP_SPINCOUNT") && !getenv("OMP_WAIT_POLICY") && setenv("GOMP_SPINCOUNT", spin_count, 1) == 0;
}

/* libgomp reads its variables when it is loaded, before main, so the program sets them and executes itself again; also
 * where the limit of the stack was `raised`. */
static void restart_with_own_threads(char **argv, bool raised) {
    char self[4096];
    const bool unbound = zt_parallel_unbind(), spins = set_short_spin();
    ssize_t length = unbound || spins || raised ? readlink("/proc/self/exe", self, sizeof self - 1) : 0;
    if (length <= 0 || length >= (ssize_t)sizeof self - 1)
        return;
    self[length] = 0;
    execv(self, argv); /* returns only on failure; libgomp's default applies then */
}

/* Whether the reader has closed the pipe, as `head` does. This is not an error. */
static bool reader_has_left(void) {
    struct pollfd out = { .fd = STDOUT_FILENO };
    return poll(&out, 1, 0) == 1 && out.revents & POLLERR;
}

/* How an error is reported. */
struct reporting {
    bool says; /* false: another rank does */
    int claim; /* for zt_error_release() */
};

static bool run(int argc, char **argv, struct zt_supervisor_channel *supervisor, struct reporting *r,
                struct zt_err *err) {
    struct zt_options options;
    bool ok = zt_options_parse(&options, commands, argc, argv, err);
    options.supervisor = supervisor;
    if (ok && options.version)
        puts("ztrain " ZT_VERSION);
    else if (ok && options.help)
        zt_options_help(&options, commands, stdout);
    else if (ok)
        ok = options.command->run(&options, err);
    if (ok && (fflush(stdout) != 0 || ferror(stdout)) && !reader_has_left())
        ok = zt_fail(err, ZT_EXIT_DATA, "standard output: %s", strerror(errno));
    if (!ok && !supervisor)
        r->says = zt_launched_place(options.command && options.command->takes & ZT_TAKES_HOSTS, err, &r->claim);
    zt_options_finish(&options);
    return ok;
}

/* Raises a limit of the stack (ulimit -s) that is less than commands need, which would end in a signal. *raised: it
 * was; threads have it after a restart. */
static bool raise_stack(bool *raised, struct zt_err *err) {
    enum { LEAST = 1 << 20, USUAL = 1 << 23 };
    struct rlimit limit;
    *raised = false;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= LEAST)
        return true;
    const rlim_t had = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max < USUAL ? limit.rlim_max : USUAL;
    *raised = limit.rlim_cur >= LEAST && setrlimit(RLIMIT_STACK, &limit) == 0;
    if (*raised)
        return true;
    zt_fail(err, ZT_EXIT_RUN, "the stack is limited to %llu bytes, %d are needed", (unsigned long long)had, LEAST);
    return zt_hint(err, "`ulimit -s 8192` sets the usual limit");
}

/* Under a limit of address space the stack's growth ends in a signal, so it grows here, as far as commands need it. */
static void __attribute__((noinline)) grow_stack(void) {
    enum { MOST = 1 << 19 };
    volatile char stack[MOST];
    stack[0] = 0;
    (void)stack[0];
}

int main(int argc, char **argv) {
    struct zt_err err = { 0 };
    struct zt_supervisor_channel *supervisor = NULL;
    struct reporting reporting = { .says = true, .claim = -1 };
    bool raised, ok = raise_stack(&raised, &err);
    if (ok)
        grow_stack();
    zt_malloc_begin();
    zt_stored_begin();
    restart_with_own_threads(argv, raised);
    ok = ok && zt_isa_check(&err) && zt_supervisor_channel_open(&supervisor, &err) &&
         run(argc, argv, supervisor, &reporting, &err);
    int code = ok ? ZT_EXIT_OK : (int)err.code;
    if (supervisor && !ok) { /* the supervisor prints the error and ends what MPI still waits for */
        zt_supervisor_channel_close(supervisor, &err, code);
        _exit(code);
    }
    if (!ok && reporting.says)
        zt_err_print(&err, stderr);
    zt_error_release(reporting.claim);
    zt_comm_mpi_finalize(code);
    zt_supervisor_channel_close(supervisor, &err, code);
    zt_err_finish(&err);
    return code;
}
