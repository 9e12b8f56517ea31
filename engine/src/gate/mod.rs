//! What every door asks: who is there, what they may, and what a policy says.
//!
//! | room | holds |
//! |---|---|
//! | [`Gate`] | the policies by name, on one store; exchanged while in use |
//! | [`Served`] | one policy's verbs, counted, with its failure mode |
//! | `aside` | commands that a disk holds up, beside a runtime's tasks |
//! | [`Rate`] | rates that come with the call instead of a policy |
//! | [`Credentials`], [`Caller`] | tokens, scopes, and the policies they are for |
//! | [`GateError`], [`Kind`] | why not, in terms that every protocol can say |
//! | [`Denial`], [`Frequent`] | who is refused, as it happens and most often |
//! | [`HeldTicket`], [`LeaseHandle`] | what is held, for those who do not hold it |
//! | [`audit`] | who changed what |
//! | [`Place`], [`Placed`] | overrides stored at four levels |
//! | [`Change`] | what an exchange of policies changes |
//!
//! Deliberately absent: protocols, files and sockets.

mod access;
mod ad_hoc;
mod aside;
pub mod audit;
mod change;
mod denials;
mod error;
mod listing;
mod meters;
mod overrides;
mod served;
mod threshold;

pub use access::{Caller, Credential, Credentials, Scope};
pub use ad_hoc::{LIMIT as AD_HOC_LIMIT, MOST as MOST_RATES, POLICY as AD_HOC_POLICY, Rate};
pub use change::Change;
pub use denials::{Denial, Frequent, Watcher};
pub use error::{GateError, Kind};
pub use listing::{HeldTicket, LeaseHandle, NoHandle};
pub use overrides::{Level, LimitFault, Place, Placed, Setting, read_limits, settings_of};
pub use served::{Answer, Entry, Served, Ticket};
pub use threshold::{Gate, GateBuilder};
