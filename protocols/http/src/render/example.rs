//! Answers as the document shows them.

use serde_json::{Value, json};

use crate::error::QUOTA_EXCEEDED;
use crate::parse::request::Lease;

pub(crate) fn standing() -> Value {
    stand(5000, "2026-01-01T12:00:40Z")
}

fn stand(remaining: u64, full_at: &str) -> Value {
    json!({
        "limit": 9000,
        "remaining": remaining,
        "debt": 0,
        "replenish_at": "2026-01-01T12:00:00.01Z",
        "full_at": full_at,
    })
}

pub(crate) fn forecast() -> Value {
    let mut forecast = json!({"spendable": 1, "admitted": true, "not_until": null});
    extend(&mut forecast, standing());
    forecast
}

fn extend(value: &mut Value, by: Value) {
    if let (Some(members), Value::Object(more)) = (value.as_object_mut(), by) {
        members.extend(more);
    }
}

pub(crate) fn answer() -> Value {
    json!({
        "admitted": true,
        "binding": null,
        "not_until": null,
        "retry_after_ms": null,
        "limits": {"tpm": standing()},
        "degraded": false,
        "shadowed": false,
    })
}

fn refused() -> Value {
    json!({
        "admitted": false,
        "binding": "tpm",
        "not_until": "2026-01-01T12:00:40Z",
        "retry_after_ms": 40000,
        "limits": {"tpm": stand(0, "2026-01-01T12:01:30Z")},
        "degraded": false,
        "shadowed": false,
    })
}

pub(crate) fn answers() -> Value {
    json!({"answers": [answer(), refused()]})
}

pub(crate) fn lease() -> Value {
    json!({
        "id": Lease::EXAMPLE,
        "fence": 1_767_268_800_000_001_u64,
        "granted_at": "2026-01-01T12:00:00Z",
        "expires_at": "2026-01-01T12:02:00Z",
        "expires_in_ms": 120_000,
        "waited_ms": 0,
        "repeated": false,
    })
}

pub(crate) fn renewal() -> Value {
    json!({"expires_at": "2026-01-01T12:02:00Z", "expires_in_ms": 120_000})
}

pub(crate) fn admission() -> Value {
    let mut admission = answer();
    admission["lease"] = lease();
    admission
}

pub(crate) fn units() -> Value {
    json!({
        "id": Lease::EXAMPLE,
        "amounts": {"rpm": 20, "tpm": 40000},
        "calls": ["rpm"],
        "good_for_ms": 1000,
        "good_until": "2026-01-01T12:00:01Z",
        "granted_at": "2026-01-01T12:00:00Z",
        "expires_at": "2026-01-01T12:00:01Z",
    })
}

pub(crate) fn grant() -> Value {
    let mut grant = answer();
    grant["grant"] = units();
    grant
}

pub(crate) fn refusal() -> Value {
    let mut refusal = json!({
        "type": QUOTA_EXCEEDED,
        "title": "Quota exceeded",
        "status": 429,
        "detail": "refused by tpm; retry at 2026-01-01T12:00:40Z",
        "code": "refused",
        "violated-policies": ["tpm"],
    });
    extend(&mut refusal, refused());
    refusal
}
