#include "base/mapped.h"

#include "base/arena.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct zt_mapped {
    struct zt_mapped *next; /* set once: entries are reused and never freed, because a handler may be reading them */
    atomic_uint version;    /* odd while begin and end change */
    atomic_uintptr_t begin; /* 0: free */
    atomic_uintptr_t end;
    atomic_llong fault; /* offset of the first page that could not be read; -1: none */
    bool checked_by_reader;
    char *path;
    struct stat before;
};

static struct zt_mapped *_Atomic list;
static atomic_bool faults;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects entering, leaving and checking all */
static size_t page_bytes;
/* The handler of another copy of this file, in the program that loaded a module; otherwise zeros. */
static struct sigaction other;

/* ---- the signal handler: async-signal-safe functions only ---- */

static struct zt_mapped *find(uintptr_t at) {
    for (struct zt_mapped *m = atomic_load(&list); m; m = m->next) {
        unsigned version = atomic_load(&m->version);
        uintptr_t begin = atomic_load(&m->begin), end = atomic_load(&m->end);
        if (begin && begin <= at && at < end && !(version & 1) && version == atomic_load(&m->version))
            return m;
    }
    return NULL;
}

/* Maps zeros from the page of the fault to the end of the mapping, because everything behind the end of the file is
 * gone as well. */
static bool replace(struct zt_mapped *m, uintptr_t at) {
    uintptr_t page = at / page_bytes * page_bytes, begin = atomic_load(&m->begin), end = atomic_load(&m->end);
    long long none = -1;
    atomic_compare_exchange_strong(&m->fault, &none, (long long)(page - begin));
    atomic_store(&faults, true);
    return mmap((void *)page, end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

static void on_bus_error(int number, siginfo_t *info, void *context) {
    int saved = errno;
    uintptr_t at = (uintptr_t)info->si_addr;
    struct zt_mapped *m = info->si_code > 0 ? find(at) : NULL;
    if (info->si_code > 0 && !m && other.sa_sigaction) {
        other.sa_sigaction(number, info, context);
    } else if (!m || !replace(m, at)) {
        signal(number, SIG_DFL); /* the access is repeated and ends the process */
        if (info->si_code <= 0)
            raise(number);
    }
    errno = saved;
}

/* Installs the handler. A module contains a copy of this file with its own list and replaces the handler of the
 * program's copy. A copy recognises the other's handler by the blocked signal SIGURG, which has no meaning here and
 * which no other SIGBUS handler would block. */
static void install(void) {
    struct sigaction action = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_RESTART }, before;
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGURG);
    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    if (sigaction(SIGBUS, NULL, &before) == 0 && before.sa_flags & SA_SIGINFO && sigismember(&before.sa_mask, SIGURG))
        other = before;
    sigaction(SIGBUS, &action, NULL);
}

/* ---- the list ---- */

static struct zt_mapped *free_entry(void) {
    for (struct zt_mapped *m = atomic_load(&list); m; m = m->next)
        if (!m->path)
            return m;
    struct zt_mapped *fresh = zt_calloc(1, sizeof *fresh);
    fresh->next = atomic_load(&list);
    atomic_store(&list, fresh);
    return fresh;
}

static void set_range(struct zt_mapped *m, uintptr_t begin, uintptr_t end) {
    atomic_fetch_add(&m->version, 1);
    atomic_store(&m->begin, begin);
    atomic_store(&m->end, end);
    atomic_fetch_add(&m->version, 1);
}

struct zt_mapped *zt_mapped_enter(const void *data, size_t size, const char *path, const struct stat *st) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
    pthread_mutex_lock(&lock);
    struct zt_mapped *m = free_entry();
    m->path = zt_strdup(path);
    m->before = *st;
    m->checked_by_reader = false;
    atomic_store(&m->fault, -1);
    set_range(m, (uintptr_t)data, (uintptr_t)data + size);
    pthread_mutex_unlock(&lock);
    return m;
}

void zt_mapped_leave(struct zt_mapped *m) {
    if (!m)
        return;
    pthread_mutex_lock(&lock);
    set_range(m, 0, 0);
    free(m->path);
    m->path = NULL;
    pthread_mutex_unlock(&lock);
}

void zt_mapped_checked_by_reader(struct zt_mapped *m) {
    if (m)
        m->checked_by_reader = true;
}

void zt_mapped_give_back(const void *data, size_t bytes) {
    const uintptr_t begin = (uintptr_t)data, end = begin + bytes;
    pthread_mutex_lock(&lock);
    const struct zt_mapped *m = find(begin);
    if (m && end <= atomic_load(&m->end)) {
        const uintptr_t first = (begin + page_bytes - 1) / page_bytes * page_bytes,
                        last = end / page_bytes * page_bytes;
        if (first < last)
            madvise((void *)first, last - first, MADV_DONTNEED);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- state of the file ---- */

static bool fail(struct zt_err *err, const struct zt_mapped *m, const char *how) {
    err->count = 0;
    zt_fail(err, ZT_EXIT_DATA, "%s: changed while it was read (%s)", m->path, how);
    return zt_hint(err, "replace files by renaming a new one: running programs continue to read the old one");
}

static bool unreadable(struct zt_err *err, const struct zt_mapped *m, long long fault) {
    err->count = 0;
    return zt_fail(err, ZT_EXIT_DATA, "%s: cannot be read at byte %lld: its device or file system reports an error",
                   m->path, fault);
}

bool zt_mapped_intact(const struct zt_mapped *m, struct zt_err *err) {
    struct stat now;
    char how[96];
    if (!m)
        return true;
    long long fault = atomic_load(&m->fault);
    bool there = stat(m->path, &now) == 0 && now.st_ino == m->before.st_ino && now.st_dev == m->before.st_dev;
    if (there && now.st_size != m->before.st_size) {
        snprintf(how, sizeof how, "was %lld bytes, is %lld", (long long)m->before.st_size, (long long)now.st_size);
        return fail(err, m, how);
    }
    if (there && (now.st_mtim.tv_sec != m->before.st_mtim.tv_sec || now.st_mtim.tv_nsec != m->before.st_mtim.tv_nsec)) {
        snprintf(how, sizeof how, "written to, %lld bytes as before", (long long)now.st_size);
        return fail(err, m, how);
    }
    if (fault >= 0 && !there) {
        snprintf(how, sizeof how, "was %lld bytes, ended at byte %lld", (long long)m->before.st_size, fault);
        return fail(err, m, how);
    }
    return fault < 0 || unreadable(err, m, fault);
}

bool zt_mapped_all_intact(struct zt_err *err) {
    bool ok = true;
    pthread_mutex_lock(&lock);
    for (const struct zt_mapped *m = atomic_load(&list); ok && m; m = m->next)
        ok = !m->path || m->checked_by_reader || zt_mapped_intact(m, err);
    pthread_mutex_unlock(&lock);
    return ok;
}

bool zt_mapped_any(bool (*is)(const char *path, const void *with), const void *with) {
    bool found = false;
    pthread_mutex_lock(&lock);
    for (const struct zt_mapped *m = atomic_load(&list); !found && m; m = m->next)
        found = m->path && is(m->path, with);
    pthread_mutex_unlock(&lock);
    return found;
}

bool zt_mapped_faults(void) {
    return atomic_load_explicit(&faults, memory_order_relaxed);
}
