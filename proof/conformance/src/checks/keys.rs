//! Keys are bytes: any, and all different.

use super::fixture::{Fixture, rate, slots};
use crate::subject::{Skipped, Subject};

/// Keys that something or other would take for the same.
fn keys() -> Vec<Vec<u8>> {
    let text: [&[u8]; 16] = [
        b"a",
        b"A",
        b"a ",
        b" a",
        b"a\0",
        b"\0a",
        b"\0",
        b"\0\0",
        b"a:b",
        b"a_b",
        b"a*",
        b"{a}",
        b"%61",
        b"'",
        b"\xff",
        b"\xc3\xa9",
    ];
    let mut keys: Vec<Vec<u8>> = text.iter().map(|key| key.to_vec()).collect();
    keys.extend([
        b"e\xcc\x81".to_vec(),
        b"\xff\xfe".to_vec(),
        b"a\nb".to_vec(),
    ]);
    // Around the length that is kept in place, and the longest.
    for length in [21, 22, 23, 24, 255, 256, 4_095, 4_096] {
        keys.push(vec![b'k'; length]);
    }
    keys.extend((0..=255).map(|byte| vec![b'z', byte, b'z']));
    keys.retain(|key| !key.contains(&b'/'));
    keys
}

pub(super) fn keys_of_any_bytes_do_not_collide(subject: &Subject) -> Result<(), Skipped> {
    let plain: &[(usize, _)] = &[(0, rate(1, 300))];
    let held = &[(0, rate(1, 300)), (0, slots(300))];
    for rules in [plain, held] {
        let fixture = Fixture::new(subject, 1, rules);
        let keys = keys();
        for (number, key) in keys.iter().enumerate() {
            let amounts = vec![number as u64 % 300 + 1; rules.len()];
            fixture
                .lease_by(key, &amounts, 1_000_000, None)
                .expect("an answer");
        }
        for (number, key) in keys.iter().enumerate() {
            let left = 300 - (number as u64 % 300 + 1);
            assert_eq!(
                fixture.left(key),
                vec![left; rules.len()],
                "{}",
                key.escape_ascii()
            );
        }
    }
    Ok(())
}
