//! The token of a request.

/// The token in the value of a header `Authorization`: `Bearer TOKEN`, with spaces or tabs in between.
#[must_use]
pub fn bearer(value: &[u8]) -> Option<&[u8]> {
    const BEARER: &[u8] = b"Bearer";
    let (scheme, token) = value.split_at_checked(BEARER.len())?;
    let is_apart = token.first().is_some_and(u8::is_ascii_whitespace);
    let named = scheme.eq_ignore_ascii_case(BEARER) && is_apart;
    named.then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stands_behind_its_scheme_in_any_case() {
        assert_eq!(bearer(b"Bearer abc"), Some(&b"abc"[..]));
        assert_eq!(bearer(b"bEARER   abc "), Some(&b"abc"[..]));
        assert_eq!(bearer(b"Bearer\tabc"), Some(&b"abc"[..]));
        for none in ["", "Bearer", "Basic abc", "Bearerabc"] {
            assert_eq!(bearer(none.as_bytes()), None, "{none:?}");
        }
    }
}
