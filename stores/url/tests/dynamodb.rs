//! What a URL of DynamoDB says.
#![cfg(feature = "dynamodb")]

use tidegate_url::{UrlError, check};

#[test]
fn a_url_of_dynamodb_names_a_table_and_where_it_is() {
    let place = "region=eu-central-1&endpoint=http://127.0.0.1:8000";
    for url in [
        "dynamodb://tidegate".to_owned(),
        format!("dynamodb://tidegate?{place}"),
        format!("dynamodb://tidegate?{place}&deadline=2s&connections=16&migrate=off"),
    ] {
        assert_eq!(check(&url), Ok(()), "{url}");
    }
    for option in ["prefix=x", "what=x", "migrate=maybe", "deadline=soon"] {
        let told = check(&format!("dynamodb://tidegate?{option}"));
        assert!(matches!(told, Err(UrlError::Option { .. })), "{told:?}");
    }
    assert!(matches!(check("dynamodb:x"), Err(UrlError::Unknown(_))));
}
