//! What a Redis server has counted: the Lua files of a checkout are written so that each
//! named function, and each file that is a function by itself, counts its calls there.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::calls::{Calls, Function};

/// Where the files are.
const FOLDER: &str = "stores/redis/lua";

/// The hash in which the server counts.
const COUNTS: &str = "ways-of-a-decision";

/// Makes every function of the files count its calls.
pub fn make_them_count(root: &Path) -> Result<(), String> {
    let folder = root.join(FOLDER);
    let wrong = |error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(&folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        let text = fs::read_to_string(&path).map_err(wrong)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        fs::write(&path, counting(&name, &text)).map_err(wrong)?;
    }
    Ok(())
}

fn counting(file: &str, text: &str) -> String {
    let is_a_function = text
        .lines()
        .last()
        .is_some_and(|line| line.starts_with("return"));
    let mut counting = match is_a_function {
        true => format!("{} ", count(file, "the file")),
        false => String::new(),
    };
    for line in text.lines() {
        match head(line) {
            Some((name, end)) => {
                let (head, rest) = line.split_at(end);
                counting.push_str(&format!("{head} {}{rest}\n", count(file, name)));
            }
            None => counting.push_str(&format!("{line}\n")),
        }
    }
    counting
}

fn count(file: &str, name: &str) -> String {
    format!("redis.call('HINCRBY', '{COUNTS}', '{file} {name}', 1)")
}

/// The name of the function that a line begins, and where its parameters end.
fn head(line: &str) -> Option<(&str, usize)> {
    let begun = line.trim_start();
    let begun = begun.strip_prefix("local ").unwrap_or(begun);
    let named = begun.strip_prefix("function ")?;
    let (name, _) = named.split_once('(')?;
    Some((name, line.find(')')? + 1))
}

/// A Redis server on a free port of this machine, stopped when this is dropped.
pub struct Server {
    child: Child,
    port: u16,
}

impl Server {
    pub fn start() -> Result<Self, String> {
        let first = 20_000 + (std::process::id() % 10_000) as u16;
        let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
        let port = (first..first + 1_000).find(is_free).ok_or("no free port")?;
        let mut start = Command::new("redis-server");
        start.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        start.args(["--save", "", "--appendonly", "no"]);
        start.stdin(Stdio::null()).stdout(Stdio::piped());
        let child = start
            .spawn()
            .map_err(|error| format!("redis-server: {error}"))?;
        let mut server = Self { child, port };
        server.wait_until_it_listens()?;
        Ok(server)
    }

    fn wait_until_it_listens(&mut self) -> Result<(), String> {
        let said = self
            .child
            .stdout
            .take()
            .ok_or("redis-server has no output")?;
        let mut lines = BufReader::new(said).lines().map_while(Result::ok);
        match lines.any(|line| line.contains("Ready to accept connections")) {
            true => Ok(()),
            false => Err("redis-server did not start".to_owned()),
        }
    }

    /// As a store's URL.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// How often each function was called since the last time.
    pub fn calls(&self) -> Result<Calls, String> {
        let wrong = |error| format!("redis-server: {error}");
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).map_err(wrong)?;
        let patience = Some(Duration::from_secs(10));
        stream.set_read_timeout(patience).map_err(wrong)?;
        let ask = format!("HGETALL {COUNTS}\r\nFLUSHALL\r\nQUIT\r\n");
        stream.write_all(ask.as_bytes()).map_err(wrong)?;
        let mut said = String::new();
        stream.read_to_string(&mut said).map_err(wrong)?;
        Ok(read(&said))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the server says to `HGETALL`: lengths stand before the names and the numbers.
fn read(said: &str) -> Calls {
    let words: Vec<_> = said
        .lines()
        .filter(|line| !line.starts_with(['*', '$', '+']))
        .collect();
    let counted = words.chunks_exact(2).filter_map(|pair| {
        let (file, name) = pair[0].split_once(' ')?;
        let function = Function {
            file: format!("{FOLDER}/{file}"),
            name: name.to_owned(),
        };
        Some((function, pair[1].parse().ok()?))
    });
    counted.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_functions_and_whole_files_count_their_calls() {
        let library =
            "local function one(a, b) return a end\nfunction lines.stay(now)\n  go()\nend\n";
        let counted = counting("line.lua", library);
        assert_eq!(
            counted,
            "local function one(a, b) redis.call('HINCRBY', 'ways-of-a-decision', 'line.lua one', 1) return a end\n\
             function lines.stay(now) redis.call('HINCRBY', 'ways-of-a-decision', 'line.lua lines.stay', 1)\n  go()\nend\n"
        );
        let whole = counting("lone.lua", "each(function(a) go() end)\nreturn 1\n");
        assert!(whole.starts_with(
            "redis.call('HINCRBY', 'ways-of-a-decision', 'lone.lua the file', 1) each"
        ));
        assert_eq!(whole.matches("HINCRBY").count(), 1);
    }

    #[test]
    fn what_the_server_says_is_read() {
        let said = "*4\r\n$8\r\na.lua one\r\n$1\r\n5\r\n$9\r\nb.lua the file\r\n$2\r\n50\r\n+OK\r\n+OK\r\n";
        let function = |file: &str, name: &str| Function {
            file: format!("stores/redis/lua/{file}"),
            name: name.to_owned(),
        };
        let expected = [
            (function("a.lua", "one"), 5),
            (function("b.lua", "the file"), 50),
        ];
        assert_eq!(read(said), Calls::from(expected));
    }
}
