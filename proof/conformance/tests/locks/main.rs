//! Semaphores on real servers: holders that are stopped and killed, servers that
//! go away and come back, fences that grow through all of it.
//!
//! | room | shows |
//! |---|---|
//! | `holders` | a holder that is killed, that stands still, that lives long |
//! | `servers_away` | a server that is killed, restarted, paused |
//! | `fences` | fences grow across expiry and restart |
//! | `crowd` | slots are conserved while processes come and go |
//! | `holder`, `register`, `servers` | a process, a row that checks fences, the servers |

mod crowd;
mod fences;
mod holder;
mod holders;
mod register;
mod servers;
mod servers_away;
