//! What is printed on standard output.

use std::io::{self, ErrorKind, Write};

/// Prints it, and answers whether somebody reads on.
///
/// Who stops reading (`tidegate keys | head`) has read enough: that is no error, and changes
/// neither what a command does nor how it ends.
pub fn print(text: &str) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}
