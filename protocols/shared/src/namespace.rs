//! The namespace that a request names.

use tidegate_service::{Field, ServiceError};

/// The namespace in the values of a request's header for it, if there is one.
///
/// # Errors
/// [`ServiceError::Form`]: there are several, of which a proxy may have added one; or one that is
/// no text.
pub fn named_namespace<'a>(
    mut values: impl Iterator<Item = &'a [u8]>,
) -> Result<Option<&'a str>, ServiceError> {
    let wrong = |wrong| ServiceError::Form {
        field: Field::Namespace,
        wrong,
    };
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(wrong("it is named twice; name one namespace"));
    }
    std::str::from_utf8(value)
        .map(Some)
        .map_err(|_| wrong("a namespace's name has letters, digits, `.`, `_` and `-` alone"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_namespace_is_named_or_none() {
        let named = |values: &[&'static [u8]]| named_namespace(values.iter().copied());
        assert_eq!(named(&[]).ok(), Some(None));
        assert_eq!(named(&[b"acme"]).ok(), Some(Some("acme")));
        assert!(named(&[b"acme", b"beta"]).is_err());
        assert!(named(&[b"acme", b"acme"]).is_err());
        assert!(named(&[b"\xff"]).is_err());
    }
}
