//! Remembers limits in PostgreSQL, for a fleet that shares them.
//!
//! | room | holds |
//! |---|---|
//! | [`store`](PostgresStore) | the store: connections, tables by name |
//! | [`Options`] | clock, deadline, how rows are kept |
//! | `table` | a command's way |
//! | `inner`, `shared` | what the commands of a table share, and what its tables do |
//! | `request` | a command with all that it needs on its way |
//! | `batch` | the way of several commands of one root |
//! | `sql` | the functions of the schema, called for one table |
//! | `revision` | how the server is told of a change of limits |
//! | `plan`, `reply` | plans and answers as numbers |
//! | `compiled` | a plan as the server knows it, and whether it is plain |
//! | `plain` | takes of a single bucket, and their answers |
//! | `plain_set` | takes, leases and their ends of plain buckets and slots |
//! | `registry` | the sets by name, and the newest plan of each |
//! | `listing` | keys and leases, a page at a time |
//! | `definitions` | what is defined for an owner |
//! | `session` | what leases end with, if that is asked for |
//! | [`AdvisoryLock`] | the server's own locks, by name |
//! | `prune` | the removal of what nobody asks for any more |
//! | `clear` | the removal of what is called so |
//! | `schema` | the schema, made and brought up to date |
//! | `waiting` | a request that waits for its turn |
//! | `wakes` | where those who wait are told, on one connection |
//! | `connection` | a pool of connections, deadlines |
//!
//! **One round trip.** A command is one call of one function, and one
//! transaction, whatever the number of its limits and ancestors, also after a
//! change of limits. The functions (`sql/`) are a translation of the core
//! and of `store`'s decision loop, exact to the last unit: they count in
//! `numeric`. A take from a single plain bucket is one `UPDATE` in `bigint`, its
//! refusal one `SELECT`. A second trip is made where five hundred expired leases
//! of one root are to be dealt with first.
//!
//! **A batch** is one statement (`sql/batch.sql`) for each root, at one instant, which is read when
//! the root's row is locked. So that others do not wait for that row for long, a statement has 250
//! commands at most; later ones of a batch decide by the instant of the first, but never by one
//! before their row's own. What others do may come in between. Where leases end with sessions
//! ([`Options::leases_end_with_session`]), a batch that makes any is sent one command after the
//! other.
//!
//! **Locks.** Every command locks the row of its root first, which guards all rows
//! and leases below: there is no second lock to wait for, so no deadlock.
//!
//! **Several processes, several configurations.** A row says by which revision of
//! its set's plan it was written, and is carried over, inside the function, to the
//! revision of who asks: over each change since, as of when it was made. Processes
//! with different limits never get stuck: the row is carried to and fro, at the
//! price that `tidegate-redis` describes. Limits of a key's own come with the
//! command and are kept in the key's row.
//!
//! **Durability** is the server's: see [`Options::tables`] and
//! [`Options::waits_for_disk`].
//!
//! **Errors.** Whatever the server or the way there fails in is
//! [`StoreError::Unavailable`](tidegate_store::StoreError::Unavailable) within
//! the deadline. When no answer came, the command may have been executed. Nothing
//! is asked again by the store itself. Passwords are in no message.
//!
//! **Waiting.** Requests of all processes that wait for one key stand in a line that the
//! database keeps, in order of arrival; nobody overtakes them. Whose turn may have
//! come is notified (`LISTEN`, one connection for each store, from the first that
//! waits on). A request that waits holds no connection. It asks every two seconds in any case,
//! which keeps its place and makes up for a notification that was lost; a place
//! without a heartbeat for six seconds is lost.
//!
//! **Definitions** (overrides, cool-downs) have a version for each owner, which every
//! change raises in its own transaction, whoever makes it. Others are notified (`LISTEN
//! tidegate_defined`, one connection for each store, from the first who follows); and they
//! look twice a second in case they were not, by one statement for all owners: they know
//! within a second, behind a pooler that passes no notification, too.
//!
//! `docs/stores/postgres.md` has the schema, the grants that a role needs, and what is
//! lost when.
//!
//! Deliberately absent: TLS, a bound on the number of
//! keys (the disk is one).
#![forbid(unsafe_code)]

mod batch;
mod clear;
mod compiled;
mod connection;
mod definitions;
mod error;
mod inner;
mod listing;
mod lock;
mod options;
mod plain;
mod plain_set;
mod plan;
mod prune;
mod registry;
mod reply;
mod request;
mod revision;
mod schema;
mod session;
mod shared;
mod sql;
mod store;
mod table;
mod tls;
mod waiting;
mod wakes;

pub use error::PostgresError;
pub use lock::AdvisoryLock;
pub use options::{Clock, Options, Tables};
pub use store::PostgresStore;
