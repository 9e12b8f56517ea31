//! Bytes said to be requests: they are parsed or refused, alike however the
//! network splits them.
//!
//! The first byte says how the bytes are cut; the rest are the bytes. Whatever
//! is parsed lies within them, and no request is longer than one may be.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_resp::parse::{MAX_ARGUMENTS, Parser, ProtocolError};

const MAX_BYTES: usize = 512;

/// Requests, and why there are no more of them.
type Parsed = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

fuzz_target!(|bytes: &[u8]| {
    let Some((&step, bytes)) = bytes.split_first() else {
        return;
    };
    let whole = parsed(bytes, bytes.len().max(1));
    let pieces = parsed(bytes, usize::from(step).max(1));
    assert_eq!(whole, pieces, "cut after every {step} bytes");
});

fn parsed(bytes: &[u8], step: usize) -> Parsed {
    let mut parser = Parser::new(MAX_BYTES);
    let (mut input, mut parsed) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(step) {
        input.extend(piece);
        loop {
            match parser.advance(&mut input) {
                Err(error) => return (parsed, Some(error)),
                Ok(None) => break,
                Ok(Some(length)) => {
                    parsed.push(request(&parser, &input, length));
                    input.drain(..length);
                }
            }
        }
    }
    (parsed, None)
}

fn request(parser: &Parser, input: &[u8], length: usize) -> Vec<Vec<u8>> {
    assert!((1..=MAX_BYTES).contains(&length));
    let arguments = parser.arguments(&input[..length]);
    assert!(arguments.len() <= MAX_ARGUMENTS);
    let copied: Vec<_> = arguments.from(0).map(<[u8]>::to_vec).collect();
    assert_eq!(copied.len(), arguments.len(), "an argument lies outside");
    copied
}
