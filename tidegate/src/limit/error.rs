//! What is wrong with a limit.

use tidegate_core::RuleError;

use super::algorithm::Algorithm;

/// What is wrong with a limit.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// A number outside its range.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// It has no name.
    #[error("a limit needs a name")]
    NoName,
    /// No such time zone.
    #[error("there is no time zone `{0}`; use an IANA name such as Europe/Berlin or UTC")]
    UnknownZone(String),
    /// No such level.
    #[error("there is no level `{0}`; name it in the set's levels")]
    UnknownLevel(String),
    /// A calendar's period with an algorithm that has no windows.
    #[error("{0:?} cannot follow a calendar; use a fixed window, or a duration")]
    CalendarNeedsWindow(Algorithm),
    /// An override that would count in another way.
    #[error("an override changes how much, not how it is counted: {0}")]
    Unlike(&'static str),
    /// A limit that a key is given beside the set's own, and that cannot be.
    #[error("it cannot be added: {0}")]
    NotAddable(&'static str),
    /// A setting that means nothing to a limit of its kind.
    #[error("`{setting}` does not go with {kind}; leave it out")]
    NoSetting {
        /// The setting, as policy files call it.
        setting: &'static str,
        /// What the limit is, in words.
        kind: &'static str,
    },
}
