//! A cumulative histogram, as the text format has them.

/// Values counted by upper edge.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// Upper edge (infinity is the last) and how many values are at most that, by rising edge.
    pub buckets: Vec<(f64, f64)>,
    /// The values' sum.
    pub sum: f64,
    /// How many values.
    pub count: f64,
}

impl Histogram {
    /// From buckets in any order; equal edges, of several label sets, are added up.
    pub(super) fn new(buckets: impl Iterator<Item = (f64, f64)>, sum: f64, count: f64) -> Histogram {
        let mut sorted: Vec<(f64, f64)> = buckets.filter(|(edge, _)| !edge.is_nan()).collect();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        sorted.dedup_by(|later, kept| {
            let same = later.0.total_cmp(&kept.0).is_eq();
            if same {
                kept.1 += later.1;
            }
            same
        });
        Histogram { buckets: sorted, sum, count }
    }

    /// What was counted after `earlier`. If this one counts fewer (its process has restarted) that is all of it.
    #[must_use]
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let edges =
            |histogram: &Histogram| histogram.buckets.iter().map(|(edge, _)| *edge).collect::<Vec<_>>();
        if self.count < earlier.count || edges(self) != edges(earlier) {
            return self.clone();
        }
        let pairs = self.buckets.iter().zip(&earlier.buckets);
        Histogram {
            buckets: pairs.map(|((edge, now), (_, before))| (*edge, now - before)).collect(),
            sum: self.sum - earlier.sum,
            count: self.count - earlier.count,
        }
    }

    /// The mean of its values; None without any.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let mean = self.sum / self.count;
        (self.count > 0.0 && mean.is_finite()).then_some(mean)
    }
}
