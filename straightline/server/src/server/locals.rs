//! Data of one request: what goes around handlers puts it there, and handlers find it by its type.

use std::any::Any;

/// One value of each type. Nearly every request has none, and is one word larger.
#[derive(Default)]
pub(crate) struct Locals(Option<Box<Values>>);

#[derive(Default)]
struct Values(Vec<Box<dyn Any>>);

impl Locals {
    #[inline(always)]
    pub(crate) const fn new() -> Self {
        Self(None)
    }

    /// Keeps a value, and gives back that of the same type which was kept before.
    pub(crate) fn set<T: 'static>(&mut self, value: T) -> Option<T> {
        let before = self.take();
        self.0.get_or_insert_default().0.push(Box::new(value));
        before
    }

    pub(crate) fn get<T: 'static>(&self) -> Option<&T> {
        self.0.as_ref()?.0.iter().find_map(|value| value.downcast_ref())
    }

    pub(crate) fn get_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.0.as_mut()?.0.iter_mut().find_map(|value| value.downcast_mut())
    }

    pub(crate) fn take<T: 'static>(&mut self) -> Option<T> {
        let values = &mut self.0.as_mut()?.0;
        let place = values.iter().position(|value| (**value).is::<T>())?;
        values.swap_remove(place).downcast().ok().map(|value| *value)
    }
}
