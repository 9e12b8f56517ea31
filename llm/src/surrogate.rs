//! Halves of surrogate pairs in JSON: what JavaScript and Python may write of a text that was cut, and
//! Rust has no text for.

use memchr::memchr;

/// How long `\uXXXX` is.
const ESCAPE: usize = 6;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    High,
    Low,
}

/// The same with another character (U+FFFD) in place of each half that stands alone; `None` where
/// there is none.
pub(crate) fn mended(json: &[u8]) -> Option<Vec<u8>> {
    let (mut mended, mut at) = (None::<Vec<u8>>, 0);
    while let Some(found) = json.get(at..).and_then(|rest| memchr(b'\\', rest)) {
        at += found;
        at += match (half(json, at), half(json, at + ESCAPE)) {
            (Some(Half::High), Some(Half::Low)) => 2 * ESCAPE,
            (Some(_), _) => {
                let mended = mended.get_or_insert_with(|| json.to_vec());
                mended[at..at + ESCAPE].copy_from_slice(br"\ufffd");
                ESCAPE
            }
            // Whatever it stands before is no beginning of another one.
            (None, _) => 2,
        };
    }
    mended
}

/// Which half stands there, if one does.
fn half(json: &[u8], at: usize) -> Option<Half> {
    let digits = json.get(at..at + ESCAPE)?.strip_prefix(br"\u")?;
    let digits = std::str::from_utf8(digits).ok()?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xD800..=0xDBFF => Some(Half::High),
        0xDC00..=0xDFFF => Some(Half::Low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_that_stand_alone_are_replaced_and_nothing_else() {
        let of = |json: &str| {
            let mended = mended(json.as_bytes())?;
            Some(String::from_utf8(mended).unwrap())
        };
        for whole in [
            r"\ud83d\ude00",
            r"\\ud800",
            r"\u0041\n",
            r"\u+d80",
            r"\ud8",
            "\\",
            "",
        ] {
            assert_eq!(of(whole), None, "{whole}");
        }
        for (half, mended) in [
            (r"a\ud83d", r"a\ufffd"),
            (r"\uDE00\uD83D", r"\ufffd\ufffd"),
            (r"\ud83d\ud83d\ude00", r"\ufffd\ud83d\ude00"),
            (r"\\\ud800x", r"\\\ufffdx"),
        ] {
            assert_eq!(of(half).as_deref(), Some(mended));
        }
    }
}
