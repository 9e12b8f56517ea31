//! What every protocol asks: who is there, what they may, and what a policy says.
//!
//! | room | holds |
//! |---|---|
//! | [`Service`] | the policies by name, on one store; exchanged while in use |
//! | [`Call`], [`Answer`] | what a protocol asks, and is answered: [`Service::call`]; `call/decide` decides, `call/administer` looks and changes, `call/meant` finds the policy, the key and the amounts |
//! | [`ActivePolicy`] | one policy's verbs, counted, with its failure mode |
//! | `jitter` | those who are refused together come back apart |
//! | `tables` | what the store calls the tables of policies, members and rates |
//! | [`check_many()`] | the checks of one request, all at one instant |
//! | [`Number`] | an amount as a request says it, and in its limit's unit |
//! | [`Told`] | an answer with what it takes to write it out |
//! | [`Finish`], [`Report`] | how a lease ends, and what is said of its work |
//! | [`Rate`], [`Rated`] | rates that come with the call instead of a policy |
//! | [`Caller`] | tokens, scopes, and the policies they are for |
//! | [`bounds`], [`Field`] | what every request is held to, by the names of its parts |
//! | [`ServiceError`], [`Kind`] | why not, in terms that every protocol can say |
//! | [`Denial`], [`Frequent`], [`DenialWatch`] | who is refused, as it happens and most often, and who is told |
//! | [`PublicLease`], [`LeaseHandle`] | what is held, for those who do not hold it |
//! | [`PublicUsage`], [`UsageBy`] | what was used, by hour, day or month |
//! | [`audit`], [`AuditEvent`] | who changed what: a log, and events that the store keeps |
//! | [`OverrideTarget`], [`StoredOverride`], [`Pending`] | overrides stored at four levels |
//! | [`Entity`], [`EntityPath`], [`Whose`] | who belongs to whom, and requests by an entity's id |
//! | [`Namespace`], [`NamespacePolicies`] | parts of one store that share nothing, each served alone |
//! | `made` | what became of a change whose answer got lost |
//! | [`Undelivered`] | a lease that nobody was told of, given back |
//! | `meters`, `series` | what is counted of a policy, and which names have a label of their own |
//! | [`RequestSpan`] | what a request tells of itself, for whoever traces |
//! | [`Change`], [`compare()`] | what an exchange of policies changes, and what it means |
//! | `retired` | policies that an exchange took away, while their tiers hold something |
//!
//! Deliberately absent: protocols, files and sockets.

mod access;
mod active_policy;
mod ad_hoc;
mod amounts;
mod answer;
pub mod audit;
pub mod bounds;
mod bytes;
mod call;
mod capacity;
mod change;
mod denial_watch;
mod denials;
mod effect;
mod entities;
mod error;
mod field;
mod finish;
mod fleet;
mod granting;
mod held;
mod jitter;
mod limiter;
mod listing;
mod made;
mod making;
mod many;
mod member_forecast;
mod meters;
mod namespaces;
mod overrides;
mod pooled;
mod rate;
mod rated;
mod retired;
mod series;
mod service;
mod share;
mod sort;
pub mod spans;
mod tables;
mod told;
mod undelivered;
mod usage;
mod whose;

pub use access::{Caller, Origin};
pub use active_policy::{Acquired, ActivePolicy, Charge, GrantedLease};
pub use ad_hoc::MOST as MOST_RATES;
pub use amounts::{Amounts, Number};
pub use answer::{Acquisition, Answer, Decided};
pub use audit::{Action, AuditEvent, AuditValue};
pub use call::{
    AuditListing, Call, EntityListing, GrantTerms, Listing, OfLease, OverrideListing, OverrideOf,
    Question, Terms, UsageListing, Uses,
};
pub use capacity::{Capacity, LimitCapacity};
pub use change::{Change, compare};
pub use denial_watch::DenialWatch;
pub use denials::{Denial, Frequent, Watcher};
pub use entities::{
    Entity, EntityChange, EntityError, EntityPath, EntityTerms, EntityValue, NewEntity,
};
pub use error::{Crowded, Kind, ServiceError, is_store_away};
pub use field::Field;
pub use finish::{Finish, Finished, Renewed, Report};
pub use fleet::Fleet;
pub use granting::Granting;
pub use listing::{LeaseHandle, NoHandle, PublicLease, PublicUsage};
pub use many::{Check, Checked, check_many};
pub use member_forecast::MemberForecast;
pub use meters::count_timeout;
pub use namespaces::{Namespace, NamespaceError, NamespacePolicies, NamespaceState, Purge};
pub use overrides::{
    GivenLimit, Level, LimitFault, OnlyIf, OverrideTarget, OverrideTerms, OverrideValue, Pending,
    Record, Setting, StoredOverride, Until, read_limits, settings_of,
};
pub use rate::{LIMIT as AD_HOC_LIMIT, POLICY as AD_HOC_POLICY, Rate};
pub use rated::Rated;
pub use service::{Service, ServiceBuilder};
pub use sort::Sort;
pub use spans::RequestSpan;
pub use tidegate_policy::{Credential, Scope};
pub use tidegate_store::error::INVALID_CURSOR;
pub use told::{Stand, Told};
pub use undelivered::Undelivered;
pub use usage::UsageBy;
pub use whose::Whose;
