//! Stored overrides: limits that some policies, some keys, or all of them have
//! in place of what the policies' file says.
//!
//! | room | holds |
//! |---|---|
//! | [`OverrideTarget`], [`Level`] | what an override is for: four levels |
//! | `resolve` | which of several holds: the one place that says so |
//! | `stored` | all that are set |
//! | [`OverrideValue`], [`Record`] | what each says, and who set it, why, when and until when |
//! | [`OverrideTerms`] | on which terms one is changed: a version, a reason, an end |
//! | `write` | one change, on what is there, with its event in the same step |
//! | `verbs` | set, removed and listed at the service |
//! | `followed` | what is told anywhere on the store, in force here |
//! | [`Pending`] | a change on its way to the store |
//! | `given` | set from fields, and told apart from what the policies say |
//! | [`Setting`], [`read_limits`], [`settings_of`] | limits as a policy's file writes them, for protocols |

mod followed;
mod given;
mod pending;
mod record;
mod resolve;
mod settings;
mod stored;
mod target;
mod terms;
mod verbs;
mod write;

pub(super) use followed::{go_over, tell_of, tell_of_end, tell_of_loss};
pub(crate) use given::AddedLimit;
pub use pending::Pending;
pub use record::{OverrideValue, Record};
pub(super) use resolve::{all_given, given, limits};
pub use settings::{GivenLimit, LimitFault, Setting, read_limits, settings_of};
pub use stored::StoredOverride;
pub(super) use stored::{OWNER, Stored};
pub use target::{Level, OverrideTarget};
pub use terms::{OnlyIf, OverrideTerms, Until};
