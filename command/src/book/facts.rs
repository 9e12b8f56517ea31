//! Lists of pages beside the lists of the programs: nothing is missing on either side.

use std::collections::BTreeSet;

use serde_json::Value;

use super::messages::written;
use super::page::{repository, root};

#[test]
fn every_operation_of_http_is_on_its_page() {
    let page = repository("docs/reference/http.md");
    let document = repository("protocols/http/openapi.json");
    let document: Value = serde_json::from_str(&document).expect("a document");
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for method in operations.as_object().expect("operations").keys() {
            let shown = format!("`{} {path}`", method.to_uppercase());
            assert!(page.contains(&shown), "{shown}");
        }
    }
}

/// The names of metrics in a text.
fn metrics(text: &str) -> BTreeSet<String> {
    let is_of_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let words = text.split(|c: char| !is_of_name(c));
    let named = words.filter(|word| {
        word.strip_prefix("tidegate_")
            .is_some_and(|rest| !rest.is_empty())
    });
    named.map(str::to_owned).collect()
}

#[test]
fn every_metric_is_on_its_page_and_no_other() {
    let programs = repository("service/src/meters.rs") + &repository("server/src/store.rs");
    let denied = repository("server/src/denied.rs");
    let is_told = |name: &String| {
        programs.contains(&format!("\"{name}\"")) || denied.contains(&format!("# TYPE {name} "))
    };
    let named = metrics(&(programs.clone() + &denied)).into_iter();
    let known: BTreeSet<_> = named.filter(is_told).collect();
    assert!(known.len() > 9, "{known:?}");
    let page = metrics(&repository("docs/operating/metrics.md"));
    let missing: Vec<_> = known.difference(&page).collect();
    assert!(
        missing.is_empty(),
        "write a row in docs/operating/metrics.md for {missing:?}"
    );
    let gone: Vec<_> = page.difference(&known).collect();
    assert!(
        gone.is_empty(),
        "no program has {gone:?}: take them out of docs/operating/metrics.md"
    );
}

/// Those of the gateway are on a page of their own.
#[test]
fn every_metric_of_the_gateway_is_on_its_page_and_no_other() {
    let mut sources = String::new();
    written(&root().join("gateway/src"), &mut sources);
    let known: BTreeSet<_> = metrics(&sources)
        .into_iter()
        .filter(|name| sources.contains(&format!("\"{name}\"")))
        .collect();
    assert!(known.len() > 9, "{known:?}");
    let page = metrics(&repository("docs/gateway.md")).into_iter();
    let others = ["tidegate_waiting"];
    let page: BTreeSet<_> = page.filter(|name| !others.contains(&&**name)).collect();
    assert_eq!(known, page);
}
