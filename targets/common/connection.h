/* One connection in an epoll loop, for the C servers of this folder. The program
 * that includes this says what it answers by defining `answer`. */
#ifndef CONNECTION_H
#define CONNECTION_H

#include "http.h"

#include <errno.h>
#include <sys/epoll.h>

struct connection {
    int fd, epoll;
    bool closing, blocked; /* close once the output is gone; waiting for room */
    size_t in, out;
    size_t chunk; /* the most bytes that one write takes */
    void *owner;  /* the includer's own, and so is `answered` */
    unsigned long answered;
    char input[INPUT_BYTES], output[OUTPUT_BYTES];
};

/* Appends the answer to r; there is room for ANSWER_BYTES. */
static void answer(struct connection *c, const struct request *r);

static inline void append(struct connection *c, const char *bytes, size_t n)
{
    memcpy(c->output + c->out, bytes, n);
    c->out += n;
}

static inline void watch(struct connection *c, int operation, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = c};
    epoll_ctl(c->epoll, operation, c->fd, &e);
}

static inline struct connection *new_connection(int fd, int epoll, void *owner)
{
    struct connection *c = malloc(sizeof *c);
    if (!c)
        abort();
    *c = (struct connection){.fd = fd, .epoll = epoll, .chunk = OUTPUT_BYTES, .owner = owner};
    return c;
}

static inline bool has_room(const struct connection *c)
{
    return c->out + ANSWER_BYTES <= OUTPUT_BYTES;
}

/* Answers as many of the requests at hand as the output has room for. */
static inline void answer_requests(struct connection *c)
{
    struct request r;
    size_t at = 0;
    while (!c->closing && has_room(c) && read_request(c->input + at, c->in - at, &r)) {
        r.bytes = c->input + at;
        c->closing = r.close;
        answer(c, &r);
        at += r.length;
    }
    c->in -= at;
    memmove(c->input, c->input + at, c->in);
    if (at == 0 && c->in == INPUT_BYTES && has_room(c) && !c->closing) {
        c->closing = true; /* a head that is longer than we take */
        answer(c, &(struct request){.bytes = c->input, .route = BAD_REQUEST, .close = true});
    }
}

/* Sends what the socket takes. False when the connection is broken. */
static inline bool send_output(struct connection *c)
{
    size_t at = 0;
    while (at < c->out) {
        size_t n = c->out - at < c->chunk ? c->out - at : c->chunk;
        ssize_t sent = send(c->fd, c->output + at, n, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            return false;
        if (sent < 0)
            break;
        at += sent;
    }
    c->out -= at;
    memmove(c->output, c->output + at, c->out);
    return true;
}

static inline bool wait_for_room(struct connection *c, bool blocked)
{
    if (c->blocked != blocked)
        watch(c, EPOLL_CTL_MOD, blocked ? EPOLLOUT : EPOLLIN);
    c->blocked = blocked;
    return true;
}

/* Reads, answers and sends. False when the connection is to be closed. */
static inline bool serve(struct connection *c)
{
    if (!c->blocked) {
        ssize_t n = recv(c->fd, c->input + c->in, INPUT_BYTES - c->in, 0);
        if (n <= 0)
            return n < 0 && errno == EAGAIN;
        c->in += n;
        answer_requests(c);
    }
    while (c->out > 0) {
        if (!send_output(c))
            return false;
        if (c->out > 0)
            return wait_for_room(c, true);
        answer_requests(c);
    }
    return wait_for_room(c, false) && !c->closing;
}

static inline void end_connection(struct connection *c)
{
    close(c->fd);
    free(c);
}

#endif
