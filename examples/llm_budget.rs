//! Tokens and money, reserved before a request to a language model and settled by what it
//! reported. A customer's own budget, and one that all customers share.
//!
//! ```sh
//! cargo run -p tidegate-examples --bin llm_budget
//! ```

use std::time::Duration;

use tidegate::{Admission, Error, Limit, LimitSet, Period, Request, Unit};

/// Dollars are counted in millionths, so that no cent is lost to rounding.
const DOLLAR: u64 = 1_000_000;

fn main() -> Result<(), Error> {
    let minute = Duration::from_secs(60);
    let micro_dollars = Unit::decimal(6);
    let set = LimitSet::builder()
        // A key is a path: everything of `acme` counts for `acme`, too.
        .levels(["customer", "user"])
        .limit(Limit::rate("tpm", 60_000, minute).at_level("customer"))
        .limit(
            Limit::budget("usd", 5 * DOLLAR, Period::day("UTC"))
                .unit(micro_dollars)
                .at_level("customer"),
        )
        .limit(Limit::concurrency("running", 4).at_level("user"))
        .build()?;

    // Found once: a name that is misspelt is an error here, and not with each request.
    let (tpm, usd) = (set.limit("tpm")?, set.limit("usd")?);

    // (the input's tokens, the most that the answer may have, what it came to)
    let requests = [
        (1_500, 1_000, 420),
        (12_000, 4_000, 3_900),
        (50_000, 8_000, 0),
    ];
    for (input, most, output) in requests {
        // Reserve the most that it can cost. 3 dollars a million tokens in, 15 out.
        let cost = |output: u64| input * 3 + output * 15;
        let estimate = [(tpm, input + most), (usd, cost(most))];
        let ask = Request::named(&estimate);
        match set.try_acquire("acme/alice", ask).wait()? {
            Admission::Granted(mut lease) => {
                // ... the call to the provider, whose answer says what was used ...
                let used = [(tpm, input + output), (usd, cost(output))];
                lease.settle(&used).wait()?;
                println!(
                    "{input} + {output} tokens: {} USD",
                    micro_dollars.show(cost(output))
                );
            }
            Admission::Refused(decision) => {
                let limit = decision.binding().unwrap_or("another request");
                let until = decision
                    .not_until()
                    .map_or("ever".to_owned(), |at| at.to_string());
                println!("{input} + {most} tokens at most: {limit} refuses, not before {until}");
            }
        }
    }
    let left = set.peek("acme/alice", &[(usd, 1)]).wait()?;
    if let Some(left) = left.remaining(usd) {
        println!("left today: {} USD", micro_dollars.show(left));
    }
    Ok(())
}
