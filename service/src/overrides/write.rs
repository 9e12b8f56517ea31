//! One change of an override: on what is there, and with its event in the same step.
//!
//! Each change expects the version that its event calls the one before, so that the event
//! tells what was changed, whoever else changes the same. What is known here goes first; if
//! another server was faster, the store's answer is what is there.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_store::{Change, Defined, Definition};

use super::record::{OverrideValue, Record};
use super::stored::{Kept, OWNER};
use super::target::OverrideTarget;
use super::terms::{OnlyIf, OverrideTerms};
use crate::access::Caller;
use crate::audit::{Action, EventDraft};
use crate::error::ServiceError;
use crate::service::Service;
use tidegate::Limit;

/// So often a change is tried on what somebody else has just left there.
const MOST_TRIES: usize = 64;

/// A change of one override, on its way.
pub(super) struct Write {
    pub(super) service: Service,
    pub(super) caller: Caller,
    pub(super) target: OverrideTarget,
    pub(super) terms: OwnedTerms,
    /// What becomes of it; nothing if it is removed.
    pub(super) limits: Option<Vec<Limit>>,
    /// When it ends.
    pub(super) expires_at: Option<Timestamp>,
}

/// The terms, as they are kept while the store is asked.
pub(super) struct OwnedTerms {
    only_if: Option<OnlyIf>,
    reason: Option<String>,
}

impl OwnedTerms {
    pub(super) fn of(terms: &OverrideTerms<'_>) -> Self {
        Self {
            only_if: terms.only_if,
            reason: terms.reason.map(str::to_owned),
        }
    }

    fn hold(&self, version: u64) -> bool {
        self.only_if.is_none_or(|only_if| only_if.holds(version))
    }
}

/// What is at the place, as far as is known.
#[derive(Clone, Default)]
struct Before {
    /// 0: nothing.
    version: u64,
    value: Option<Vec<u8>>,
    /// What the value says, if it can be read.
    read: Option<OverrideValue>,
}

impl Before {
    fn of_kept(kept: Option<&Arc<Kept>>) -> Self {
        kept.map_or_else(Self::default, |kept| Self {
            version: kept.version,
            value: Some(kept.value.encode()),
            read: Some(kept.value.clone()),
        })
    }

    fn of_store(there: Option<Definition>) -> Self {
        let Some(there) = there.filter(|there| there.value.is_some()) else {
            return Self::default();
        };
        let read = there.value.as_deref().map(OverrideValue::decode);
        Self {
            version: there.version,
            read: read.and_then(Result::ok),
            value: there.value,
        }
    }
}

/// What a change has come to.
pub(super) struct Written {
    /// Whether anything was changed: not if there was nothing to remove.
    pub(super) changed: bool,
    /// Its version.
    pub(super) version: u64,
    /// What is kept now.
    pub(super) value: Option<OverrideValue>,
}

/// A change as the store is asked for it.
struct Asked {
    change: Change,
    value: Option<OverrideValue>,
}

impl Write {
    /// Begins: if what is known here is what has to be there, the store is asked at once.
    pub(super) fn begin(
        self,
    ) -> impl Future<Output = Result<Written, ServiceError>> + Send + 'static {
        let known = Before::of_kept(self.service.seen().at(&self.target));
        let first = self.terms.hold(known.version).then(|| {
            let asked = self.ask(known);
            (self.service.tell(OWNER, asked.change.clone()), asked)
        });
        async move {
            let mut next = first;
            for tries in 0.. {
                let there = match next.take() {
                    None => self.service.stored_at(OWNER, &self.target.encode()).await?,
                    Some((answer, asked)) => match self
                        .service
                        .made(OWNER, answer.await, &asked.change)
                        .await?
                    {
                        Defined::Conflict(there) => there,
                        Defined::Done { changed, version } => {
                            return Ok(Written {
                                changed,
                                version,
                                value: asked.value,
                            });
                        }
                    },
                };
                let before = Before::of_store(there);
                if !self.terms.hold(before.version) {
                    return Err(self.conflict(before.version));
                }
                if tries == MOST_TRIES {
                    break;
                }
                let asked = self.ask(before);
                next = Some((self.service.tell(OWNER, asked.change.clone()), asked));
            }
            let what = self.what();
            Err(ServiceError::Outrun { what })
        }
    }

    fn what(&self) -> String {
        format!("the override for {}", self.target)
    }

    fn conflict(&self, version: u64) -> ServiceError {
        ServiceError::Conflict {
            what: self.what(),
            version: (version != 0).then_some(version),
            removes: self.limits.is_none(),
        }
    }

    /// The change of what was there before.
    fn ask(&self, before: Before) -> Asked {
        let now = self.service.clock().now();
        let value = self.limits.as_ref().map(|limits| {
            let created_at = match &before.read {
                Some(read) => read.record.created_at,
                None => Some(now),
            };
            let record = Record {
                by: Some(self.caller.name().to_owned()),
                reason: self.terms.reason.clone(),
                expires_at: self.expires_at,
                created_at,
                changed_at: Some(now),
            };
            OverrideValue::new(limits, record)
        });
        let kept = value.as_ref().map(OverrideValue::encode);
        let draft = EventDraft {
            reason: self.terms.reason.as_deref(),
            before: before.value.as_deref(),
            after: kept.as_deref(),
            ..EventDraft::of(match value {
                Some(_) => Action::SetOverride,
                None => Action::RemoveOverride,
            })
        };
        let event = self
            .service
            .event(&self.caller, self.target.encode(), &draft);
        let key = self.target.encode();
        let mut definition = match kept {
            Some(kept) => Definition::new(key, kept),
            None => Definition::none(key),
        };
        if let Some(at) = self.expires_at
            && self.service.is_shared()
        {
            let left = at.since(now).as_duration();
            definition = definition.lasting(left.max(Duration::from_micros(1)));
        }
        let change = Change::from(definition).expecting(before.version);
        Asked {
            change: change.telling(event),
            value,
        }
    }
}
