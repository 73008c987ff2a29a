//! What tests have done by a process of their own, because it ends, stalls or limits its process.

use crate::support::own_process;
use crate::{hazards, http2, lifecycle, limits, memory, service, shortage, soak};

/// The variable that says which part a process was started for.
pub(crate) const PART: &str = "STRAIGHTLINE_PART";
/// The test that plays it.
pub(crate) const PLAYER: &str = "parts::a_process_plays_the_part_it_was_started_for";

macro_rules! parts {
    ($($part:path,)*) => { &[$((stringify!($part), $part)),*] };
}

const PARTS: &[(&str, fn())] = parts![
    hazards::overflow_a_stack,
    hazards::overflow_a_big_stack,
    hazards::overflow_a_big_stack_of_a_thread,
    hazards::overflow_a_plain_thread,
    hazards::hold_a_std_lock_over_a_wait,
    http2::floods::unheard,
    http2::handlers::unread,
    lifecycle::ask_for_the_cpus_of_helpers,
    lifecycle::find_nothing_handed_over,
    lifecycle::serve_what_was_handed_over,
    lifecycle::serve_until_a_signal,
    lifecycle::serve_until_the_second_signal,
    limits::panic_on_the_smallest_stack,
    limits::use_most_of_a_stack,
    memory::upload,
    memory::wait_and_idle,
    memory::ask_and_never_read,
    memory::panic_often,
    service::serve,
    shortage::turn_away_with_few_descriptors,
    shortage::serve_with_few_descriptors,
    shortage::serve_without_end,
    shortage::start_with_too_few_descriptors,
    shortage::serve_slow_heads,
    shortage::send_slow_heads,
    soak::torment_a_server,
    soak::http2::torment_a_server,
    soak::websocket::torment_a_server,
];

/// Started for none, it sees to it that a part that nobody knows is not passed over.
#[test]
fn a_process_plays_the_part_it_was_started_for() {
    match std::env::var(PART) {
        Ok(asked) => {
            let (_, part) = PARTS.iter().find(|(name, _)| *name == asked).expect("there is such a part");
            part();
        }
        Err(_) => assert!(!own_process("parts::unknown").output().unwrap().status.success()),
    }
}
