//! Remembers limits in DynamoDB, for a fleet without a server to run.
//!
//! | room | holds |
//! |---|---|
//! | [`store`](DynamodbStore) | the store: one table of DynamoDB's, sets by name |
//! | [`Options`] | region, endpoint, credentials, clock, deadline |
//! | `table` | a command's way |
//! | `revision` | what DynamoDB knows a plan by |
//! | `inner`, `shared` | what the commands of a table share, and what its tables do |
//! | `attempt` | a command's tries |
//! | `batch` | those of several commands of one root |
//! | `kept` | what a decision means for the line, and the line for a decision |
//! | `sight`, `known` | what is known of a root, and of which roots |
//! | `turns` | those who wait, in whatever process, in order |
//! | `waiting` | a request that waits for its turn |
//! | `trips` | a load and a write |
//! | `item`, `keys` | what is in an item, and where it is |
//! | `registry` | the revisions of a table's plan, kept beside the rows |
//! | `schema` | the DynamoDB table, and its version |
//! | [`administer`](Administration) | the table made, looked at, brought up to date, deleted |
//! | [`template`](Template), [`rights`](Rights) | the table for CloudFormation and Terraform; who may do what on it |
//! | `listing` | keys and leases, a page at a time |
//! | `definitions` | what is defined for an owner |
//! | `clear` | the removal of what is kept under names that begin alike |
//! | `connection` | a bounded number of requests |
//! | `clock` | this process's clock, corrected by DynamoDB's answers |
//! | `backoff` | how often, and when, a request is made again |
//!
//! **The core decides**, here and not in DynamoDB: the loop of [`tidegate_store::optimistic`].
//! Everything of one root is in one partition, and hangs on the root's item: its version is
//! compared by every write. A process keeps what its last answer showed of a root, decides by
//! that and writes on its version. A lone bucket that nobody else writes is one request of one
//! write unit; a write that another came before brings the newer item back with its refusal. A
//! decision that changes leases or ancestors is one transaction. What is refused is read since
//! the command came, and writes nothing.
//!
//! **Done once or not at all.** A write whose answer was lost is asked for again as it is: a
//! transaction by its token, an item by its version and its writer, which is drawn for each
//! write. Where others have written since and nobody can tell, the answer is
//! [`StoreError::Unavailable`](tidegate_store::StoreError::Unavailable), and says so. Conflicts,
//! throttling and failures are tried again a bounded number of times within the deadline, with
//! pauses drawn at random; then throttling is
//! [`StoreError::Busy`](tidegate_store::StoreError::Busy), and says what is over its limit.
//!
//! **Clock.** DynamoDB has none to decide by. A process decides by its own, brought to within a
//! second of DynamoDB's by the `Date` of its answers ([`Clock::Server`]), and for one root never
//! before what was written there last. [`Clock::Caller`] is for tests.
//!
//! **What is kept.** An item for each key (and ancestor), lease, idempotency key and waiter, each
//! with a time from which on it equals "never seen", and DynamoDB may delete it: whether it has
//! done so yet decides nothing. A change of more than 100 items, or an item of more than 400 KB,
//! is [`StoreError::Full`](tidegate_store::StoreError::Full) before anything is done.
//!
//! **Definitions** (overrides, cool-downs) have a version for each owner, which every change
//! compares and raises in the transaction that writes it, and its event with it. Others look every
//! two seconds: they know within five.
//!
//! **Waiting.** Requests of all processes that wait for one key stand in a line that the table
//! keeps, in order of arrival; nobody overtakes them. DynamoDB wakes nobody: a request that waits
//! polls (`docs/stores/dynamodb.md` says how often, and what it costs).
//!
//! Deliberately absent: a bound on the number of keys; a hot key in several partitions (a tier takes
//! its units in advance).
#![forbid(unsafe_code)]

mod administer;
mod attempt;
mod backoff;
mod batch;
mod clear;
mod clock;
mod connection;
mod definitions;
mod error;
mod inner;
mod item;
mod kept;
mod keys;
mod known;
mod listing;
mod options;
mod registry;
mod revision;
mod rights;
mod schema;
mod shared;
mod sight;
mod store;
mod table;
mod template;
mod trips;
mod turns;
mod waiting;

pub use administer::{Administration, Done, Status};
pub use error::DynamodbError;
pub use options::{Clock, Credentials, Options};
pub use rights::Rights;
pub use store::DynamodbStore;
pub use template::{Language, Template};
