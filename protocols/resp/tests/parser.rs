//! The parser's laws.

use proptest::prelude::*;
use tidegate_resp::parse::{Parser, ProtocolError};

const MAX_BYTES: usize = 200;

/// Requests, and why there are no more of them.
type Heard = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

/// What is heard when the bytes come in pieces that end at `cuts`.
fn heard(bytes: &[u8], cuts: &[usize]) -> Heard {
    let mut parser = Parser::new(MAX_BYTES);
    let (mut input, mut heard) = (Vec::new(), Vec::new());
    let mut from = 0;
    for to in cuts.iter().copied().chain([bytes.len()]) {
        let to = to.clamp(from, bytes.len());
        input.extend(&bytes[from..to]);
        from = to;
        loop {
            match parser.advance(&mut input) {
                Err(error) => return (heard, Some(error)),
                Ok(None) => break,
                Ok(Some(length)) => {
                    let arguments = parser.arguments(&input).from(0);
                    heard.push(arguments.map(<[u8]>::to_vec).collect());
                    assert!(length > 0, "a request has bytes");
                    input.drain(..length);
                }
            }
        }
    }
    (heard, None)
}

fn written(request: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", request.len()).into_bytes();
    for argument in request {
        bytes.extend(format!("${}\r\n", argument.len()).bytes());
        bytes.extend(argument);
        bytes.extend(b"\r\n");
    }
    bytes
}

/// Pieces of requests, whole ones, and noise.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"*2\r\n".to_vec()),
        Just(b"$3\r\nabc\r\n".to_vec()),
        Just(b"$0\r\n\r\n".to_vec()),
        Just(b"$-1\r\n".to_vec()),
        Just(b"*1\r\n$4\r\nPING\r\n".to_vec()),
        Just(b"PING 'a b' \"\\x00\"\r\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"*1025\r\n$201\r\n".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..8),
        proptest::collection::vec(
            prop_oneof![
                Just(b'*'),
                Just(b'$'),
                Just(b'\r'),
                Just(b'\n'),
                Just(b'1'),
                Just(b'"')
            ],
            0..12
        ),
        Just(vec![b'x'; 150]),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_bytes_are_heard_alike_however_they_are_split(
        bytes in noise(),
        mut cuts in proptest::collection::vec(0..400_usize, 0..12),
    ) {
        cuts.sort_unstable();
        let whole = heard(&bytes, &[]);
        prop_assert_eq!(&heard(&bytes, &cuts), &whole);
        let every: Vec<_> = (0..bytes.len()).collect();
        prop_assert_eq!(&heard(&bytes, &every), &whole);
    }

    #[test]
    fn what_is_written_is_heard(
        requests in proptest::collection::vec(
            proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..6),
            0..6,
        ),
    ) {
        let bytes: Vec<u8> = requests.iter().flat_map(|request| written(request)).collect();
        prop_assert_eq!(heard(&bytes, &[]), (requests, None));
    }
}
