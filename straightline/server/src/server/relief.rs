//! Connections that wait for a shard which a handler holds are taken by shards that are not held.
//!
//! The kernel shares connections out among the shards' listeners as they come, and knows nothing of who is at work. What
//! waits at a listener belongs to nobody yet: any thread may accept it.

use super::accept::BURST;
use super::run::{Link, current_worker};
use super::worker::take_up;
use crate::rt::shard::Shard;
use crate::rt::sys;
use crate::rt::waker::Remote;
use rustix::event::PollFlags;
use rustix::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// A shard, as one of those that help each other out.
struct Member {
    remote: Arc<Remote>,
    listener: Weak<OwnedFd>,
}

/// All shards of a server, in the hands of its watchdog.
pub(super) struct Relief {
    members: Vec<Member>,
    /// Who is asked first, for the next time.
    first: usize,
}

impl Relief {
    pub(super) fn from_links(links: &[Link]) -> Self {
        let member =
            |link: &Link| Member { remote: Arc::clone(&link.remote), listener: Weak::clone(&link.listener) };
        Self { members: links.iter().map(member).collect(), first: 0 }
    }

    /// Has one shard that is not held look after the listener of each that is, if somebody waits there.
    pub(super) fn come(&mut self, is_held: impl Fn(usize) -> bool) {
        let count = self.members.len();
        for held in (0..count).filter(|&shard| is_held(shard)) {
            let Some(listener) = self.members[held].listener.upgrade() else { continue };
            let helper = (0..count).map(|step| (self.first + step) % count).find(|&shard| !is_held(shard));
            // Shards that share one socket take what waits there anyway, and nothing is left.
            let waits = sys::wait(listener.as_fd(), PollFlags::IN, Some(Instant::now())).unwrap_or(false);
            let (Some(helper), true) = (helper, waits) else { continue };
            self.first = helper + 1;
            let listener = Weak::clone(&self.members[held].listener);
            // It accepts by itself: a connection that was accepted for a shard that ends meanwhile would be lost.
            self.members[helper].remote.call(move |shard| help(shard, &listener));
        }
    }
}

/// Takes connections from another shard's listener, as far as there is room.
fn help(shard: &Rc<Shard>, listener: &Weak<OwnedFd>) {
    let (Some(worker), Some(listener)) = (current_worker(), listener.upgrade()) else { return };
    for _ in 0..BURST {
        if worker.is_full() {
            return;
        }
        // An error is for the shard to deal with whose listener it is.
        let Ok(socket) = sys::accept(&*listener) else { return };
        take_up(&worker, shard, socket);
    }
}
