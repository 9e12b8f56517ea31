//! Quantiles of a histogram whose buckets are counted cumulatively.
//!
//! Within a bucket, values are taken to be spread evenly, as Prometheus's
//! `histogram_quantile` does.

/// How many values were at most so large: by bound, ascending.
#[derive(Clone, Debug, Default)]
pub struct Buckets(Vec<(f64, f64)>);

/// A quantile.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Quantile {
    /// About so many seconds.
    About(f64),
    /// More than the largest bound.
    Beyond(f64),
}

impl Buckets {
    /// Adds what one line says.
    pub fn add(&mut self, bound: &str, count: f64) {
        let Ok(bound) = bound.parse::<f64>() else {
            return;
        };
        let place = self.0.partition_point(|(known, _)| *known < bound);
        match self.0.get_mut(place) {
            Some((known, counted)) if *known == bound => *counted += count,
            _ => self.0.insert(place, (bound, count)),
        }
    }

    /// What has come since `before`; all of it, if the server began anew.
    pub fn since(&self, before: &Self) -> Self {
        let earlier = |bound: f64| {
            let mut known = before.0.iter();
            known
                .find(|(b, _)| *b == bound)
                .map_or(0.0, |(_, count)| *count)
        };
        let mut newer = self.clone();
        newer
            .0
            .iter_mut()
            .for_each(|(bound, count)| *count -= earlier(*bound));
        match newer.0.iter().any(|(_, count)| *count < 0.0) {
            true => self.clone(),
            false => newer,
        }
    }

    /// The value that the part `q` of all are at most; nothing if there is none.
    pub fn quantile(&self, q: f64) -> Option<Quantile> {
        let total = self
            .0
            .last()
            .map(|(_, count)| *count)
            .filter(|n| *n > 0.0)?;
        let wanted = total * q;
        let at = self.0.iter().position(|(_, count)| *count >= wanted)?;
        let (bound, count) = self.0[at];
        let (lower, below) = match at {
            0 => (0.0, 0.0),
            at => self.0[at - 1],
        };
        if bound.is_infinite() {
            return Some(Quantile::Beyond(lower));
        }
        let within = (wanted - below) / (count - below).max(f64::MIN_POSITIVE);
        Some(Quantile::About(lower + (bound - lower) * within))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(counts: &[(&str, f64)]) -> Buckets {
        let mut buckets = Buckets::default();
        counts
            .iter()
            .for_each(|(bound, count)| buckets.add(bound, *count));
        buckets
    }

    #[test]
    fn a_quantile_lies_within_its_bucket() {
        let waits = buckets(&[("+Inf", 100.0), ("0.1", 50.0), ("1", 90.0), ("10", 98.0)]);
        assert_eq!(waits.quantile(0.5), Some(Quantile::About(0.1)));
        assert_eq!(waits.quantile(0.25), Some(Quantile::About(0.05)));
        assert_eq!(waits.quantile(0.7), Some(Quantile::About(0.55)));
        assert_eq!(waits.quantile(0.99), Some(Quantile::Beyond(10.0)));
        assert_eq!(Buckets::default().quantile(0.5), None);
        assert_eq!(buckets(&[("1", 0.0)]).quantile(0.5), None);
    }

    #[test]
    fn only_what_has_come_since_counts() {
        let before = buckets(&[("1", 100.0), ("2", 100.0), ("+Inf", 100.0)]);
        let after = buckets(&[("1", 100.0), ("2", 102.0), ("+Inf", 102.0)]);
        assert_eq!(
            after.since(&before).quantile(0.5),
            Some(Quantile::About(1.5))
        );
        // A server that began anew has counted less.
        let anew = buckets(&[("1", 4.0), ("2", 4.0), ("+Inf", 4.0)]);
        assert_eq!(
            anew.since(&before).quantile(0.5),
            Some(Quantile::About(0.5))
        );
    }
}
