//! What is told of one administrative change.
//!
//! ```text
//! version u8 = 1, action u8, by?, protocol?, peer?, reason?, before?, after?, n u32, n x detail
//! ```
//! Before and after are overrides or entities as the store keeps them.

use std::time::Duration;

use tidegate_core::{DecodeError, Timestamp};
use tidegate_store::Event;

use crate::access::Caller;
use crate::bounds::{USUAL_AUDIT, USUAL_EVENTS};
use crate::bytes::{Reader, Writer};
use crate::change::is_about;
use crate::entities::{EntityValue, entity_of_subject};
use crate::overrides::{OverrideTarget, OverrideValue};

const VERSION: u8 = 1;

/// The most details of one event.
const MOST_DETAILS: usize = 256;

/// The longest detail, in bytes.
const LONGEST_DETAIL: usize = 512;

/// For how long events are kept, and how many of each sort.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Retention {
    pub(crate) lasts: Duration,
    pub(crate) most: u32,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            lasts: USUAL_AUDIT,
            most: USUAL_EVENTS,
        }
    }
}

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Action {
    /// An override was set.
    SetOverride,
    /// An override was removed.
    RemoveOverride,
    /// A key was forgotten.
    Reset,
    /// A lease was ended by its handle.
    Revoke,
    /// Policies were applied.
    ApplyPolicies,
    /// An entity was created.
    CreateEntity,
    /// An entity was changed.
    ChangeEntity,
    /// An entity was deleted.
    DeleteEntity,
    /// A namespace was created.
    CreateNamespace,
    /// A namespace was deleted.
    DeleteNamespace,
    /// A namespace that was deleted was restored.
    RestoreNamespace,
    /// What a deleted namespace had began to be removed.
    PurgeNamespace,
    /// What the event before it tells of, by the same caller, was answered with an error.
    Failed,
    /// Something that only a newer server does.
    Other,
}

impl Action {
    /// Every one that this version does.
    pub const ALL: [Self; 13] = [
        Self::SetOverride,
        Self::RemoveOverride,
        Self::Reset,
        Self::Revoke,
        Self::ApplyPolicies,
        Self::CreateEntity,
        Self::ChangeEntity,
        Self::DeleteEntity,
        Self::CreateNamespace,
        Self::DeleteNamespace,
        Self::RestoreNamespace,
        Self::PurgeNamespace,
        Self::Failed,
    ];

    /// A word for it that never changes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SetOverride => "set_override",
            Self::RemoveOverride => "remove_override",
            Self::Reset => "reset",
            Self::Revoke => "revoke",
            Self::ApplyPolicies => "apply_policies",
            Self::CreateEntity => "create_entity",
            Self::ChangeEntity => "change_entity",
            Self::DeleteEntity => "delete_entity",
            Self::CreateNamespace => "create_namespace",
            Self::DeleteNamespace => "delete_namespace",
            Self::RestoreNamespace => "restore_namespace",
            Self::PurgeNamespace => "purge_namespace",
            Self::Failed => "failed",
            Self::Other => "other",
        }
    }

    const fn number(self) -> u8 {
        match self {
            Self::SetOverride => 1,
            Self::RemoveOverride => 2,
            Self::Reset => 3,
            Self::Revoke => 4,
            Self::ApplyPolicies => 5,
            Self::Failed => 6,
            Self::CreateEntity => 7,
            Self::ChangeEntity => 8,
            Self::DeleteEntity => 10,
            Self::CreateNamespace => 11,
            Self::DeleteNamespace => 12,
            Self::RestoreNamespace => 13,
            Self::PurgeNamespace => 14,
            Self::Other => u8::MAX,
        }
    }

    /// Whether it was done to a namespace, whose name is the event's detail.
    pub(crate) const fn is_of_namespaces(self) -> bool {
        matches!(
            self,
            Self::CreateNamespace
                | Self::DeleteNamespace
                | Self::RestoreNamespace
                | Self::PurgeNamespace
        )
    }

    fn of_number(number: u8) -> Self {
        let mut all = Self::ALL.into_iter();
        all.find(|action| action.number() == number)
            .unwrap_or(Self::Other)
    }
}

/// What is told of one administrative change. No token is in it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct AuditEvent {
    /// Its place in the order of those of its sort (of overrides, of policies, of keys): it
    /// grows, and has gaps. Of an override, the version that it was given by the change.
    pub version: u64,
    /// When, by the store's clock if it has one, else by the server's.
    pub at: Timestamp,
    /// What was done.
    pub action: Action,
    /// To what: a policy and a key, or every one.
    pub target: OverrideTarget,
    /// To which entity, by its id; then the target says nothing.
    pub entity: Option<String>,
    /// The name of the token that did it; `anyone` where there are no tokens.
    pub by: Option<String>,
    /// By which protocol: `http`, `grpc` or `resp`.
    pub protocol: Option<String>,
    /// From which address and port: a proxy's, if there is one between.
    pub peer: Option<String>,
    /// Why, if that was said.
    pub reason: Option<String>,
    /// The override or the entity as it was; nothing if there was none, or it cannot be read
    /// here.
    pub before: Option<AuditValue>,
    /// The override or the entity as it is from then on; nothing if there is none.
    pub after: Option<AuditValue>,
    /// More of it, a line each: the handle of a lease that was ended, what other policies
    /// have changed; of what has failed, the action and why, and then these.
    pub details: Vec<String>,
}

/// What was changed, as it was or as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AuditValue {
    /// An override.
    Override(OverrideValue),
    /// An entity.
    Entity(EntityValue),
}

/// What an event is to tell.
pub(crate) struct EventDraft<'a> {
    pub(crate) action: Action,
    pub(crate) reason: Option<&'a str>,
    pub(crate) before: Option<&'a [u8]>,
    pub(crate) after: Option<&'a [u8]>,
    pub(crate) details: &'a [String],
}

impl EventDraft<'_> {
    pub(crate) const fn of(action: Action) -> Self {
        Self {
            action,
            reason: None,
            before: None,
            after: None,
            details: &[],
        }
    }

    /// As a store keeps it.
    pub(super) fn encode(&self, caller: &Caller) -> Vec<u8> {
        let mut out = Writer::new(VERSION);
        out.0.push(self.action.number());
        out.some_text(Some(caller.name()));
        let origin = caller.origin();
        out.some_text(origin.map(|origin| origin.protocol));
        let peer = origin.and_then(|origin| origin.peer);
        out.some_text(peer.map(|peer| peer.to_string()).as_deref());
        out.some_text(self.reason);
        out.some_bytes(self.before);
        out.some_bytes(self.after);
        let details = &self.details[..self.details.len().min(MOST_DETAILS)];
        out.0.extend((details.len() as u32).to_le_bytes());
        for detail in details {
            let end = detail.floor_char_boundary(LONGEST_DETAIL);
            out.bytes(&detail.as_bytes()[..end]);
        }
        out.0
    }
}

impl AuditEvent {
    /// What a store has kept. Of what cannot be read the reason is told.
    pub(super) fn read(event: &Event) -> Self {
        Self::decode(event).unwrap_or_else(|unreadable| Self {
            version: event.version,
            at: event.at,
            action: Action::Other,
            target: OverrideTarget::decode(&event.subject).unwrap_or_default(),
            entity: entity_of_subject(&event.subject).map(str::to_owned),
            by: None,
            protocol: None,
            peer: None,
            reason: None,
            before: None,
            after: None,
            details: vec![unreadable.to_string()],
        })
    }

    /// Whether it tells, of policies that were applied, that this one was changed.
    pub(super) fn names(&self, policy: &str) -> bool {
        let of_all = matches!(self.action, Action::ApplyPolicies | Action::Failed)
            && self.target.policy.is_none();
        of_all && self.details.iter().any(|line| is_about(line, policy))
    }

    fn decode(event: &Event) -> Result<Self, DecodeError> {
        let entity = entity_of_subject(&event.subject);
        let target = match entity {
            Some(_) => Some(OverrideTarget::everything()),
            None => OverrideTarget::decode(&event.subject),
        };
        let mut reader = Reader::new(&event.body, VERSION)?;
        let action = Action::of_number(reader.byte()?);
        let mut text = || reader.some_text();
        let (by, protocol, peer, reason) = (text()?, text()?, text()?, text()?);
        let mut value = || {
            let bytes = reader.some_bytes()?;
            Ok(bytes.and_then(|bytes| match entity {
                Some(_) => EntityValue::decode(bytes).ok().map(AuditValue::Entity),
                None => OverrideValue::decode(bytes).ok().map(AuditValue::Override),
            }))
        };
        let (before, after) = (value()?, value()?);
        let details = reader.many(MOST_DETAILS)?;
        reader.end()?;
        Ok(Self {
            version: event.version,
            at: event.at,
            action,
            target: target.ok_or(DecodeError::Corrupt("event's place"))?,
            entity: entity.map(str::to_owned),
            by,
            protocol,
            peer,
            reason,
            before,
            after,
            details,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Credentials, Origin};

    fn event(body: Vec<u8>) -> Event {
        Event {
            subject: OverrideTarget::everything().of_key("acme").encode(),
            body,
            at: Timestamp::from_micros(5),
            lasts: Duration::from_secs(1),
            most: 1,
            version: 9,
        }
    }

    #[test]
    fn an_event_is_read_as_it_was_written_and_is_bounded() {
        let caller = Credentials::default().identify(None).unwrap();
        let caller = caller.coming_from(Origin {
            protocol: "resp",
            peer: Some(([127, 0, 0, 1], 7).into()),
        });
        let details = vec!["\u{20ac}".repeat(1_000); 2 * MOST_DETAILS];
        let value = OverrideValue::default();
        let draft = EventDraft {
            reason: Some("why"),
            before: Some(&value.encode()),
            details: &details,
            ..EventDraft::of(Action::Revoke)
        };
        let body = draft.encode(&caller);
        let read = AuditEvent::decode(&event(body.clone())).unwrap();
        assert_eq!((read.version, read.action), (9, Action::Revoke));
        assert_eq!(read.by.as_deref(), Some("anyone"));
        let from = (read.protocol.as_deref(), read.peer.as_deref());
        assert_eq!(from, (Some("resp"), Some("127.0.0.1:7")));
        assert_eq!(
            (read.before, read.after),
            (Some(AuditValue::Override(value)), None)
        );
        assert_eq!(read.details.len(), MOST_DETAILS);
        assert!(read.details.iter().all(|one| one.len() <= LONGEST_DETAIL));
        for end in (0..200).chain((200..body.len()).step_by(9_973)) {
            assert!(AuditEvent::decode(&event(body[..end].to_vec())).is_err());
        }
    }
}
