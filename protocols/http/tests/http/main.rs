//! The server as its clients see it.

mod apply;
mod audit;
#[path = "../../../../service/tests/support/away.rs"]
mod away;
mod bounds;
#[path = "../../../../service/tests/support/counted.rs"]
mod counted;
mod decide;
mod entities;
mod forward;
mod front;
mod grant;
mod headers;
mod hostile;
mod lease;
mod listing;
mod live;
mod matrix;
mod namespaces;
mod openapi;
mod operate;
mod overrides;
mod pools;
mod proxies;
mod silent;
mod support;
mod tokens;
mod tools;
mod undelivered;
mod units;
mod usage;
mod versions;
