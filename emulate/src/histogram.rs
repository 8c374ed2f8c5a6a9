//! Histograms: those of the metrics, with the engine's bucket edges, and one of lags, fine enough for percentiles.

use std::time::Duration;

/// A histogram as Prometheus knows it.
#[derive(Clone, Debug)]
pub struct Histogram {
    edges: Vec<f64>,
    /// By bucket; one more than edges.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    /// An empty one with these upper edges, rising.
    #[must_use]
    pub fn new(edges: &[f64]) -> Histogram {
        Histogram { edges: edges.to_vec(), counts: vec![0; edges.len() + 1], sum: 0.0 }
    }

    /// Counts a value.
    pub fn observe(&mut self, value: f64) {
        let bucket = self.edges.partition_point(|&edge| edge < value);
        self.counts[bucket] += 1;
        self.sum += value;
    }

    /// The upper edges with how many values are at or below each; infinity last.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let edges = self.edges.iter().copied().chain([f64::INFINITY]);
        edges.zip(self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        }))
    }

    /// The sum of the values.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// How many values were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Edges 1, 2, 5, 10, 20, ... up to `max`.
#[must_use]
pub fn one_two_five(max: u32) -> Vec<f64> {
    let decades = (0..10).map(|exponent| 10_u64.pow(exponent));
    let edges = decades.flat_map(|decade| [decade, 2 * decade, 5 * decade]);
    edges.take_while(|&edge| edge <= u64::from(max)).map(|edge| edge as f64).collect()
}

/// Counts of durations by microseconds, in buckets an eighth of their value wide at most.
#[derive(Clone, Debug)]
pub struct Lags {
    counts: Vec<u64>,
    max: Duration,
}

/// Buckets of a power of two.
const PARTS: u64 = 8;

impl Default for Lags {
    fn default() -> Self {
        Lags { counts: vec![0; (64 * PARTS) as usize], max: Duration::ZERO }
    }
}

impl Lags {
    /// Counts a lag.
    pub fn observe(&mut self, lag: Duration) {
        let micros = u64::try_from(lag.as_micros()).unwrap_or(u64::MAX);
        self.counts[bucket_of(micros)] += 1;
        self.max = self.max.max(lag);
    }

    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The largest.
    #[must_use]
    pub fn max(&self) -> Duration {
        self.max
    }

    /// Adds the counts of another.
    pub fn add(&mut self, other: &Lags) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, count)| *own += count);
        self.max = self.max.max(other.max);
    }

    /// The upper edge of the bucket in which the nearest rank of `share` lies, the largest lag at most. None without
    /// any.
    #[must_use]
    pub fn percentile(&self, share: f64) -> Option<Duration> {
        let rank = (share * self.count() as f64).ceil().max(1.0) as u64;
        let mut sum = 0;
        let bucket = self.counts.iter().position(|count| {
            sum += count;
            sum >= rank
        })?;
        Some(Duration::from_micros(upper_edge(bucket)).min(self.max))
    }
}

/// Buckets 0 to 7 hold one value each; from then on each power of two has [`PARTS`].
fn bucket_of(micros: u64) -> usize {
    if micros < PARTS {
        return micros as usize;
    }
    let shift = u64::from(micros.ilog2()) - 3;
    (PARTS * (shift + 1) + ((micros >> shift) - PARTS)) as usize
}

fn upper_edge(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < PARTS {
        return bucket;
    }
    let (shift, part) = (bucket / PARTS - 1, bucket % PARTS);
    ((PARTS + part + 1) << shift).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_at_an_edge_is_in_its_bucket() {
        let mut histogram = Histogram::new(&[1.0, 2.0]);
        [0.5, 1.0, 1.5, 2.0, 9.0].into_iter().for_each(|value| histogram.observe(value));
        let counts: Vec<u64> = histogram.cumulative().map(|(_, count)| count).collect();
        assert_eq!(counts, [2, 4, 5]);
        assert!((histogram.sum() - 14.0).abs() < 1e-9);
    }

    #[test]
    fn edges_end_at_the_engines_context() {
        assert_eq!(one_two_five(4096).len(), 11, "1 to 2000, as a real scrape has them");
        assert_eq!(one_two_five(5000).last(), Some(&5000.0));
    }

    #[test]
    fn percentiles_are_upper_edges_within_an_eighth() {
        let mut lags = Lags::default();
        assert_eq!(lags.percentile(0.5), None);
        (1..=1000).for_each(|micros| lags.observe(Duration::from_micros(micros)));
        for (share, exact) in [(0.001, 1.0), (0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found = lags.percentile(share).unwrap().as_secs_f64() * 1e6;
            assert!(found >= exact - 1e-6 && found <= exact * 1.125 + 1e-6, "{share}: {found} for {exact}");
        }
        lags.observe(Duration::MAX);
        assert_eq!(lags.max(), Duration::MAX);
    }

    #[test]
    fn every_bucket_ends_where_the_next_begins() {
        for bucket in 0..480 {
            assert_eq!(bucket_of(upper_edge(bucket)), bucket);
            assert_eq!(bucket_of(upper_edge(bucket) + 1), bucket + 1);
        }
    }
}
