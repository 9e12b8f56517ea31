//! The functions: the files in `lua/` as one library, which a server defines once
//! and not for every call as it does a script.
//!
//! The library's name is that of its text, so that several versions of this crate
//! do not hinder each other at one server. Nothing but the library itself is kept
//! there, so it may be deleted at any time (`FUNCTION DELETE`): who needs it loads
//! it again.

use std::sync::atomic::{AtomicU8, Ordering};

use redis::{Cmd, RedisError};

/// A library, and whether it may be used.
pub(crate) struct Library {
    name: String,
    source: String,
    use_of_it: AtomicU8,
}

/// Nothing is known yet.
const UNTRIED: u8 = 0;
/// A function of it was called.
const TRIED: u8 = 1;
/// Once refused, functions are not tried again.
const REFUSED: u8 = 2;

/// A function that does nothing. Whether there are functions is asked by this one: a
/// server repeats the arguments of a command that it does not know, and those of
/// the others are no text, which the client then cannot read.
const PING: (&str, &str) = ("ping", "function() return 1 end");

/// What stands for the library's name, until its text is known.
const UNNAMED: &str = "tidegate_library";

/// What the library has: a name, the text that says which Lua function that is, and whether it only
/// reads, which it may on a server that refuses writes.
pub(crate) type Entry = (&'static str, String, bool);

impl Library {
    /// `definitions`, and the functions of them that are to be called.
    pub(crate) fn new(definitions: &str, entries: &[Entry], is_allowed: bool) -> Self {
        let mut text = definitions.to_owned();
        let ping = (PING.0, PING.1.to_owned(), true);
        for (entry, function, only_reads) in entries.iter().chain([&ping]) {
            let flags = if *only_reads { "'no-writes'" } else { "" };
            text.push_str(&format!(
                "redis.register_function{{ function_name = '{UNNAMED}_{entry}', \
                 callback = {function}, flags = {{ {flags} }} }}\n"
            ));
        }
        let name = format!("tidegate_{}", redis::Script::new(&text).get_hash());
        let text = text.replace(UNNAMED, &name);
        let source = format!("#!lua name={name}\n{text}");
        Self {
            name,
            source,
            use_of_it: AtomicU8::new(if is_allowed { UNTRIED } else { REFUSED }),
        }
    }

    /// The server's name for `entry`.
    pub(crate) fn function(&self, entry: &str) -> String {
        format!("{}_{entry}", self.name)
    }

    /// The command that hands it over.
    pub(crate) fn load(&self) -> Cmd {
        let mut load = redis::cmd("FUNCTION");
        load.arg("LOAD").arg(&self.source);
        load
    }

    /// The command that shows whether its functions can be called.
    pub(crate) fn ping(&self) -> Cmd {
        let mut ping = redis::cmd("FCALL");
        ping.arg(self.function(PING.0)).arg(0);
        ping
    }

    /// Whether the server may allow it.
    pub(crate) fn is_allowed(&self) -> bool {
        self.use_of_it.load(Ordering::Relaxed) != REFUSED
    }

    /// Whether the server is known to allow it.
    pub(crate) fn is_tried(&self) -> bool {
        self.use_of_it.load(Ordering::Relaxed) == TRIED
    }

    /// The server allows it.
    pub(crate) fn use_on(&self) {
        self.use_of_it.store(TRIED, Ordering::Relaxed);
    }

    /// The server does not.
    pub(crate) fn give_up(&self) {
        self.use_of_it.store(REFUSED, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Library {
    /// Without the text.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Library").field(&self.name).finish()
    }
}

/// The server has no function of that name, or not any more.
pub(crate) fn is_unknown(error: &RedisError) -> bool {
    says(error, "function not found")
}

/// Somebody has loaded the library meanwhile.
pub(crate) fn is_loaded(error: &RedisError) -> bool {
    says(error, "already exists")
}

/// A server without functions, or a user who may not call them. (A key that he
/// may not use is no reason: a script may not use it either.)
pub(crate) fn refuses_calls(error: &RedisError) -> bool {
    match error.code() {
        Some("NOPERM") => says(error, "fcall"),
        _ => says(error, "unknown command") || says(error, "unsupported command"),
    }
}

/// Whatever a server or a proxy says of a library that it does not want. What it
/// says of the state it is in has a code of its own and passes.
pub(crate) fn refuses_libraries(error: &RedisError) -> bool {
    matches!(error.code(), Some("ERR" | "NOPERM")) && !is_loaded(error)
}

fn says(error: &RedisError, words: &str) -> bool {
    let detail = error.detail().unwrap_or_default();
    detail.to_ascii_lowercase().contains(words)
}
