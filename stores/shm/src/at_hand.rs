//! Plain roots that this process has at hand: what it knew of them when it wrote to them
//! last, and by which version of their bucket. As long as that is the same, nobody has
//! written there since.
//!
//! There are so many places, each for any of the roots that have it in common: what comes
//! there last stays.

use parking_lot::{Mutex, MutexGuard};
use tidegate_store::optimistic::RootAtHand;

use crate::in_place::InPlace;
use crate::keys::{RootKeys, Spot};
use crate::layout::shard;
use crate::process::Process;
use crate::tree::Site;

/// So many places each shard has.
const PLACES: usize = 64;

/// A root at hand.
#[derive(Debug)]
pub(crate) struct Known {
    /// Of the root.
    pub(crate) keys: RootKeys,
    /// Of its bucket, when it was as this says.
    pub(crate) version: u64,
    /// This process, if it is noted as one that may hold leases of it.
    pub(crate) holder: Option<Process>,
    /// Where its row is.
    pub(crate) row: Site,
    /// Its leases in place, if it has a record of such.
    pub(crate) in_place: Option<InPlace>,
    pub(crate) root: RootAtHand,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct AtHand([Mutex<Places>; shard::ROOTS]);

type Places = Vec<Option<Box<Known>>>;

/// The place of a root, for one command.
pub(crate) struct Place<'a> {
    places: MutexGuard<'a, Places>,
    number: usize,
}

impl Default for AtHand {
    fn default() -> Self {
        Self([const { Mutex::new(Vec::new()) }; shard::ROOTS])
    }
}

impl AtHand {
    /// The place of a root, whose shard is locked; `None` if another thread of this process has it
    /// for a moment still, or, in the child of a fork, a thread of its parent.
    pub(crate) fn place(&self, spot: Spot) -> Option<Place<'_>> {
        let mut places = self.0.get(spot.shard)?.try_lock()?;
        if places.is_empty() {
            places.resize_with(PLACES, || None);
        }
        let number = spot.bucket % PLACES;
        Some(Place { places, number })
    }
}

impl Place<'_> {
    /// Takes what is known of a root, if its bucket is of this version still.
    pub(crate) fn take(&mut self, (spot, root): (Spot, &[u8]), version: u64) -> Option<Box<Known>> {
        let is_it = |known: &mut Box<Known>| {
            let keys = &known.keys;
            known.version == version && keys.bucket == spot.bucket && keys.root() == root
        };
        self.places.get_mut(self.number)?.take_if(is_it)
    }

    pub(crate) fn put(&mut self, known: Box<Known>) {
        self.places[self.number] = Some(known);
    }
}
