//! Semaphores on real servers: holders that are stopped and killed, servers that
//! go away and come back, fences that grow through all of it.
//!
//! | room | shows |
//! |---|---|
//! | `holders` | a holder that is killed, that stands still, that lives long |
//! | `servers_away` | a server that is killed, restarted, paused |
//! | `fences` | fences grow across expiry and restart |
//! | `answers_lost` | a connection that is cut between a grant and its answer |
//! | `clocks` | a client whose clock is an hour off |
//! | `page` | what docs/reference/locks.md tells to write in SQL and Lua, done |
//! | `kept` | a lease of several limits that its holder keeps |
//! | `reacquired` | slots are conserved while processes come and go |
//! | `holder`, `servers` | a process, the servers |

mod answers_lost;
mod clocks;
mod fences;
mod holder;
mod holders;
mod kept;
mod page;
mod reacquired;
mod servers;
mod servers_away;
