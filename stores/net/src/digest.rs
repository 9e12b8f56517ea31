//! What a schema was made of, in sixteen digits.

/// FNV-1a of 64 bits (G. Fowler, L. C. Noll, K.-P. Vo) of all texts, one behind the other, in
/// hexadecimal digits: whether two builds have the same, not whether somebody meant to deceive.
#[must_use]
pub fn digest<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let bytes = texts.into_iter().flat_map(str::bytes);
    let digest = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{digest:016x}")
}

#[cfg(test)]
mod tests {
    use super::digest;

    #[test]
    fn it_is_the_published_hash() {
        assert_eq!(digest([]), "cbf29ce484222325");
        assert_eq!(digest(["a"]), "af63dc4c8601ec8c");
        assert_eq!(digest(["foo", "bar"]), "85944171f73967e8");
    }
}
