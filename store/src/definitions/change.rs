//! A change of one definition, and what became of it.

use std::time::Duration;

use tidegate_core::{Span, Timestamp};

use super::definition::Definition;
use crate::error::StoreError;

/// What is told of a change, kept in the same step or not at all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Whom it is about; any bytes. Events are read of one of them, or of all.
    pub subject: Vec<u8>,
    /// What is told; any bytes. A store reads none of it.
    pub body: Vec<u8>,
    /// When, by the clock of who tells; a store with a clock of its own notes its own.
    pub at: Timestamp,
    /// How long it is kept from then on; of one that is read, for how long more.
    pub lasts: Duration,
    /// So many of its owner's are kept with it, one at least: the oldest go.
    pub most: u32,
    /// The version of the change. Of one that is to be kept it means nothing.
    pub version: u64,
}

impl Event {
    /// When it is over.
    #[must_use]
    pub fn until(&self) -> Timestamp {
        self.at + Span::from(self.lasts)
    }

    /// How many of its owner's are kept with it.
    #[must_use]
    pub const fn bound(&self) -> u64 {
        match self.most {
            0 => 1,
            most => most as u64,
        }
    }
}

/// A change of one definition: made as a whole, or not at all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// What is to be kept, or that nothing is any more.
    pub definition: Definition,
    /// The version that the key must have now, 0: nothing is kept there. `None`: whatever
    /// is there.
    pub expected: Option<u64>,
    /// What is told of it. If nothing is changed, it is not kept.
    pub event: Option<Event>,
}

impl From<Definition> for Change {
    fn from(definition: Definition) -> Self {
        Self {
            definition,
            expected: None,
            event: None,
        }
    }
}

impl Change {
    /// The same, if the key has this version.
    #[must_use]
    pub const fn expecting(mut self, version: u64) -> Self {
        self.expected = Some(version);
        self
    }

    /// The same, with what is told of it.
    #[must_use]
    pub fn telling(mut self, event: Event) -> Self {
        self.event = Some(event);
        self
    }

    /// Whether it comes to the same when it is made twice, but for the version.
    #[must_use]
    pub const fn is_repeatable(&self) -> bool {
        self.expected.is_none() && self.event.is_none()
    }
}

/// What became of a [`Change`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Defined {
    /// It holds.
    Done {
        /// Whether anything was changed: not if what was to be removed is not there.
        changed: bool,
        /// The version of the change; 0 if nothing was changed.
        version: u64,
    },
    /// The key has another version than was expected: nothing was changed. What is there,
    /// if anything.
    Conflict(Option<Definition>),
}

impl Defined {
    /// Whether anything was changed.
    #[must_use]
    pub const fn is_changed(&self) -> bool {
        matches!(self, Self::Done { changed: true, .. })
    }
}

/// Where a page of events goes on behind the one of this version.
#[must_use]
pub fn event_cursor(version: u64) -> Vec<u8> {
    version.to_be_bytes().to_vec()
}

/// The version behind which a page of events begins.
///
/// # Errors
/// [`StoreError::UnknownPage`]: no page has ended there.
pub fn event_of_cursor(after: Option<&[u8]>) -> Result<u64, StoreError> {
    let Some(after) = after else { return Ok(0) };
    let version = after.try_into().map(u64::from_be_bytes);
    let version = version.ok().filter(|version| version >> 63 == 0);
    version.ok_or(StoreError::UnknownPage)
}
