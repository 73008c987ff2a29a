/* What each planted cause does for one request. Names are those a service would
 * use, so that a profile is as plain or as puzzling as it would be there. */
#define _GNU_SOURCE
#include "plants.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    LOG_WRAP_BYTES = 64 << 20, /* the access log starts over, so that a run cannot fill the disk */
    COPY_MAX_BYTES = 1 << 20,
    TABLE_BYTES = 256 << 10,
    BLOCKS_MAX = 4096,
    SPEED_TURNS = 3000,  /* about 3 µs, 150 times what reading the clock takes */
    SPEED_EVERY = 1024,  /* requests, so that measuring the speed costs 3 ns in each */
    SHARED_BY = 64,      /* requests that share what one of them burns */
    SHORT_TURNS = 8,     /* about 8 ns */
    SHARE_OF = 10000,    /* a share is given in hundredths of a percent */
    PAUSE_EVERY_NS = 250000000,
    NAMES = 1000, /* header names that are known to the linear search */
};

void wait_ns(long ns)
{
    struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    nanosleep(&t, NULL);
}

/* An extra system call that does nothing; getppid is never cached by libc. */
static void check_parent(const char *head, size_t n, long amount)
{
    (void)head, (void)n;
    for (long i = 0; i < amount; i++)
        syscall(SYS_getppid);
}

/* Another program, started and waited for by one of so many requests. */
static void run_helper(const char *head, size_t n, long amount)
{
    static long turn;
    char *argv[] = {"true", NULL}, *none[] = {NULL};
    pid_t helper;
    (void)head, (void)n;
    if (amount > 0 && ++turn % amount == 0 && posix_spawnp(&helper, argv[0], NULL, NULL, argv, none) == 0)
        waitpid(helper, NULL, 0);
}

static void *do_nothing(void *nothing)
{
    return nothing;
}

/* A thread for a request, as one that would answer it. */
static void run_thread(const char *head, size_t n, long amount)
{
    pthread_t helper;
    (void)head, (void)n;
    for (long i = 0; i < amount && pthread_create(&helper, NULL, do_nothing, NULL) == 0; i++)
        pthread_join(helper, NULL);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void ask_backend(const char *head, size_t n, long amount)
{
    (void)head, (void)n;
    wait_ns(amount);
}

/* The same wait, but under a lock that all threads share. */
static void ask_backend_locked(const char *head, size_t n, long amount)
{
    pthread_mutex_lock(&lock);
    ask_backend(head, n, amount);
    pthread_mutex_unlock(&lock);
}

static atomic_flag taken = ATOMIC_FLAG_INIT;

/* The same again, but whoever waits for the lock keeps its CPU meanwhile. */
static void ask_backend_spinning(const char *head, size_t n, long amount)
{
    while (atomic_flag_test_and_set_explicit(&taken, memory_order_acquire))
#if defined __x86_64__
        __builtin_ia32_pause();
#elif defined __aarch64__
        __asm__ volatile("yield");
#endif
    ask_backend(head, n, amount);
    atomic_flag_clear_explicit(&taken, memory_order_release);
}

/* Waits as an event loop's timer does, by a call that could wait for anything. */
static void wait_in_poll(const char *head, size_t n, long amount)
{
    struct timespec t = {.tv_sec = amount / 1000000000, .tv_nsec = amount % 1000000000};
    (void)head, (void)n;
    ppoll(NULL, 0, &t, NULL);
}

/* Stops four times a second, and everybody waits. */
static void save_snapshot(const char *head, size_t n, long amount)
{
    static struct timespec due;
    struct timespec now;
    (void)head, (void)n;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec < due.tv_sec || (now.tv_sec == due.tv_sec && now.tv_nsec < due.tv_nsec))
        return;
    wait_ns(amount);
    due = now;
    due.tv_nsec += PAUSE_EVERY_NS;
    if (due.tv_nsec >= 1000000000) {
        due.tv_sec++;
        due.tv_nsec -= 1000000000;
    }
}

/* Stops at even times by the clock, for the last tenth of each period of so many milliseconds: whoever asks then waits. */
static void stop_by_the_clock(const char *head, size_t n, long amount)
{
    static struct timespec first;
    struct timespec now;
    long long period_ns = amount * 1000000LL;
    (void)head, (void)n;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (first.tv_sec == 0)
        first = now;
    long long since_ns = (now.tv_sec - first.tv_sec) * 1000000000LL + now.tv_nsec - first.tv_nsec;
    long long into_ns = since_ns % period_ns;
    if (into_ns >= period_ns / 10 * 9)
        wait_ns((long)(period_ns - into_ns));
}

static long backend_ns;

/* The other end: it answers each byte after some time. */
static void *run_backend(void *end)
{
    char byte;
    while (read((int)(intptr_t)end, &byte, 1) == 1) {
        wait_in_poll(NULL, 0, backend_ns);
        if (write((int)(intptr_t)end, &byte, 1) != 1)
            break;
    }
    return NULL;
}

/* A question to another service over a socket, and the wait for its answer. */
static void query_backend(const char *head, size_t n, long amount)
{
    static _Thread_local int ends[2];
    char byte = n ? head[0] : 0;
    if (!ends[0]) {
        pthread_t thread;
        backend_ns = amount;
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)
            || pthread_create(&thread, NULL, run_backend, (void *)(intptr_t)ends[1]))
            abort();
    }
    if (write(ends[0], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1)
        abort();
}

static int log_file;

/* The file has no name, so that nothing is left behind. */
static void open_log(const char *directory)
{
    log_file = open(directory, O_TMPFILE | O_RDWR, 0600);
    if (log_file < 0) {
        perror(directory);
        exit(1);
    }
}

static size_t log_line(char *to, size_t size, const char *head)
{
    char date[40];
    time_t now = time(NULL);
    struct tm local;
    strftime(date, sizeof date, "%d/%b/%Y:%H:%M:%S %z", localtime_r(&now, &local));
    int length = snprintf(to, size, "127.0.0.1 - - [%s] \"%.*s\" 200 13\n", date, (int)strcspn(head, "\r\n"), head);
    return (size_t)length < size ? (size_t)length : size;
}

static void write_access_log(const char *head, size_t n, long amount)
{
    static _Thread_local size_t written;
    char line[512];
    (void)n, (void)amount;
    ssize_t length = write(log_file, line, log_line(line, sizeof line, head));
    written += length > 0 ? length : 0;
    if (written > LOG_WRAP_BYTES) {
        lseek(log_file, 0, SEEK_SET);
        written = 0;
    }
}

static void write_journal(const char *head, size_t n, long amount)
{
    (void)amount;
    if (pwrite(log_file, head, n, 0) >= 0)
        fsync(log_file);
}

/* Copies as many bytes as a larger body would have, once more than needed. */
static void copy_body(const char *head, size_t n, long amount)
{
    static char body[COPY_MAX_BYTES], staging[COPY_MAX_BYTES];
    size_t size = amount < COPY_MAX_BYTES ? amount : COPY_MAX_BYTES;
    body[0] = n ? head[0] : 0;
    memcpy(staging, body, size);
    __asm__ volatile("" ::: "memory"); /* the copy is not to be optimised away */
}

/* Many small blocks of mixed sizes, all alive at once, as a parser to a tree makes them. */
static void build_tree(const char *head, size_t n, long amount)
{
    static _Thread_local void *block[BLOCKS_MAX];
    (void)head;
    if (amount > BLOCKS_MAX)
        amount = BLOCKS_MAX;
    for (long i = 0; i < amount; i++) {
        block[i] = malloc(24 + (i * 72 + n) % 1000);
        if (block[i])
            memset(block[i], 0, 16);
    }
    for (long i = 0; i < amount; i++)
        free(block[i]);
}

static char known[NAMES][16];

static void name_headers(const char *directory)
{
    (void)directory;
    for (int i = 0; i < NAMES; i++)
        snprintf(known[i], sizeof known[i], "X-Known-%d", i);
}

/* Looks every header up in a list, from its start to its end. */
static void find_headers(const char *head, size_t n, long amount)
{
    static volatile int found;
    const char *end = head + n, *line = memchr(head, '\n', n);
    for (; line && ++line < end && *line != '\r'; line = memchr(line, '\n', end - line))
        for (long i = 0; i < amount && i < NAMES; i++)
            found += strncasecmp(line, known[i], strlen(known[i])) == 0;
}

static double now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

/* A chain of multiplications takes the same time wherever the loop lies in memory;
 * an empty loop is up to three times faster or slower by its alignment. */
static void turn(long turns)
{
    unsigned long x = turns;
    for (long i = 0; i < turns; i++) {
        x *= 6364136223846793005UL;
        __asm__ volatile("" : "+r"(x));
    }
}

/* How many turns take one nanosecond now: a core is slower just after it was idle. */
static double turns_per_ns(double before)
{
    double start = now_ns(CLOCK_MONOTONIC);
    turn(SPEED_TURNS);
    double rate = SPEED_TURNS / (now_ns(CLOCK_MONOTONIC) - start);
    if (before == 0)
        return rate;
    return rate < before / 2 ? before : (7 * before + rate) / 8; /* half: it was interrupted */
}

/* A clock read per request would be a good part of a small spin, and would name
 * the cause in a profile; so the speed is measured in few requests only. */
void burn(long ns)
{
    static _Thread_local double speed;
    static _Thread_local unsigned long calls;
    if (calls++ % SPEED_EVERY == 0)
        speed = turns_per_ns(speed);
    turn((long)(ns * speed));
}

static void compute(const char *head, size_t n, long amount)
{
    (void)head, (void)n;
    burn(amount);
}

/* Burns a share of what the server itself spends on a request. A fixed time would be another
 * share after the host has moved the CPUs: a request then costs up to three times as much.
 * What is wanted is reckoned anew every SPEED_EVERY requests, and burnt by the clock in one
 * request of SHARED_BY, so that neither reading it nor what runs beside the burning counts. */
static void compute_share(const char *head, size_t n, long amount)
{
    static _Thread_local double wanted_ns, cpu_before;
    static _Thread_local unsigned long calls;
    (void)head, (void)n;
    if (calls % SPEED_EVERY == 0) {
        double own_ns = (now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_before) / SPEED_EVERY - wanted_ns;
        wanted_ns = calls && own_ns > 0 ? own_ns * amount / SHARE_OF : 0;
        cpu_before = now_ns(CLOCK_THREAD_CPUTIME_ID);
    }
    if (calls++ % SHARED_BY == 0) {
        double end = now_ns(CLOCK_MONOTONIC) + wanted_ns * SHARED_BY;
        while (now_ns(CLOCK_MONOTONIC) < end)
            turn(SHORT_TURNS);
    }
}

static const char *settings;

static void name_settings(const char *directory)
{
    settings = directory;
}

/* Looks at its settings anew for each request, as something does that was written before it had many. */
static void read_settings(const char *head, size_t n, long amount)
{
    (void)head, (void)n;
    for (long i = 0; i < amount; i++) {
        struct stat status;
        int fd = open(settings, O_RDONLY | O_DIRECTORY);
        if (fd >= 0 && fstat(fd, &status) == 0)
            close(fd);
    }
}

static int table;

static void write_table(const char *directory)
{
    static const char zeros[TABLE_BYTES];
    table = open(directory, O_TMPFILE | O_RDWR, 0600);
    if (table < 0 || pwrite(table, zeros, sizeof zeros, 0) != sizeof zeros) {
        perror(directory);
        exit(1);
    }
}

/* One read for each request: of a record, or of the whole table where the record is looked for here. */
static void read_table(const char *head, size_t n, long amount)
{
    static _Thread_local char buffer[TABLE_BYTES];
    (void)head, (void)n;
    if (pread(table, buffer, amount < TABLE_BYTES ? amount : TABLE_BYTES, 0) < 0)
        abort();
    __asm__ volatile("" : : "r"(buffer) : "memory");
}

/* Both ends of a connection, as the service beside it is played by the server itself: nobody waits for anybody. */
static int asking, asked;

static void connect_service(const char *directory)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    (void)directory;
    asking = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (void *)&at, size) || listen(listener, 1) || getsockname(listener, (void *)&at, &size) ||
        connect(asking, (void *)&at, size) || (asked = accept(listener, NULL, NULL)) < 0) {
        perror("a connection to itself");
        exit(1);
    }
    setsockopt(asking, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(asked, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    close(listener);
}

/* Questions that are asked one after the other, each with its answer. */
static void ask_service(const char *head, size_t n, long amount)
{
    char text[128] = "GET item";
    (void)head, (void)n;
    for (long i = 0; i < amount; i++)
        if (send(asking, text, sizeof text, 0) < 0 || recv(asked, text, sizeof text, 0) < 0 ||
            send(asked, text, sizeof text, 0) < 0 || recv(asking, text, sizeof text, 0) < 0)
            abort();
}

/* A buffer from the kernel for each request, touched and given back. */
static void map_buffer(const char *head, size_t n, long amount)
{
    (void)head, (void)n;
    char *buffer = mmap(NULL, amount, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buffer == MAP_FAILED)
        return;
    for (long at = 0; at < amount; at += 4096)
        buffer[at] = 1;
    munmap(buffer, amount);
}

/* Formats the date for each header that could want one. */
static void format_dates(const char *head, size_t n, long amount)
{
    (void)head, (void)n;
    for (long i = 0; i < amount; i++) {
        char text[64];
        time_t now = time(NULL) - i;
        struct tm utc;
        strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &utc));
        __asm__ volatile("" : : "r"(text) : "memory");
    }
}

long plant_cpu_ns(const struct plant *plant, long amount)
{
    return plant->work == compute ? amount : 0;
}

const struct plant *find_plant(const char *name)
{
    static const struct plant plants[] = {
        {"none", 0, 1, UNCHANGED, NULL, NULL},
        {"syscall", 10, 1, UNCHANGED, NULL, check_parent},
        {"bytewrites", 1, 1, SMALL_WRITES, NULL, NULL},
        {"splitwrites", 0, 1, SPLIT_WRITES, NULL, NULL},
        {"nagle", 0, 1, NAGLE, NULL, NULL},
        {"wait", 50000, 4, UNCHANGED, NULL, ask_backend},
        {"mutex", 50000, 4, UNCHANGED, NULL, ask_backend_locked},
        {"spinlock", 50000, 4, UNCHANGED, NULL, ask_backend_spinning},
        {"handoff", 0, 1, HANDOFF, NULL, NULL},
        {"fsync", 0, 1, UNCHANGED, open_log, write_journal},
        {"accesslog", 0, 1, UNCHANGED, open_log, write_access_log},
        {"bodycopy", 262144, 1, UNCHANGED, NULL, copy_body},
        {"alloc", 400, 1, UNCHANGED, NULL, build_tree},
        {"linearheaders", 500, 1, UNCHANGED, name_headers, find_headers},
        {"oneaccept", 100000, 1, ACCEPT_THREAD, NULL, NULL},
        {"sleep", 1000000, 1, UNCHANGED, NULL, ask_backend},
        {"backlog", 1, 1, BACKLOG, NULL, NULL},
        {"scan", 2000, 1, SCAN, NULL, NULL},
        {"spawn", 50, 1, UNCHANGED, NULL, run_helper},
        {"threads", 1, 1, UNCHANGED, NULL, run_thread},
        {"backend", 1000000, 1, UNCHANGED, NULL, query_backend},
        {"timer", 1000000, 1, UNCHANGED, NULL, wait_in_poll},
        {"pause", 50000000, 1, UNCHANGED, NULL, save_snapshot},
        {"clockstop", 3000, 1, UNCHANGED, NULL, stop_by_the_clock},
        {"openfile", 3, 1, UNCHANGED, name_settings, read_settings},
        {"question", 1, 1, UNCHANGED, connect_service, ask_service},
        {"questions", 4, 1, UNCHANGED, connect_service, ask_service},
        {"readrecord", 128, 1, UNCHANGED, write_table, read_table},
        {"readtable", TABLE_BYTES, 1, UNCHANGED, write_table, read_table},
        {"shortlived", 4, 1, SHORT_LIVED, NULL, NULL},
        {"mapping", 65536, 1, UNCHANGED, NULL, map_buffer},
        {"dates", 20, 1, UNCHANGED, NULL, format_dates},
        {"spin", 2000, 1, UNCHANGED, NULL, compute},
        {"share", 1000, 1, UNCHANGED, NULL, compute_share},
    };
    for (size_t i = 0; i < sizeof plants / sizeof *plants; i++)
        if (strcmp(plants[i].name, name) == 0)
            return &plants[i];
    return NULL;
}
