/* The causes that can be planted, one per table entry in plants.c. */
#ifndef PLANTS_H
#define PLANTS_H

#include <stddef.h>

/* Changes to the way the server itself works, rather than work per request. */
enum change {
    UNCHANGED,
    SMALL_WRITES, /* `amount` bytes per write instead of all at once */
    SPLIT_WRITES, /* head and body in two writes */
    NAGLE,        /* the same, and TCP_NODELAY left off */
    HANDOFF,      /* another thread makes the answer */
    ACCEPT_THREAD, /* one thread accepts, `amount` ns each */
    SHORT_LIVED,  /* a connection ends with its `amount`th answer */
    BACKLOG,      /* `amount` connections may wait to be accepted */
    SCAN,         /* each wait looks through `amount` idle descriptors, for few events */
};

struct plant {
    const char *name;
    long amount;  /* the default; what it counts is said in target.toml */
    int threads; /* the default */
    enum change change;
    void (*prepare)(const char *directory);           /* once; may be NULL */
    void (*work)(const char *head, size_t n, long amount); /* per request; may be NULL */
};

/* NULL when there is none of that name. */
const struct plant *find_plant(const char *name);

/* Burns so many nanoseconds of CPU time. */
void burn(long ns);

/* Sleeps, as a blocking call to some other service would. */
void wait_ns(long ns);

/* CPU time of one request's plant where that is known beforehand (spin), else 0. */
long plant_cpu_ns(const struct plant *plant, long amount);

#endif
