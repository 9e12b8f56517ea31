//! Remembers limits in MariaDB (10.6 and later, InnoDB), for a fleet that has a
//! database.
//!
//! | room | holds |
//! |---|---|
//! | [`store`](MysqlStore) | the store: connections to a server, tables by name |
//! | [`Options`] | prefix, clock, deadline, connections |
//! | [`NativeLock`] | the server's own locks |
//! | `table` | a command's way |
//! | `revision` | what the server knows a plan by |
//! | `inner`, `shared` | what the commands of a table share, and what its tables do |
//! | `attempt` | its tries |
//! | `batch` | those of several commands of one root |
//! | `kept` | what a decision means for the line, and the line for a decision |
//! | `turns` | those who wait, in whatever process, in order |
//! | `waiting` | a request that waits for its turn |
//! | `trips` | a load and a swap on a connection |
//! | `sql` | their statements |
//! | `registry` | the revisions of a table's plan, kept beside the rows |
//! | `schema` | the SQL tables, and how they change from version to version |
//! | `listing` | keys, leases and usage, a page at a time |
//! | `definitions`, `change` | what is defined for an owner, and one change of it |
//! | `clear` | the removal of what is called so |
//! | `names` | what a row is called |
//! | `connection` | a bounded number of connections |
//! | `backoff` | how often, and when, a lost transaction is tried again |
//! | `prune`, `pruner` | what is spent is deleted, and when it is time |
//!
//! **The core decides**, here and not in the server: the loop of [`tidegate_store::optimistic`].
//! A command is one transaction of two round trips, whatever the number of its
//! limits and ancestors: one loads (and locks the row of the root, which stands
//! for all that hangs on it: the rows of its descendants and its leases), one
//! writes and commits. A refusal, and all else that changes nothing, is answered
//! after the first. A third trip is made once for each key after its limits have
//! changed, and when more than two leases of a root are due at once or one of
//! another key gives something back.
//!
//! **No deadlocks by design, and none unhandled.** Every transaction locks one
//! root's row before it reads or writes anything else, so two never wait for each
//! other. Two that make the same row at once meet at its key: one is told so, and
//! tries again. That, a deadlock the server finds (1213) and a lock it does not
//! grant in time (1205) are tried again a bounded number of times with pauses
//! drawn at random; then the answer is
//! [`StoreError::Unavailable`](tidegate_store::StoreError::Unavailable).
//!
//! **Clock.** The server decides by its own ([`Clock::Server`]), read after the
//! lock was granted, which for one root only goes forward: a clock that stands up
//! to ten seconds behind what was written waits there. Instants in commands and
//! replies are translated, so a caller whose clock is an hour off waits as long as
//! one whose clock is right. [`Clock::Caller`] is for tests.
//!
//! **What is kept.** A row for each key (and ancestor) until it equals "never
//! seen", a record for each lease for as long as the plan remembers it, and of what is counted
//! a record for each row, hour and limit for as long as the plan says; none of them
//! grows with the amount asked. What is spent is deleted a little after every 64
//! commands, a minute or so late.
//!
//! **What is lost when.** What was answered is committed; how far a commit has
//! come then is the server's `innodb_flush_log_at_trx_commit`. A failover to a
//! replica loses what it had not seen, and what that took may be granted again.
//! Fences go on growing, since they start from the clock.
//!
//! **Errors.** Whatever the server or the way there fails in is `Unavailable`
//! within the deadline. When no answer to a commit came, the command may have been
//! executed, and the error says so: only a lease with an idempotency key can be
//! asked again without taking twice. Passwords are in no message. Who stands still
//! in mid-command is cut off by the server, and its locks are freed.
//!
//! **Definitions** (overrides, cool-downs) have a version for each owner, which every
//! change raises in its own transaction. Others look every two seconds, by one statement
//! for all owners: they know within five.
//!
//! **Waiting.** Requests of all processes that wait for one key stand in a line that the
//! database keeps, in order of arrival; nobody overtakes them. MariaDB wakes nobody:
//! a request that waits polls, with pauses of 2 to 512 ms (`docs/stores/mariadb.md` says which), holds no
//! connection meanwhile, and has a heartbeat every second; a place without one
//! for three is lost.
//!
//! Deliberately absent: a bound on the number of keys.
#![forbid(unsafe_code)]

mod attempt;
mod backoff;
mod batch;
mod change;
mod clear;
mod connection;
mod definitions;
mod error;
mod inner;
mod kept;
mod listing;
mod lock;
mod names;
mod options;
mod prune;
mod pruner;
mod registry;
mod revision;
mod schema;
mod shared;
mod sql;
mod store;
mod table;
mod trips;
mod turns;
mod waiting;

pub use error::MysqlError;
pub use lock::NativeLock;
pub use options::{Clock, Options};
pub use store::MysqlStore;
