//! Waits in machine code that keeps no frame pointers are in the program's own functions.

use std::process::Command;
use std::time::Duration;

use model::record::EndedBy;

use super::{address, in_one_of_some_tries, table, watched};
use crate::callers::built;
use crate::support::Fixture;

/// Of three requests one waits in `slow_lock` for a lock whose holder sleeps, one in `slow_lock_of`, which needs the frame pointer for an array
/// of its own, and one sleeps itself in `slow_sleep`.
const SERVER: &str = r#"
#include <alloca.h>
#include <arpa/inet.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define SLOW __attribute__((noinline)) void
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t taken, held, over;
static int listener;
static char *volatile kept;

SLOW slow_lock(void) {
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
}

SLOW slow_lock_of(int size) {
    char *array = alloca(size);
    memset(array, 1, size);
    kept = array;
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    kept = 0;
}

SLOW slow_sleep(void) {
    usleep(4000);
    kept = 0;
}

static void *holds(void *none) {
    for (;;) {
        sem_wait(&taken);
        pthread_mutex_lock(&lock);
        sem_post(&held);
        usleep(4000);
        pthread_mutex_unlock(&lock);
    }
    return none;
}

SLOW answer(int turn) {
    if (turn % 3 == 2) {
        slow_sleep();
        kept = 0;
        return;
    }
    sem_post(&taken);
    sem_wait(&held);
    if (turn % 3 == 1) slow_lock_of(100 + turn); else slow_lock();
    kept = 0;
}

static void *serves(void *none) {
    int client = accept(listener, 0, 0);
    char c;
    for (int turn = 0; read(client, &c, 1) == 1; turn++) {
        answer(turn);
        if (write(client, ".", 1) < 0) break;
    }
    sem_post(&over);
    return none;
}

int main(int count, char **words) {
    char *port = strchr(words[count - 1], ':'), c;
    *port = 0;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(port + 1))};
    inet_pton(AF_INET, words[count - 1], &at.sin_addr);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 8)) return 1;
    sem_init(&taken, 0, 0), sem_init(&held, 0, 0), sem_init(&over, 0, 0);
    pthread_t threads[2];
    pthread_create(&threads[0], 0, holds, 0);
    pthread_create(&threads[1], 0, serves, 0);
    if (write(1, "ready\n", 6) < 0 || read(0, &c, 1) < 1) return 1;
    sem_wait(&over);
    if (write(1, "done\n", 5) < 0) return 1;
    return read(0, &c, 1) > 0;
}
"#;

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "stacks are copied on x86-64 alone")]
fn waits_without_frame_pointers_are_in_functions_of_the_program() {
    in_one_of_some_tries(|| {
        let flags = ["-O2", "-fomit-frame-pointer", "-pthread"];
        let Some(program) = built("waits", SERVER, &flags) else { return };
        let address = address();
        let server = Fixture::start(Command::new(&program).arg(&address));
        let waits = watched(server, &address, Duration::ZERO);
        std::fs::remove_file(&program).unwrap();
        let Some(waits) = waits else { return };
        let sum = |ended_by: EndedBy, function: &str| -> u64 {
            let of = waits.leaves.iter().filter(|leaf| leaf.ended_by == ended_by);
            let is_there = |stack: &[u32]| {
                let names: Vec<&str> = waits.frames_of(stack).map(|frame| frame.name.as_str()).collect();
                names.windows(3).any(|part| part == ["serves", "answer", function])
            };
            of.filter(|leaf| is_there(&leaf.waited_in)).map(|leaf| leaf.ns).sum()
        };
        // Of 60 requests a third each, 4 ms each.
        for (ended_by, function) in
            [(EndedBy::Lock, "slow_lock"), (EndedBy::Lock, "slow_lock_of"), (EndedBy::Timer, "slow_sleep")]
        {
            let ns = sum(ended_by, function);
            assert!((30_000_000..200_000_000).contains(&ns), "{function}: {ns}: {}", table(&waits));
        }
    });
}
