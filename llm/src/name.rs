//! The name of a member of a JSON object, read in place: nothing of it is kept.

use std::fmt;

use serde::de::{Deserializer, Visitor};

/// What `of` makes of a name.
pub(crate) fn read<'de, D: Deserializer<'de>, T>(
    name: D,
    of: impl FnOnce(&str) -> T,
) -> Result<T, D::Error> {
    struct Name<F>(F);
    impl<T, F: FnOnce(&str) -> T> Visitor<'_> for Name<F> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a name")
        }

        fn visit_str<E>(self, name: &str) -> Result<T, E> {
            Ok(self.0(name))
        }
    }
    name.deserialize_str(Name(of))
}
