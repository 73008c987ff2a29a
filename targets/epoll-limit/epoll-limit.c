/* The limit: one thread, one epoll loop, answers that are copied ready-made.
 * What this costs per request is the kernel's share; no server can cost less
 * by the same system calls. SIGTERM ends it at once by its default action. */
#define _GNU_SOURCE
#include "connection.h"

#include <getopt.h>

enum {
    CONNECTIONS_WAITING = 4096, /* Linux's own default ceiling, net.core.somaxconn */
    EVENTS = 256,               /* per epoll_wait; more saves nothing measurable */
};

static struct answers answers;

static void answer(struct connection *c, const struct request *r)
{
    const struct answer *a = &answers.of[r->route][r->close];
    append(c, a->bytes, r->head ? a->head_length : a->length);
}

static void accept_all(int epoll, int listener)
{
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        set_nodelay(fd);
        watch(new_connection(fd, epoll, NULL), EPOLL_CTL_ADD, EPOLLIN);
    }
}

static int listen_where_told(int argc, char **argv)
{
    static const struct option options[] = {{"host", 1, 0, 'h'}, {"port", 1, 0, 'p'}, {0}};
    const char *host = "127.0.0.1";
    int port = 8080;
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (o) {
        case 'h': host = optarg; break;
        case 'p': port = atoi(optarg); break;
        default: exit(2);
        }
    }
    return listen_on(host, port, CONNECTIONS_WAITING, SOCK_NONBLOCK);
}

int main(int argc, char **argv)
{
    int listener = listen_where_told(argc, argv), epoll = epoll_create1(0);
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &(struct epoll_event){.events = EPOLLIN});
    for (;;) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(epoll, events, EVENTS, -1);
        make_answers(&answers, time(NULL));
        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;
            if (!c)
                accept_all(epoll, listener);
            else if (!serve(c))
                end_connection(c);
        }
    }
}
