//! An axum service within limits: so many requests a minute of each caller, so many at
//! once; more is answered with 429 and Retry-After.
//!
//! ```sh
//! cargo run -p tidegate-examples --bin axum_service
//! curl -i -H 'x-api-key: alice' http://127.0.0.1:3000/
//! ```

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::error_handling::HandleErrorLayer;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tidegate::tower::{LayerError, LimitLayer, Share};
use tidegate::{Limit, LimitSet};
use tower::ServiceBuilder;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let set = LimitSet::new([
        Limit::calls("rpm", 60, Duration::from_secs(60)),
        Limit::concurrency("running", 8),
    ])?;
    let whose = |request: &Request| {
        let key = request.headers().get("x-api-key");
        Share::of(key.map_or(&b"anonymous"[..], |key| key.as_bytes()))
    };
    let limits = ServiceBuilder::new()
        .layer(HandleErrorLayer::new(refused))
        .layer(LimitLayer::new(set, whose));
    let app = Router::new()
        .route("/", get(|| async { "hello\n" }))
        .layer(limits);

    let address = std::env::args()
        .nth(1)
        .unwrap_or("127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

async fn refused(error: LayerError<std::convert::Infallible>) -> Response {
    match error {
        LayerError::Refused { retry_after, .. } => {
            let wait = retry_after.unwrap_or(Duration::from_secs(1));
            let seconds = wait.as_millis().div_ceil(1_000);
            let headers = [(header::RETRY_AFTER, seconds.to_string())];
            (
                StatusCode::TOO_MANY_REQUESTS,
                headers,
                "too many requests\n",
            )
                .into_response()
        }
        error => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response(),
    }
}
