//! What every row is measured and reported with.

use crate::measure::{Contender, in_turns};
use crate::options::Options;
use crate::report::Report;

/// What a group needs to measure and report.
pub struct Bench<'a> {
    pub options: &'a Options,
    pub report: &'a mut Report,
}

impl Bench<'_> {
    /// Measures contenders in turns; the first is ours, and every other makes a
    /// row `group/name`.
    pub fn compare(&mut self, group: &str, mut contenders: Vec<Contender>) {
        let ours = contenders[0].name;
        contenders.retain(|each| {
            each.name == ours || self.options.wants(&format!("{group}/{}", each.name))
        });
        let rounds = in_turns(self.options, &mut contenders);
        let names: Vec<_> = contenders.iter().map(|each| each.name).collect();
        self.report.add_group(group, &names, &rounds);
    }
}
