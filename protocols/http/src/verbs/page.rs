//! How queries ask for a page, and for a key.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use tidegate_service::OverrideOf;

use crate::error::Problem;

/// A query of a page: of which policy and key, its own fields, and where the page begins.
macro_rules! page_query {
    ($(#[$about:meta])* $name:ident { $($(#[$of_field:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$about])*
        #[derive(serde::Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $name {
            /// Of this policy alone.
            #[schemars(length(min = 1), example = &"chat")]
            policy: Option<String>,
            /// Of this key alone.
            #[schemars(with = "Option<crate::parse::key::Text>")]
            key: Option<String>,
            /// The same for a key of any bytes, in padded Base64; not together with `key`.
            #[schemars(length(min = 4))]
            key_base64: Option<String>,
            $($(#[$of_field])* $field: $kind,)*
            /// Where the page before has ended: its `cursor`.
            cursor: Option<String>,
            /// How many items a page has at most.
            #[schemars(
                range(min = 1, max = tidegate::LONGEST_PAGE),
                extend("default" = tidegate_service::bounds::USUAL_PAGE)
            )]
            limit: Option<u64>,
        }

        impl $name {
            /// Which page is asked for.
            fn page(&mut self) -> Result<$crate::verbs::page::Asked, $crate::error::Problem> {
                $crate::verbs::page::Asked::read(
                    self.policy.take(),
                    (self.key.take(), self.key_base64.as_deref()),
                    (self.cursor.as_deref(), self.limit),
                )
            }
        }
    };
}

pub(super) use page_query;

/// Which page is asked for.
pub(crate) struct Asked {
    policy: Option<String>,
    key: Option<Vec<u8>>,
    after: Option<Vec<u8>>,
    /// How many items at most.
    pub(super) most: Option<u64>,
}

impl Asked {
    pub(super) fn read(
        policy: Option<String>,
        (text, base64): (Option<String>, Option<&str>),
        (cursor, most): (Option<&str>, Option<u64>),
    ) -> Result<Self, Problem> {
        Ok(Self {
            policy,
            key: key(text, base64)?,
            after: after(cursor)?,
            most,
        })
    }

    /// Of which policy and key.
    pub(super) fn of(&self) -> OverrideOf<'_> {
        OverrideOf {
            policy: self.policy.as_deref(),
            key: self.key.as_deref(),
            entity: None,
        }
    }

    /// Where it begins.
    pub(super) fn after(&self) -> Option<Cow<'_, [u8]>> {
        self.after.as_deref().map(Cow::Borrowed)
    }
}

/// Where a page begins by the `cursor` of the one before.
pub(super) fn after(cursor: Option<&str>) -> Result<Option<Vec<u8>>, Problem> {
    let read = cursor.map(|text| bytes(&URL_SAFE_NO_PAD, text, "cursor"));
    read.transpose()
}

/// The key that a query names, in whichever of the two ways, if it does.
pub(super) fn key(text: Option<String>, base64: Option<&str>) -> Result<Option<Vec<u8>>, Problem> {
    match (text, base64) {
        (Some(_), Some(_)) => Err(Problem::invalid("give `key` or `key_base64`, not both")),
        (text, None) => Ok(text.map(String::into_bytes)),
        (None, Some(text)) => bytes(&STANDARD, text, "key_base64").map(Some),
    }
}

fn bytes(alphabet: &impl Engine, text: &str, name: &str) -> Result<Vec<u8>, Problem> {
    let decoded = alphabet.decode(text);
    decoded.map_err(|error| Problem::invalid(format!("`{name}` is not Base64: {error}")))
}
