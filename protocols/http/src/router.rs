//! Which path is which verb.

use axum::Router;
use axum::http::Method;
use axum::routing::{delete, get, post, put};

use crate::app::App;
use crate::error::Problem;
use crate::verbs::{decide, forward, listing, operate, overrides, policies};

/// Everything that the server answers.
///
/// Whatever is wrong with a request is said as `application/problem+json`, the
/// wrong path and the wrong method included.
pub(crate) fn router(app: App) -> Router {
    Router::new()
        .merge(verbs())
        .merge(operation())
        .fallback(async || Problem::no_such_path())
        .method_not_allowed_fallback(async |method: Method| Problem::no_such_method(&method))
        .with_state(app)
}

fn verbs() -> Router<App> {
    Router::new()
        .route("/v1/check", post(decide::check))
        .route("/v1/check-many", post(decide::check_many))
        .route("/v1/acquire", post(decide::acquire))
        .route("/v1/settle", post(decide::settle))
        .route("/v1/release", post(decide::release))
        .route("/v1/cancel", post(decide::cancel))
        .route("/v1/renew", post(decide::renew))
        .route("/v1/adjust", post(decide::adjust))
        .route("/v1/debit", post(decide::debit))
        .route("/v1/peek", post(decide::peek))
        .route("/v1/forecast", post(decide::forecast))
        .route("/v1/reset", post(decide::reset))
        .route("/v1/auth", get(forward::auth))
        .route("/v1/keys", get(listing::keys))
        .route("/v1/leases", get(listing::leases))
        .route("/v1/leases/revoke", post(decide::revoke))
        .route("/v1/denied", get(listing::denied))
        .route("/v1/overrides", get(overrides::all))
        .route("/v1/overrides", put(overrides::set))
        .route("/v1/overrides", delete(overrides::remove))
        .route("/v1/policies", get(policies::all))
        .route("/v1/policies", put(policies::apply))
        .route("/v1/policies/{name}", get(policies::one))
}

fn operation() -> Router<App> {
    Router::new()
        .route("/openapi.json", get(operate::openapi))
        .route("/healthz", get(operate::health))
        .route("/readyz", get(operate::ready))
        .route("/metrics", get(operate::metrics))
}
