use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::{ANSWER, Behaviour, Model, NEVER};

/// An answer on its way to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Delivery {
    /// When it comes.
    pub at_ns: u64,
    /// On which connection.
    pub lane: u32,
}

/// A server and the network to it, in memory: what is sent at one instant is received at that instant.
#[derive(Debug)]
pub struct Memory {
    model: Model,
    request_bytes: usize,
    /// Bytes of an unfinished request on each connection.
    partial: Vec<usize>,
    /// The last answer due on each connection: answers keep the order of their requests.
    last_due_ns: Vec<u64>,
    coming: BinaryHeap<Reverse<(Delivery, u64)>>,
    received: u64,
}

impl Memory {
    /// A server for `lanes` connections whose requests are all `request_bytes` long.
    #[must_use]
    pub fn new(behaviour: Behaviour, lanes: u32, request_bytes: usize) -> Self {
        Self {
            model: Model::new(behaviour),
            request_bytes,
            partial: vec![0; lanes as usize],
            last_due_ns: vec![0; lanes as usize],
            coming: BinaryHeap::new(),
            received: 0,
        }
    }

    /// `bytes` of requests arrive at `at`.
    pub fn send(&mut self, lane: u32, bytes: usize, at: u64) {
        let index = lane as usize;
        self.partial[index] += bytes;
        while self.partial[index] >= self.request_bytes {
            self.partial[index] -= self.request_bytes;
            self.received += 1;
            let due = self.model.due(at).max(self.last_due_ns[index]);
            self.last_due_ns[index] = due;
            if due != NEVER {
                self.coming.push(Reverse((Delivery { at_ns: due, lane }, self.received)));
            }
        }
    }

    /// When the next answer comes.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        self.coming.peek().map(|Reverse((delivery, _))| delivery.at_ns)
    }

    /// The next answer, whose bytes are [`ANSWER`].
    pub fn receive(&mut self) -> Option<(Delivery, &'static [u8])> {
        self.coming.pop().map(|Reverse((delivery, _))| (delivery, ANSWER))
    }

    /// Requests received so far.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received
    }
}
