//! Requests out of HTTP and JSON.
//!
//! | room | holds |
//! |---|---|
//! | `context` | who asks, and in which style they are answered |
//! | `precondition` | what has to be there for a change |
//! | `body` | a body, within its bounds |
//! | `request` | what may be said in a body, as the service is asked it |
//! | `object`, `amount`, `instant`, `override_limits`, `key` | its parts |

pub(crate) mod amount;
pub(crate) mod body;
pub(crate) mod context;
pub(crate) mod instant;
pub(crate) mod key;
pub(crate) mod object;
pub(crate) mod override_limits;
pub(crate) mod precondition;
pub(crate) mod request;
