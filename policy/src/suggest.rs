//! Did you mean: the likeliest of the words that would have been right.

/// The known word nearest to what was written, if one is near.
pub(super) fn nearest<'w>(written: &str, known: &[&'w str]) -> Option<&'w str> {
    let written = written.to_lowercase();
    let score = |word: &str| strsim::jaro_winkler(&written, &word.to_lowercase());
    let best = known
        .iter()
        .copied()
        .max_by(|a, b| score(a).total_cmp(&score(b)))?;
    (score(best) > 0.8).then_some(best)
}

/// What to write: the nearest word if one is near, else all of them.
pub(super) fn write_instead(written: &str, known: &[&str]) -> String {
    match nearest(written, known) {
        Some(word) => format!("did you mean `{word}`?"),
        None => format!("write {}", one_of(known)),
    }
}

/// "`a`, `b` or `c`".
pub(super) fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{nearest, one_of};

    #[test]
    fn a_slip_of_the_finger_finds_its_word_and_nonsense_finds_none() {
        let known = ["burst", "per", "algorithm"];
        assert_eq!(nearest("brust", &known), Some("burst"));
        assert_eq!(nearest("algoritm", &known), Some("algorithm"));
        assert_eq!(nearest("xyzzy", &known), None);
    }

    #[test]
    fn words_are_listed_as_people_list_them() {
        assert_eq!(one_of(&["a"]), "`a`");
        assert_eq!(one_of(&["a", "b", "c"]), "`a`, `b` or `c`");
    }
}
