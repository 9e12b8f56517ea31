//! The calls of the trace: when they came, and how many tokens they had.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// A call of the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// So long after the first.
    pub at: Duration,
    /// Tokens of its prompt, at least 4: less than that no message of a chat can have here.
    pub prompt: u64,
    /// Tokens of its answer, and the bound that it names.
    pub output: u64,
}

impl Ask {
    /// What the provider charges for it.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.prompt + self.output
    }
}

/// Reads `TIMESTAMP,ContextTokens,GeneratedTokens`, in order of time, all of one day.
///
/// # Errors
/// What is wrong with the file.
pub fn read(path: &Path) -> Result<Vec<Ask>, String> {
    let wrong = |what: &str| format!("{}: {what}", path.display());
    let text = fs::read_to_string(path).map_err(|error| wrong(&error.to_string()))?;
    let lines = text.lines().skip(1).enumerate();
    let calls = lines.map(|(number, line)| {
        let call = call(line);
        call.ok_or_else(|| wrong(&format!("line {} is no call: `{line}`", number + 2)))
    });
    let mut calls = calls.collect::<Result<Vec<Ask>, String>>()?;
    let Some(first) = calls.first().map(|call| call.at) else {
        return Err(wrong("there are no calls"));
    };
    if !calls.is_sorted_by_key(|call| call.at) {
        return Err(wrong("the calls are not in order of time"));
    }
    calls.iter_mut().for_each(|call| call.at -= first);
    Ok(calls)
}

/// `2023-11-16 18:17:03.9799600,4808,10`, its time since midnight.
fn call(line: &str) -> Option<Ask> {
    let mut fields = line.trim().split(',');
    let (_, time) = fields.next()?.split_once(' ')?;
    let (hours, rest) = time.split_once(':')?;
    let (minutes, seconds) = rest.split_once(':')?;
    let whole = hours.parse::<u64>().ok()? * 3_600 + minutes.parse::<u64>().ok()? * 60;
    let seconds = Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?;
    let micros = Duration::from_micros(u64::try_from(seconds.as_micros()).ok()?);
    let (prompt, output) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(Ask {
        at: Duration::from_secs(whole) + micros,
        prompt: u64::max(prompt, 4),
        output: u64::max(output, 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_call_and_what_is_none_is_told() {
        let read = call("2023-11-16 18:17:03.9799600,4808,10").unwrap();
        let at = Duration::from_micros((18 * 3_600 + 17 * 60 + 3) * 1_000_000 + 979_960);
        assert_eq!((read.at, read.prompt, read.output), (at, 4_808, 10));
        for line in [
            "",
            "2023-11-16,1,1",
            "2023-11-16 18:17:03,1",
            "x 1:2:-3,4,5",
        ] {
            assert_eq!(call(line), None, "{line}");
        }
    }
}
