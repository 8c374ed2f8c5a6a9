//! The state of the replicas over time, sampled at a fixed interval.

use crate::digits;
use crate::time::Nanos;
use std::io::{self, Write};

/// One replica at one moment. Counters are totals since the run began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimelineRow {
    /// When.
    pub at: Nanos,
    /// Which replica.
    pub replica: u32,
    /// Requests waiting in the engine.
    pub waiting: u32,
    /// Requests running.
    pub running: u32,
    /// KV blocks in use (cached but free ones are free).
    pub kv_blocks_used: u32,
    /// KV blocks in all.
    pub kv_blocks_total: u32,
    /// Prompt tokens looked up in the prefix cache.
    pub prefix_queries: u64,
    /// Of those, found.
    pub prefix_hits: u64,
    /// Cached blocks that were evicted.
    pub evictions: u64,
    /// Requests that lost their blocks.
    pub preemptions: u64,
    /// Output tokens that the engine generated.
    pub generation_tokens: u64,
    /// Requests whose first token left the server.
    pub ttft_count: u64,
    /// Their TTFTs added up, as the server measures them: without the way to and from the client.
    pub ttft_sum: Nanos,
}

/// The columns of timeline.csv.
const HEADER: &str = "at_s,replica,waiting,running,kv_blocks_used,kv_blocks_total,prefix_queries,prefix_hits,\
                      evictions,preemptions,generation_tokens,ttft_count,ttft_sum_ns";

/// Writes timeline.csv, a row a replica and sample.
pub struct TimelineCsv<W> {
    out: W,
    line: Vec<u8>,
}

impl<W: Write> TimelineCsv<W> {
    /// Writes the header. Give a buffered `out`.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(mut out: W) -> io::Result<Self> {
        writeln!(out, "{HEADER}")?;
        Ok(TimelineCsv { out, line: Vec::with_capacity(128) })
    }

    /// Writes a row.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn row(&mut self, row: &TimelineRow) -> io::Result<()> {
        self.line.clear();
        digits::seconds(&mut self.line, row.at);
        let counts =
            [row.replica, row.waiting, row.running, row.kv_blocks_used, row.kv_blocks_total].map(u64::from);
        let totals = [
            row.prefix_queries,
            row.prefix_hits,
            row.evictions,
            row.preemptions,
            row.generation_tokens,
            row.ttft_count,
            row.ttft_sum.0,
        ];
        for value in counts.into_iter().chain(totals) {
            self.line.push(b',');
            digits::integer(&mut self.line, value);
        }
        self.line.push(b'\n');
        self.out.write_all(&self.line)
    }

    /// Flushes, and hands the writer back.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Reads timeline.csv back.
///
/// # Errors
/// What is wrong with the first bad row, with its line.
pub fn read_timeline(csv: &[u8]) -> Result<Vec<TimelineRow>, String> {
    let mut reader = csv::Reader::from_reader(csv);
    reader.deserialize().map(|row| row.map_err(|error| error.to_string()).and_then(from_columns)).collect()
}

type Columns = (f64, [u32; 5], [u64; 7]);

fn from_columns((at_s, counts, totals): Columns) -> Result<TimelineRow, String> {
    let [replica, waiting, running, kv_blocks_used, kv_blocks_total] = counts;
    let [queries, hits, evictions, preemptions, generation_tokens, ttft_count, ttft_sum_ns] = totals;
    Ok(TimelineRow {
        at: Nanos::from_seconds(at_s).map_err(|error| error.to_string())?,
        replica,
        waiting,
        running,
        kv_blocks_used,
        kv_blocks_total,
        prefix_queries: queries,
        prefix_hits: hits,
        evictions,
        preemptions,
        generation_tokens,
        ttft_count,
        ttft_sum: Nanos(ttft_sum_ns),
    })
}

/// The whole fleet at one moment: sums over its replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FleetSample {
    /// When.
    pub at: Nanos,
    /// Requests waiting.
    pub waiting: u64,
    /// Requests running.
    pub running: u64,
    /// KV blocks in use.
    pub kv_blocks_used: u64,
    /// KV blocks in all.
    pub kv_blocks_total: u64,
}

impl FleetSample {
    /// Waiting and running.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.waiting + self.running
    }

    fn add(&mut self, other: &FleetSample) {
        self.waiting += other.waiting;
        self.running += other.running;
        self.kv_blocks_used += other.kv_blocks_used;
        self.kv_blocks_total += other.kv_blocks_total;
    }
}

/// The fleet over time. Rows of one sampling round bear the same time, whatever replica they are of; a replica
/// without a row (a dead one) counts nothing.
#[derive(Clone, Debug, Default)]
pub struct FleetSeries {
    samples: Vec<FleetSample>,
    disordered: bool,
}

impl FleetSeries {
    /// Adds a replica's row. Rows may come in any order; in order of time they take the least memory.
    pub fn push(&mut self, row: &TimelineRow) {
        let sample = FleetSample {
            at: row.at,
            waiting: u64::from(row.waiting),
            running: u64::from(row.running),
            kv_blocks_used: u64::from(row.kv_blocks_used),
            kv_blocks_total: u64::from(row.kv_blocks_total),
        };
        match self.samples.last_mut() {
            Some(last) if last.at == sample.at => last.add(&sample),
            last => {
                self.disordered |= last.is_some_and(|last| last.at > sample.at);
                self.samples.push(sample);
            }
        }
    }

    /// The samples in order of time, one a moment.
    #[must_use]
    pub fn into_samples(mut self) -> Vec<FleetSample> {
        if self.disordered {
            self.samples.sort_by_key(|s| s.at);
            self.samples.dedup_by(|later, kept| {
                let same = later.at == kept.at;
                if same {
                    kept.add(later);
                }
                same
            });
        }
        self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(at_s: u64, replica: u32, waiting: u32) -> TimelineRow {
        TimelineRow {
            at: Nanos(at_s * 1_000_000_000),
            replica,
            waiting,
            running: 2,
            kv_blocks_used: 30,
            kv_blocks_total: 40,
            prefix_queries: 50,
            ..TimelineRow::default()
        }
    }

    #[test]
    fn a_row_has_a_value_for_each_column() {
        let mut csv = TimelineCsv::new(Vec::new()).unwrap();
        csv.row(&row(3, 1, 7)).unwrap();
        let text = String::from_utf8(csv.finish().unwrap()).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1], "3.000000000,1,7,2,30,40,50,0,0,0,0,0,0");
        assert_eq!(lines[0].split(',').count(), lines[1].split(',').count());
    }

    #[test]
    fn the_fleet_is_the_sum_in_any_order() {
        let rows = [row(1, 0, 5), row(1, 1, 6), row(2, 0, 7), row(3, 0, 8), row(3, 1, 9)];
        let fleet = |order: [usize; 5]| {
            let mut series = FleetSeries::default();
            order.iter().for_each(|&i| series.push(&rows[i]));
            series.into_samples()
        };
        let samples = fleet([0, 1, 2, 3, 4]);
        assert_eq!(samples.iter().map(|s| s.waiting).collect::<Vec<_>>(), [11, 7, 17]);
        assert_eq!(samples[0].in_flight(), 15);
        assert_eq!(samples, fleet([4, 2, 0, 3, 1]));
    }

    #[test]
    fn a_timeline_reads_back_as_written() {
        let rows: Vec<TimelineRow> = (0..5)
            .map(|i| TimelineRow {
                at: Nanos(i * 1_234_567_891),
                kv_blocks_total: 9,
                prefix_queries: u64::MAX - i,
                ttft_sum: Nanos(u64::MAX - 7 * i),
                ..row(0, i as u32, 7)
            })
            .collect();
        let mut csv = TimelineCsv::new(Vec::new()).unwrap();
        rows.iter().for_each(|row| csv.row(row).unwrap());
        assert_eq!(read_timeline(&csv.finish().unwrap()), Ok(rows));
        assert!(read_timeline(b"at_s\nx\n").is_err());
    }
}
