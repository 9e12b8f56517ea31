//! The one binary, `tidegate`: what it does is in `tidegate-command`, which is built for size.
//! (For what its last crate is built, a whole program is linked: this one for speed.)

use std::process::ExitCode;

fn main() -> ExitCode {
    tidegate_command::main()
}
