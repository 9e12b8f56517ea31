//! Limits learnt from the provider, which sets, changes and enforces them.
//!
//! One [`Learnt`] is what a gateway knows of one limit of one account. It decides nothing and
//! keeps no count of what is used: a limit set does, and is told the capacity, and what others
//! have used of the account.
//!
//! *What is in flight is counted once.* When a call is [granted](Learnt::granted), its
//! [`Granted`] notes how much the limit set counted then, itself and everything in flight
//! included. The provider's `limit - remaining` is what it counted by this call; what is more
//! than ours, somebody else has used ([`Elsewhere`]), and it is charged. Calls that were granted
//! later are in our count alone, and stay there. So after any answer, what ours grants from then on and
//! holds already fits into what the provider said was left. A `remaining` that is higher frees
//! nothing: what is in flight comes back when it is settled.
//!
//! *A provider may count what ours has forgotten*: after a fall of the limit a bucket drains by the lower
//! one. Where an answer shows that, a call that was granted [waits](Learnt::waits) until the provider has
//! room for it, by the newest answer and by what was sent since.
//!
//! *An old answer never overrides a newer one.* Answers are merged in the [order](Order) in which their
//! calls were sent, in whatever order they come, and however many gateways share the account.
//!
//! | file | knows |
//! |---|---|
//! | `seen` | what one answer said of one limit |
//! | `granted` | what was counted when a call was granted |
//! | `charged` | what was charged for others, ever |
//! | `search` | what to try where nobody says a limit |
//! | `room` | whether the provider has room, by its newest answer and by what was sent since |
//! | `limit` | the limit, merged from all of these |
//!
//! It takes for granted that a provider counts calls in the order in which they were sent. Where
//! two overtake each other on the way, and somebody else uses the account in that very moment, the
//! amount of one is charged too little until the next answer, or too much until that is spent. What a
//! call takes beyond its reservation is charged twice if the answer to a later call comes first.

mod charged;
mod granted;
mod limit;
mod room;
mod search;
mod seen;

pub use granted::{Came, Granted, Order};
pub use limit::{Elsewhere, Learnt, News};
pub use seen::Seen;
