//! The streams of a connection that are not over, found by their number.

use crate::stream::Stream;

/// Room for streams that is kept while there are none.
const KEPT: usize = 4;

/// Streams in no order. A client has a few of them, so that to look through their numbers is the shortest way to one.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    ids: Vec<u32>,
    streams: Vec<Stream>,
    /// How many of them the server has answered and not let go, for their rest is short.
    ebbing: usize,
}

impl Streams {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// How many the server is at work for.
    pub(crate) fn at_work(&self) -> usize {
        self.ids.len() - self.ebbing
    }

    #[inline]
    fn place(&self, id: u32) -> Option<usize> {
        self.ids.iter().position(|other| *other == id)
    }

    #[inline]
    pub(crate) fn has(&self, id: u32) -> bool {
        self.place(id).is_some()
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&Stream> {
        self.place(id).and_then(|place| self.streams.get(place))
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        self.place(id).and_then(|place| self.streams.get_mut(place))
    }

    /// Adds a stream whose number none has.
    #[inline]
    pub(crate) fn insert(&mut self, id: u32, stream: Stream) {
        self.ids.push(id);
        self.streams.push(stream);
    }

    #[inline]
    pub(crate) fn remove(&mut self, id: u32) {
        let Some(place) = self.place(id) else { return };
        self.ids.swap_remove(place);
        let stream = self.streams.swap_remove(place);
        self.ebbing -= usize::from(stream.ebb.is_some());
        if self.ids.is_empty() && self.ids.capacity() > KEPT {
            *self = Self::default();
        }
    }

    /// Keeps an answered stream until its client has ended it, or has sent more than `bytes` on it.
    pub(crate) fn let_ebb(&mut self, id: u32, bytes: u32) {
        let Some(stream) = self.get_mut(id) else { return };
        stream.ebb = Some(bytes);
        self.ebbing += 1;
    }

    /// The first of those that the server has answered.
    pub(crate) fn first_ebbing(&self) -> Option<u32> {
        let all = self.ids.iter().zip(&self.streams);
        all.filter(|(_, stream)| stream.ebb.is_some()).map(|(id, _)| *id).min()
    }

    /// Forgets all that the server has answered.
    pub(crate) fn forget_ebbing(&mut self) {
        while let Some(id) = self.first_ebbing() {
            self.remove(id);
        }
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.streams.iter_mut()
    }
}
