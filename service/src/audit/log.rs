//! Who changed what: one event for each administrative change, under the
//! target [`TARGET`], for a log of its own.

/// The target of the events.
pub const TARGET: &str = "tidegate::audit";

/// Notes what a service begins with, that of a namespace if it is of one.
pub(crate) fn begin(namespace: Option<&str>, policies: &str) {
    let (by, action) = ("the start", "policies");
    tracing::info!(target: TARGET, by, action, namespace, subject = policies, "policies in use");
}

/// Notes that `by` (a token's name, or what else changes things) did `action`
/// to `subject`, which is in a namespace if one is named.
pub fn note(namespace: Option<&str>, by: &str, action: &str, subject: &str) {
    tracing::info!(target: TARGET, by, action, namespace, subject, "administrative change");
}
