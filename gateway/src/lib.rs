//! A reverse proxy before providers of language models.
//!
//! A call is read (`llm`, `caller`), its cost is estimated and reserved (`charge`, `held`), it is
//! forwarded (`relay`, `upstream`), its answer passes through without being kept (`body`, `events`),
//! and what it has used is settled once: at the end, at a break, or when the client is gone. The
//! limits are the service's, so that any number of gateways on one store admit what one would.
//!
//! | file | knows |
//! |---|---|
//! | [`Settings`], [`Upstream`], [`ConcurrencyBy`] | where calls go, and on which terms |
//! | `check` | whether policies can be served on these terms |
//! | `caller`, `credentials` | whose limits a call counts against; headers that carry a credential |
//! | [`KeyPath`] | a key in the path |
//! | `charge` | amounts of an estimate, and of what was used |
//! | [`CostChange`] | what other prices and weights change |
//! | `fair` | whose turn it is among callers that share limits |
//! | `held` | what a call holds until it is settled |
//! | `learning` | limits that the provider says, or how its answers come |
//! | `relay` | a call's way, with its further attempts |
//! | `upstream` | connections to providers |
//! | `options` | what is added to a stream's call |
//! | `reach` | upstreams to which no connection comes about, and who tries them again |
//! | `health` | upstreams that fail, for the log |
//! | `body`, `events` | the answer on its way |
//! | `bodies` | bodies of calls, and the room for them that callers share |
//! | `refuse` | refusals |
//! | `inner`, `meters`, `usage`, `reservations` | what all calls share; what is counted, by key and model; what is held |
//! | `taking` | clients that take nothing of what they are written |
//! | [`Gateway`] | the listener |
//!
//! Not here: limits and their store (`service`), what providers mean (`llm`).
#![forbid(unsafe_code)]

mod bodies;
mod body;
mod caller;
mod charge;
mod check;
mod cost_change;
mod credentials;
mod events;
mod fair;
mod health;
mod held;
mod inner;
mod key_path;
mod learning;
mod listen;
mod meters;
mod options;
mod reach;
mod refuse;
mod relay;
mod reservations;
mod settings;
mod taking;
mod upstream;
mod usage;

pub use charge::file_costs;
pub use cost_change::CostChange;
pub use key_path::{BadKeyPath, KeyPath};
pub use listen::Gateway;
pub use settings::{BadSettings, ConcurrencyBy, Settings, Upstream};
pub use tidegate_llm::Counts;
