//! Remembers limits in Redis or Valkey, for a fleet that shares them.
//!
//! | room | holds |
//! |---|---|
//! | [`store`](RedisStore) | the store: one connection, tables by name |
//! | [`Options`] | prefix, clock, deadline, functions or scripts |
//! | `table` | one set's table |
//! | `encoded` | a command's way |
//! | `batch` | the way of several commands of one root |
//! | `inner` | what the commands of a table share, and how the script is called |
//! | `shared` | what the tables of a store share |
//! | `request` | a command with all that it needs on its way |
//! | `revision`, `known` | what the server knows a plan by |
//! | `listing` | keys, leases and usage, a page at a time |
//! | `entered` | the roots that this process has entered there lately |
//! | `roots` | the roots under which something was used, in order |
//! | `definitions` | what is defined for an owner |
//! | `waiting` | a request that waits for its turn |
//! | `clear` | the removal of what is called so |
//! | `wakes` | the connection on which it hears that it has come |
//! | `plain` | what most policies do, by a function that goes straight |
//! | `registry` | the revisions of a table's plan, kept beside the rows |
//! | `address` | what an address names: a server, a cluster, a service of sentinels |
//! | `connection` | the connections to it |
//! | `driven` | work that is driven by who waits for it |
//! | `link` | what drives them, deadlines, what an error means |
//! | `script` | the scripts, put together of the files in `lua/` |
//! | `functions` | the same as a library that the server defines once |
//! | `keys` | the names of keys |
//! | `wire` | plans and commands as MessagePack, replies read back |
//!
//! **One round trip.** A command is one `FCALL`, whatever the number of its
//! limits and ancestors. What it calls is a translation of the core and of
//! `store`'s decision loop, exact to the last unit: Redis counts in doubles, so
//! whatever may exceed 2^53 is computed in limbs (`lua/wide.lua`). A second trip
//! is made once for each key after its limits have changed, when the server has
//! not seen the functions yet, and when an expired lease of another key under the
//! same ancestor gives something back.
//!
//! **A batch** is one call (`lua/batch.lua`) for each root, at one instant: the server's clock is
//! read once. So that the server is not kept from others for longer than about ten milliseconds, a
//! call has 250 commands at most; later calls of a batch decide by the instant of the first, but
//! never by one before their row's own. What others do may come in between.
//!
//! **Keys.** All rows and leases of one root carry the hash tag
//! `{prefix:table:root}` and so share a slot; a table's plans are in
//! `{prefix:table}:plans`. A row is kept until it equals "never seen" (`PEXPIREAT`); one that has
//! counted usage, until that is over or was listed, if it is later; a lease for as long as the plan
//! remembers it.
//!
//! **Clock.** The server decides by its own ([`Clock::Server`]), which for one
//! key only goes forward: a clock that stands up to ten seconds behind what was
//! written waits there; one that stands further behind has stepped back, and
//! limits follow it as the core says. Instants in commands and replies are
//! translated, so a caller whose clock is an hour off waits as long as one whose
//! clock is right. [`Clock::Caller`] is for tests: nothing expires by itself.
//! Instants beyond the year 2255 (2^53 microseconds) are "never".
//!
//! **Several processes, several configurations.** A row says by which revision of
//! its table's plan it was written, and is carried over to the revision of who
//! asks. Processes that use one table with different limits never get stuck:
//! each decides by its own limits, and the row is carried to and fro, a second
//! trip each time. What is used stays used; but of a bucket no more than the
//! smaller of two bursts is remembered as used across such a change, so while
//! both configurations run, the looser may grant that again. Deploy a change
//! everywhere, or give the other set another name.
//!
//! **Limits of a key's own** come with the command and are kept in the key's row,
//! so that they need no second trip and no other process's word. When they change
//! the rows of up to a thousand keys are carried over at once, those of others
//! when they are asked for next.
//! The newest 4,096 revisions of a plan are kept; a row that is older counts as never
//! seen, unless it was written by the same limits.
//!
//! **What is lost when.** Replication is asynchronous: a failover loses the
//! writes that the replica had not seen, and what they took may be granted
//! again, at most once for each failover; leases among them are unknown. Fences
//! go on growing, since they start from the clock, if the clocks of both servers
//! agree to within what was lost. Under an eviction policy such as `allkeys-lru`
//! the server may drop any row: a budget starts over, slots are granted while
//! others still hold them. Use `noeviction` (a full server then answers with an
//! error, and nothing is admitted by it), or `volatile-ttl` on a server with
//! room to spare. A restart without persistence forgets everything.
//!
//! **Errors.** Whatever the server or the way there fails in is
//! [`StoreError::Unavailable`](tidegate_store::StoreError::Unavailable) within
//! the deadline. When no answer came, the command may have been executed: only a
//! lease with an idempotency key (and an end of a lease with one, or to be
//! remembered) can be asked again without taking twice. Nothing is asked again by
//! the store itself. Passwords are in no message.
//!
//! **Listings** of keys and leases go through the server's keys by `SCAN`, a bounded number of
//! them for each page. Where the server's own table shrinks between two pages, a key may
//! come twice. Usage goes by an order of its own (`{prefix:table}:used`), and each record comes
//! once; a process enters a root there before it uses it first, and every hour: a trip more in a cluster and
//! behind sentinels, and within the trip of that use at a single server.
//!
//! **Waiting.** Who waits for a lease stands in one line of its root, whatever its
//! process: in order of arrival at the server (a priority counts as having come
//! earlier), and nobody overtakes who waits for a row of his path. What gives
//! something back tells the next by a message (`PUBLISH` on the channel
//! `tidegate:wake:...`), which asks again; where a limit says from when it would
//! fit, the first in line asks at that instant. A request that waits has a heartbeat once a
//! second; three seconds after the last it has lost its place. When the server
//! restarts without its data, the line is lost: who waits is told that the store
//! failed, or takes a new place.
//!
//! **Plain limits** without levels (buckets, windows without a calendar, slots), and their
//! leases, which are most of what is asked, have a
//! function of their own that goes straight; one bucket has another.
//!
//! **Functions and scripts.** The server is given a library of functions
//! (`FUNCTION LOAD`) when it first says that it does not have them, and again when
//! it has lost them; in a cluster each master, when it is first asked. The
//! library's name is the hash of its text: versions live beside each other. An old
//! one may be deleted once no process uses it, and is given again if one does. A
//! server that has no functions, or whose user may not load and call them, is
//! asked by scripts (`EVALSHA`) of the same text from then on, until the store is
//! opened again: it defines them anew for every call, which costs it up to half as
//! much again and more. [`Options::functions`] says that it is not to be tried.
//! (A full server refuses every function but those that only read: keys, leases and definitions are
//! listed. Usage is not, since that moves it to its records; by scripts a look still answers.)
//!
//! **Cluster and Sentinel.** A command goes to the master of its root's slot. In a
//! cluster the client follows slots that move, and may send a command again whose
//! connection was cut: it then takes twice, never too little. The sentinels are
//! asked for the master again when the last one is lost.
//!
//! **Definitions** (overrides, cool-downs) have a version for each owner, which every
//! change raises in the same script. Others are told at once (`PUBLISH` on the channel
//! `tidegate:wake:defined:PREFIX`), on a connection of its own from the first who follows;
//! and they look twice a second in case they were not, by one `HGET` for each owner: they
//! know within a second.
//!
//! **Permissions.** A user of the server needs `FCALL` and `FUNCTION LOAD`, or `EVAL`
//! and `EVALSHA`; `SCAN`, `HSCAN`, `HGET`, `HMGET`, `HSET`, `HDEL`, `PING`, in a
//! cluster `CLUSTER SLOTS`, what the functions call, the keys of the prefix, and the channels `tidegate:wake:*`.
//!
//! Deliberately absent: a bound on the number of
//! keys (the server's `maxmemory` is one).
#![forbid(unsafe_code)]

mod address;
mod batch;
mod clear;
mod connection;
mod definitions;
mod driven;
mod encoded;
mod entered;
mod error;
mod functions;
mod inner;
mod keys;
mod known;
mod link;
mod listing;
mod options;
mod plain;
mod registry;
mod request;
mod revision;
mod roots;
mod script;
mod shared;
mod store;
mod table;
mod waiting;
mod wakes;
mod wire;

pub use error::RedisError;
pub use options::{Clock, Options};
pub use store::RedisStore;
