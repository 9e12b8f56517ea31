//! A [`tower::Layer`](tower_layer::Layer) that lets requests through within a set's limits.
//!
//! Each request is one of a key, and takes as much as it says; while the service works on
//! it, what it has taken is held by a lease. So one layer does for rates, for concurrency,
//! and for both at once. Work may take longer than a lease lasts (of a concurrency limit 2
//! minutes, if neither the limit nor [`Share::ttl`] says more): then its slot is free again.
//!
//! ```
//! use std::time::Duration;
//! use tidegate::tower::{LimitLayer, Share};
//! use tidegate::{Limit, LimitSet};
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # async fn serve() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! let set = LimitSet::new([
//!     Limit::calls("rps", 100, Duration::from_secs(1)),
//!     Limit::concurrency("running", 24),
//! ])?;
//! let service = ServiceBuilder::new()
//!     .layer(LimitLayer::new(set, |tenant: &String| Share::of(tenant.as_bytes())))
//!     .service(service_fn(|tenant: String| async move { Ok::<_, std::io::Error>(tenant) }));
//! assert_eq!(service.oneshot("acme".to_owned()).await?, "acme");
//! # Ok(())
//! # }
//! # let mut run = std::pin::pin!(serve());
//! # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
//! # assert!(matches!(run.as_mut().poll(&mut context), std::task::Poll::Ready(Ok(()))));
//! ```
//!
//! With axum, put `HandleErrorLayer` before it: it turns [`LayerError::Refused`] into a
//! `429` with `Retry-After`.
//!
//! [`AdaptiveLayer`] does the same within a limit that is learnt from the answers.
//!
//! | room | holds |
//! |---|---|
//! | [`Share`] | whose a request is, and how much it takes |
//! | [`LayerError`] | why a request was not answered |
//! | [`LimitLayer`], [`LimitService`] | a service within the limits of a set |
//! | [`AdaptiveLayer`], [`AdaptiveService`] | a service within a limit that is learnt |

mod adaptive;
mod admitted;
mod error;
mod limit;
mod share;

pub use adaptive::{AdaptiveLayer, AdaptiveService};
pub use error::LayerError;
pub use limit::{LimitLayer, LimitService};
pub use share::Share;
