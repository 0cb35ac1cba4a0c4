#include "parallel/launch/supervise_watch.h"

#include "base/arena.h"
#include "base/text.h"
#include "parallel/comm/comm.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Settings of Open MPI, unless the user's environment has others; other MPIs do not read them. */
static const struct {
    const char *name, *value;
    enum { ALWAYS, ONE_HOST, CROWDED } when; /* CROWDED: where ranks may have to share cores */
} settings[] = {
    { "OMPI_ALLOW_RUN_AS_ROOT", "1", ALWAYS },
    { "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", ALWAYS },
    { "OMPI_MCA_rmaps_base_oversubscribe", "1", ALWAYS },
    { "OMPI_MCA_hwloc_base_binding_policy", "none", ALWAYS }, /* ranks bind themselves (cores.h) */
    /* For start-up: later no rank waits inside MPI (mpi.c), and each of its looks at a message would yield. */
    { "OMPI_MCA_mpi_yield_when_idle", "1", CROWDED },
    { "OMPI_MCA_btl_base_warn_component_unused", "0", ALWAYS },
    { "OMPI_MCA_pml", "ob1", ONE_HOST }, /* no search for networks, which takes long */
    { "OMPI_MCA_btl", "vader,self", ONE_HOST },
};

static bool applies(const struct zt_supervise *job, int when) {
    bool crowded = job->hosts || !zt_comm_core_each(job->ranks);
    return when == ALWAYS || (when == ONE_HOST ? !job->hosts : crowded);
}

/* Removes the variables of an mpirun that started this process, because with them the new mpirun would consider itself
 * one of its ranks. */
static void forget_launcher(void) {
    static const char *const prefixes[] = {
        "OMPI_COMM_WORLD_", "OMPI_UNIVERSE", "OMPI_MCA_ess", "OMPI_MCA_orte_", "PMIX_", "PMI_", "ORTE_"
    };
    for (char **at = environ; at && *at;) {
        char name[128];
        bool drop = false;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*at, "="), *at);
        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
            drop |= zt_text_begins(name, prefixes[i]) && strlen(name) < sizeof name - 1;
        if (drop)
            unsetenv(name);
        else
            at++;
    }
}

/* Open MPI hands its own variables to all hosts, others only where told to. */
static void list_arguments(const char **to, const struct zt_supervise *job, const char *count, const char *program) {
    static const char *const passed[] = { ZT_CONTROL_VARIABLE, "GOMP_SPINCOUNT", "TERM", "NO_COLOR" };
    int n = 0;
    to[n++] = "mpirun";
    to[n++] = "-n";
    to[n++] = count;
    if (job->hosts) {
        to[n++] = "--host";
        to[n++] = job->hosts;
    }
    const char *pass = job->hosts ? zt_comm_mpi_kind()->pass : NULL;
    for (size_t i = 0; pass && i < sizeof passed / sizeof *passed; i++)
        if (getenv(passed[i])) {
            to[n++] = pass;
            to[n++] = passed[i];
        }
    to[n++] = program;
    for (int i = 1; job->argv[i]; i++)
        to[n++] = job->argv[i];
    to[n] = NULL;
}

/* In the child. Comes back only where mpirun cannot be run. */
static void become_mpirun(const struct zt_supervise *job, const char *const *arguments, int output) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    setpgid(0, 0); /* the terminal's signals are the parent's to pass on */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    forget_launcher();
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (applies(job, settings[i].when))
            setenv(settings[i].name, settings[i].value, 0);
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(nothing, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execvp("mpirun", (char *const *)arguments);
}

bool zt_mpirun_start(struct zt_mpirun *m, const struct zt_supervise *job, const char *variable, struct zt_err *err) {
    char program[4096], count[16];
    int words = 0, output[2], failed[2], why = 0;
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0)
        return zt_fail(err, ZT_EXIT_RUN, "/proc/self/exe: %s", strerror(errno));
    program[length] = 0;
    snprintf(count, sizeof count, "%d", job->ranks);
    while (job->argv[words])
        words++;
    if (pipe2(output, O_CLOEXEC) != 0 || pipe2(failed, O_CLOEXEC) != 0)
        return zt_fail(err, ZT_EXIT_RUN, "pipe: %s", strerror(errno));
    const char **arguments = zt_calloc((size_t)words + 24, sizeof *arguments);
    setenv(ZT_CONTROL_VARIABLE, variable, 1); /* for the child, and so that it is listed */
    list_arguments(arguments, job, count, program);
    m->pid = fork();
    if (m->pid == 0) {
        become_mpirun(job, arguments, output[1]);
        why = errno;
        if (write(failed[1], &why, sizeof why) < 0)
            _exit(126);
        _exit(127);
    }
    int forked = errno;
    m->started = m->pid;
    unsetenv(ZT_CONTROL_VARIABLE);
    free(arguments);
    close(output[1]);
    close(failed[1]);
    bool ran = m->pid > 0 && read(failed[0], &why, sizeof why) <= 0; /* closed by exec */
    close(failed[0]);
    m->output = output[0];
    fcntl(m->output, F_SETFL, O_NONBLOCK);
    if (ran)
        return true;
    if (m->pid > 0)
        waitpid(m->pid, NULL, 0);
    why = m->pid > 0 ? why : forked;
    m->pid = 0;
    zt_fail(err, ZT_EXIT_RUN, "mpirun cannot be run: %s", strerror(why));
    return zt_hint(err,
                   "ranks are processes over MPI: install Open MPI (Debian: openmpi-bin), or take "
                   "--set ztrain.parallel.communicator=thread");
}

void zt_mpirun_take(struct zt_mpirun *m) {
    char text[1024];
    ssize_t n = 1;
    while (m->output >= 0 && (n = read(m->output, text, sizeof text)) > 0)
        zt_text_keep_end(m->said, sizeof m->said, text, (size_t)n);
    if (m->output >= 0 && n == 0) {
        close(m->output);
        m->output = -1;
    }
    if (m->pid > 0 && waitpid(m->pid, &m->status, WNOHANG) == m->pid)
        m->pid = 0;
}

void zt_mpirun_kill(struct zt_mpirun *m, int number) {
    if (m->pid > 0)
        kill(number == SIGKILL ? -m->pid : m->pid, number);
}

int zt_mpirun_cause(const struct zt_mpirun *m, int *signal_number, int *status) {
    static const char of_rank[] = "process rank ", by_signal[] = "exited on signal ", by_status[] = "Exit code: ";
    const char *rank = strstr(m->said, of_rank), *at = strstr(m->said, by_signal), *code = strstr(m->said, by_status);
    *signal_number = at ? (int)strtol(at + strlen(by_signal), NULL, 10) : 0;
    *status = code ? (int)strtol(code + strlen(by_status), NULL, 10) : -1;
    return rank && at && rank < at ? (int)strtol(rank + strlen(of_rank), NULL, 10) : -1;
}
