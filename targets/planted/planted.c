/* An epoll server into which one known cause of slowness can be planted, so that
 * an explanation can be checked against the truth. Without a plant it does what
 * epoll-limit does. On SIGTERM it says on stderr what it served and spent. */
#define _GNU_SOURCE
#include "connection.h"
#include "plants.h"

#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/eventfd.h>

enum {
    CONNECTIONS_WAITING = 4096, /* Linux's own default ceiling, net.core.somaxconn */
    EVENTS = 256,
    THREADS_MAX = 64,
    SCANNED_MAX = 10000,
    SCANNED_EVENTS = 8, /* taken of each scan */
};

struct worker {
    int epoll;
    unsigned long requests; /* written by its own thread; read when that no longer matters */
    struct answers answers;
};

static struct {
    const char *host, *directory;
    const struct plant *plant;
    long amount, work_ns;
    int port, threads, listener;
} config = {.host = "127.0.0.1", .directory = "/tmp", .port = 8080, .amount = -1};

static struct worker workers[THREADS_MAX];

static void write_answer(struct connection *c, const struct request *r)
{
    struct worker *w = c->owner;
    if (config.plant->change == SHORT_LIVED && ++c->answered >= (unsigned long)config.amount)
        c->closing = true;
    const struct answer *a = &w->answers.of[r->route][c->closing];
    size_t n = r->head ? a->head_length : a->length;
    if (config.work_ns)
        burn(config.work_ns);
    if (config.plant->work)
        config.plant->work(r->bytes, r->length, config.amount);
    if (config.plant->change == SPLIT_WRITES || config.plant->change == NAGLE) {
        append(c, a->bytes, a->head_length);
        send_output(c); /* a broken connection shows again at the next write */
        append(c, a->bytes + a->head_length, n - a->head_length);
        send_output(c);
    } else {
        append(c, a->bytes, n);
    }
    w->requests++;
}

/* HANDOFF: the loop gives each request to another thread and waits for it. */
static struct {
    sem_t given, done;
    struct connection *connection;
    const struct request *request;
} handoff;

static void *run_handoff(void *unused)
{
    for (;;) {
        sem_wait(&handoff.given);
        write_answer(handoff.connection, handoff.request);
        sem_post(&handoff.done);
    }
    return unused;
}

static void answer(struct connection *c, const struct request *r)
{
    if (config.plant->change != HANDOFF) {
        write_answer(c, r);
        return;
    }
    handoff.connection = c;
    handoff.request = r;
    sem_post(&handoff.given);
    sem_wait(&handoff.done);
}

/* Connections go to the workers in turn, so that all have the same number. */
static void add_connection(int fd)
{
    static int turn;
    struct worker *w = &workers[turn++ % config.threads];
    struct connection *c = new_connection(fd, w->epoll, w);
    if (config.plant->change != NAGLE)
        set_nodelay(fd);
    if (config.plant->change == SMALL_WRITES)
        c->chunk = config.amount;
    watch(c, EPOLL_CTL_ADD, EPOLLIN);
}

static void accept_all(void)
{
    int fd;
    while ((fd = accept4(config.listener, NULL, NULL, SOCK_NONBLOCK)) >= 0)
        add_connection(fd);
}

/* ACCEPT_THREAD: one at a time, and each takes as long as, say, a name look-up. */
static void *run_accept(void *unused)
{
    for (;;) {
        int fd = accept4(config.listener, NULL, NULL, SOCK_NONBLOCK);
        if (fd < 0)
            continue;
        wait_ns(config.amount);
        add_connection(fd);
    }
    return unused;
}

/* SCAN: as a loop on poll() would, with many connections that have nothing to say. The same descriptor, many times over,
 * costs the kernel what as many would, and needs no limit to be raised. */
static void scan(int epoll)
{
    static struct pollfd all[SCANNED_MAX + 1];
    static int idle = -1;
    if (idle < 0) {
        idle = eventfd(0, 0);
        for (long i = 0; i < config.amount; i++)
            all[i] = (struct pollfd){.fd = idle, .events = POLLIN};
        all[config.amount] = (struct pollfd){.fd = epoll, .events = POLLIN};
    }
    poll(all, config.amount + 1, -1);
}

static void *run_worker(void *worker)
{
    struct worker *w = worker;
    int most = config.plant->change == SCAN ? SCANNED_EVENTS : EVENTS;
    for (;;) {
        struct epoll_event events[EVENTS];
        if (config.plant->change == SCAN)
            scan(w->epoll);
        int n = epoll_wait(w->epoll, events, most, -1);
        make_answers(&w->answers, time(NULL));
        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;
            if (!c)
                accept_all();
            else if (!serve(c))
                end_connection(c);
        }
    }
    return NULL;
}

static void start(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, argument))
        abort();
}

static void start_threads(void)
{
    enum change change = config.plant->change;
    int flags = change == ACCEPT_THREAD ? 0 : SOCK_NONBLOCK;
    int backlog = change == BACKLOG ? config.amount : CONNECTIONS_WAITING;
    for (int i = 0; i < config.threads; i++)
        workers[i].epoll = epoll_create1(0);
    config.listener = listen_on(config.host, config.port, backlog, flags);
    if (change == ACCEPT_THREAD)
        start(run_accept, NULL);
    else
        epoll_ctl(workers[0].epoll, EPOLL_CTL_ADD, config.listener, &(struct epoll_event){.events = EPOLLIN});
    if (change == HANDOFF) {
        sem_init(&handoff.given, 0, 0);
        sem_init(&handoff.done, 0, 0);
        start(run_handoff, NULL);
    }
    for (int i = 0; i < config.threads; i++)
        start(run_worker, &workers[i]);
}

static void read_options(int argc, char **argv)
{
    static const struct option options[] = {{"host", 1, 0, 'h'}, {"port", 1, 0, 'p'}, {"plant", 1, 0, 'c'},
        {"amount", 1, 0, 'a'}, {"threads", 1, 0, 't'}, {"dir", 1, 0, 'd'},
        {"work", 1, 0, 'w'}, {0}};
    const char *plant = "none";
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (o) {
        case 'h': config.host = optarg; break;
        case 'p': config.port = atoi(optarg); break;
        case 'c': plant = optarg; break;
        case 'a': config.amount = atol(optarg); break;
        case 't': config.threads = atoi(optarg); break;
        case 'd': config.directory = optarg; break;
        case 'w': config.work_ns = atol(optarg); break;
        default: exit(2);
        }
    }
    config.plant = find_plant(plant);
    if (!config.plant || config.threads < 0 || config.threads > THREADS_MAX) {
        fprintf(stderr, "planted: no plant %s, or not 1 to %d threads\n", plant, THREADS_MAX);
        exit(2);
    }
    config.threads = config.threads ? config.threads : config.plant->threads;
    config.amount = config.amount >= 0 ? config.amount : config.plant->amount;
    if (config.plant->change == SCAN && (config.amount > SCANNED_MAX || config.threads > 1)) {
        fprintf(stderr, "planted: one thread scans, %d descriptors at most\n", SCANNED_MAX);
        exit(2);
    }
}

static void report(void)
{
    struct timespec cpu;
    unsigned long requests = 0;
    for (int i = 0; i < config.threads; i++)
        requests += workers[i].requests;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    fprintf(stderr, "planted: plant=%s amount=%ld requests=%lu plant_ns=%lu cpu_ns=%lu\n", config.plant->name,
        config.amount, requests, requests * (unsigned long)plant_cpu_ns(config.plant, config.amount),
        cpu.tv_sec * 1000000000UL + cpu.tv_nsec);
}

int main(int argc, char **argv)
{
    sigset_t term;
    int signal_number;
    read_options(argc, argv);
    if (config.plant->prepare)
        config.plant->prepare(config.directory);
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &term, NULL); /* inherited, so that only main takes it */
    start_threads();
    sigwait(&term, &signal_number);
    report();
    _exit(0);
}
