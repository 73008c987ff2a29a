//! Connections that have timers of their own, and send what nobody asked them to: confirmations, and again what was lost.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Worker;
use crate::session::Protocol;

/// When which connection has something to do by itself.
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// Instants and connections. Where a connection's instant has moved since, this is an early one.
    due: BinaryHeap<Reverse<(u64, u32)>>,
    /// Connections to look after before the worker waits.
    touched: Vec<u32>,
}

impl Timers {
    pub(super) fn wake_ns(&self) -> u64 {
        self.due.peek().map_or(u64::MAX, |Reverse((at, _))| *at)
    }
}

impl<P: Protocol> Worker<'_, P> {
    /// Something is done on a connection.
    #[inline]
    pub(super) fn touch(&mut self, connection: u32) {
        if P::TIMED && !std::mem::replace(&mut self.slots[connection as usize].touched, true) {
            self.timers.touched.push(connection);
        }
    }

    /// Sends what connections still have to send, and notes when each is due.
    #[inline]
    pub(super) fn tend(&mut self) {
        while let Some(connection) = self.timers.touched.pop() {
            let slot = &mut self.slots[connection as usize];
            slot.touched = false;
            let Some(link) = &mut slot.link else { continue };
            link.flush();
            let due_ns = link.wake_ns();
            if due_ns < u64::MAX && (slot.timer_ns == 0 || due_ns < slot.timer_ns) {
                slot.timer_ns = due_ns;
                self.timers.due.push(Reverse((due_ns, connection)));
            }
        }
    }

    /// Does what is due on connections.
    #[inline]
    pub(super) fn tick(&mut self, now: u64) {
        while P::TIMED && self.timers.wake_ns() <= now {
            let Some(Reverse((at, connection))) = self.timers.due.pop() else { return };
            let slot = &mut self.slots[connection as usize];
            // Another one was noted since.
            if slot.timer_ns != at {
                continue;
            }
            slot.timer_ns = 0;
            self.touch(connection);
            if self.slots[connection as usize].link.as_mut().is_some_and(|link| link.tick()) {
                self.ticked(connection);
            }
        }
    }

    /// A timer may end a connection, or an attempt at one.
    #[cold]
    fn ticked(&mut self, connection: u32) {
        match self.slots[connection as usize].connecting {
            true => self.connected(connection),
            false => self.read_all(connection, false),
        }
    }
}
