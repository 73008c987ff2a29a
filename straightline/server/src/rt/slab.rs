//! A table whose keys are never mistaken for those of an earlier tenant.

use std::num::NonZeroU32;

/// Names one tenant of a [`Slab`]: its place, and which tenant of that place it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    index: u32,
    /// Never 0, so that an `Option` of a key takes no more room.
    generation: NonZeroU32,
}

impl Key {
    /// A key that no tenant has.
    pub(crate) const MAX: Self = Self { index: u32::MAX, generation: NonZeroU32::MAX };

    /// The key as one number, for the kernel to keep.
    pub(crate) fn to_bits(self) -> u64 {
        u64::from(self.generation.get()) << 32 | u64::from(self.index)
    }

    /// The inverse of [`Key::to_bits`].
    pub(crate) fn from_bits(bits: u64) -> Self {
        let generation = NonZeroU32::new((bits >> 32) as u32).unwrap_or(NonZeroU32::MIN);
        Self { index: bits as u32, generation }
    }
}

#[derive(Debug)]
struct Place<T> {
    generation: NonZeroU32,
    tenant: Option<T>,
}

/// Places that are handed out again, last freed first, under a new generation.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    /// How many tenants there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn insert(&mut self, tenant: T) -> Key {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { generation: NonZeroU32::MIN, tenant: None });
            u32::try_from(self.places.len() - 1).expect("memory ends long before 2^32 tenants")
        });
        let place = &mut self.places[index as usize];
        place.tenant = Some(tenant);
        Key { index, generation: place.generation }
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let place = self.places.get_mut(key.index as usize)?;
        if place.generation != key.generation {
            return None;
        }
        let tenant = place.tenant.take()?;
        place.generation = place.generation.checked_add(1).unwrap_or(NonZeroU32::MIN);
        self.free.push(key.index);
        Some(tenant)
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        let place = self.places.get(key.index as usize)?;
        if place.generation == key.generation { place.tenant.as_ref() } else { None }
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let place = self.places.get_mut(key.index as usize)?;
        if place.generation == key.generation { place.tenant.as_mut() } else { None }
    }

    /// Every tenant with its key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.places.iter().enumerate().filter_map(|(index, place)| {
            let key = Key { index: index as u32, generation: place.generation };
            place.tenant.as_ref().map(|tenant| (key, tenant))
        })
    }

    /// Takes every tenant out.
    pub(crate) fn drain(&mut self) -> Vec<T> {
        let keys: Vec<Key> = self.iter().map(|(key, _)| key).collect();
        keys.into_iter().filter_map(|key| self.remove(key)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Key, Slab};

    #[test]
    fn an_old_key_does_not_open_a_place_that_was_let_again() {
        let mut slab = Slab::new();
        let first = slab.insert("first");
        assert_eq!(slab.remove(first), Some("first"));
        let second = slab.insert("second");
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(Key::from_bits(second.to_bits())), Some(&"second"));
        assert_eq!(slab.len(), 1);
        assert_eq!(slab.drain(), ["second"]);
        assert_eq!(slab.len(), 0);
    }
}
