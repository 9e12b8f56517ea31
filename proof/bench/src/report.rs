//! Rows: printed as they are measured, and written as JSON at the end.

use crate::measure::Round;
use std::fmt::Write as _;
use std::path::Path;

/// One comparison. The two figures are medians over the rounds; the ratio is the
/// median of the rounds' own ratios, and `min`/`max` are their spread.
#[derive(Clone, Debug)]
pub struct Row {
    pub name: String,
    pub ours: f64,
    pub theirs: f64,
    pub ratio: f64,
    pub min: f64,
    pub max: f64,
}

impl Row {
    /// From pairs of (ours, theirs), one for each round.
    pub fn from_pairs(name: String, pairs: &[(f64, f64)]) -> Row {
        let ratios = sorted(pairs.iter().map(|(ours, theirs)| ours / theirs));
        Row {
            name,
            ours: median(&sorted(pairs.iter().map(|pair| pair.0))),
            theirs: median(&sorted(pairs.iter().map(|pair| pair.1))),
            ratio: median(&ratios),
            min: ratios[0],
            max: ratios[ratios.len() - 1],
        }
    }

    fn line(&self) -> String {
        let Row {
            name, ours, theirs, ..
        } = self;
        let [ratio, min, max] = [self.ratio, self.min, self.max].map(shown);
        format!("{name} {ours:.2} {theirs:.2} {ratio} {min} {max}")
    }

    fn json(&self) -> String {
        let Row {
            name,
            ours,
            theirs,
            ratio,
            min,
            max,
        } = self;
        let [ours, theirs, ratio, min, max] = [ours, theirs, ratio, min, max].map(|n| number(*n));
        format!(
            "{{\"name\": \"{name}\", \"ours_ns\": {ours}, \"theirs_ns\": {theirs}, \"ratio\": {ratio}, \"min\": {min}, \"max\": {max}}}"
        )
    }
}

/// A ratio to nothing is no number.
fn shown(ratio: f64) -> String {
    if ratio.is_finite() {
        format!("{ratio:.3}")
    } else {
        "-".to_owned()
    }
}

/// JSON has no infinity and no NaN: a ratio to nothing is `null`.
fn number(value: f64) -> String {
    if value.is_finite() {
        format!("{value:.4}")
    } else {
        "null".to_owned()
    }
}

#[derive(Debug, Default)]
pub struct Report {
    rows: Vec<Row>,
}

impl Report {
    pub fn add(&mut self, name: String, pairs: &[(f64, f64)]) {
        let row = Row::from_pairs(name, pairs);
        println!("{}", row.line());
        self.rows.push(row);
    }

    /// Rows of a group in which the first contender is ours.
    pub fn add_group(&mut self, group: &str, names: &[&str], rounds: &[Round]) {
        for (index, name) in names.iter().enumerate().skip(1) {
            let pairs: Vec<_> = rounds
                .iter()
                .map(|round| (round[0], round[index]))
                .collect();
            self.add(format!("{group}/{name}"), &pairs);
        }
    }

    pub fn write_json(&self, path: &Path) -> std::io::Result<()> {
        let mut text = String::from("[\n");
        for (index, row) in self.rows.iter().enumerate() {
            let comma = if index + 1 < self.rows.len() { "," } else { "" };
            writeln!(text, "  {}{comma}", row.json()).expect("a String takes any text");
        }
        text.push_str("]\n");
        std::fs::write(path, text)
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The middle one, or the mean of the two middle ones.
fn median(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[half]
    } else {
        (sorted[half - 1] + sorted[half]) / 2.0
    }
}
