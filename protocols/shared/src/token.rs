//! The token of a request.

/// The token in the value of a header `Authorization`: `Bearer TOKEN`.
#[must_use]
pub fn bearer(value: &[u8]) -> Option<&[u8]> {
    const BEARER: &[u8] = b"Bearer ";
    let (scheme, token) = value.split_at_checked(BEARER.len())?;
    let named = scheme.eq_ignore_ascii_case(BEARER);
    named.then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stands_behind_its_scheme_in_any_case() {
        assert_eq!(bearer(b"Bearer abc"), Some(&b"abc"[..]));
        assert_eq!(bearer(b"bEARER   abc "), Some(&b"abc"[..]));
        for none in ["", "Bearer", "Basic abc", "Bearerabc"] {
            assert_eq!(bearer(none.as_bytes()), None, "{none:?}");
        }
    }
}
