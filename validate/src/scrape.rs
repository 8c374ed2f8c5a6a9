//! Every replica's `/metrics` at a fixed interval: rows of a timeline while it lasts, and what its counters grew by.

mod counters;
mod fetch;
mod history;
#[cfg(test)]
mod tests;

pub use counters::Counters;
pub use fetch::Fetch;
pub use history::History;

use crate::metrics::Reading;
use crate::target::Target;
use scaleproof_pack::time::Nanos;
use scaleproof_pack::timeline::TimelineRow;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Where an engine's metrics are.
const PATH: &str = "/metrics";

/// Asks a replica for its metrics once.
///
/// # Errors
/// If it cannot be reached, or its answer is no engine's metrics. The replica's address is in the text.
pub async fn read(fetch: &impl Fetch, target: &Target) -> Result<Reading, String> {
    let text = fetch.fetch(target, PATH, None).await?;
    Reading::parse(&text).map_err(|error| format!("{target}{PATH}: {error}"))
}

/// A scraper at work: a task for each replica, so that a slow one delays no other.
pub struct Scraper {
    tasks: Vec<JoinHandle<History>>,
    /// When to make the last round, once it is known.
    stop: watch::Sender<Option<Nanos>>,
    rows: mpsc::UnboundedReceiver<TimelineRow>,
    began: Instant,
}

/// What a scraper leaves.
pub struct Scraped {
    /// Of each replica, in the order of the targets.
    pub replicas: Vec<History>,
    /// The rows that were not taken while it worked, those of the last round among them.
    pub rows: Vec<TimelineRow>,
}

impl Scraper {
    /// Scrapes each of `targets` now and then `every` so long (at least a millisecond). Round k is due `k * every` after
    /// `began` and its rows bear that time, in the run's time. Who has not answered when the next round is due gives
    /// no row in this one. The counters of a row are what they grew by since the replica's first answer; a restarted
    /// replica counts on. Must be called in a tokio runtime.
    #[must_use]
    pub fn start(fetch: &impl Fetch, targets: &[Target], every: Duration, began: Instant) -> Scraper {
        let (send, rows) = mpsc::unbounded_channel();
        let (stop, stopped) = watch::channel(None);
        let every = every.max(Duration::from_millis(1));
        let tasks = (0_u32..).zip(targets).map(|(replica, target)| {
            let replica = Replica {
                fetch: fetch.clone(),
                history: History::new(target),
                number: replica,
                began,
                every,
                rows: send.clone(),
            };
            tokio::spawn(replica.watch(stopped.clone()))
        });
        Scraper { tasks: tasks.collect(), stop, rows, began }
    }

    /// The next row that was scraped and not yet taken; None while there is none. The rows of a round come as its
    /// replicas answer.
    pub fn try_row(&mut self) -> Option<TimelineRow> {
        self.rows.try_recv().ok()
    }

    /// Makes a last round, now, and ends: it says what the counters were when everything was over. Takes no longer
    /// than one interval, and one more where an answer is pending.
    pub async fn finish(mut self) -> Scraped {
        self.stop.send_replace(Some(nanos(self.began.elapsed())));
        let mut replicas = Vec::new();
        for task in self.tasks {
            replicas.extend(task.await);
        }
        let mut rows = Vec::new();
        while let Ok(row) = self.rows.try_recv() {
            rows.push(row);
        }
        Scraped { replicas, rows }
    }
}

/// One replica.
struct Replica<F> {
    fetch: F,
    history: History,
    number: u32,
    began: Instant,
    every: Duration,
    rows: mpsc::UnboundedSender<TimelineRow>,
}

impl<F: Fetch> Replica<F> {
    async fn watch(mut self, mut stop: watch::Receiver<Option<Nanos>>) -> History {
        let mut round = 0;
        loop {
            let since = Duration::from_nanos(nanos(self.every).0.saturating_mul(round));
            let due = self.began + since;
            let stopped = async { stop.wait_for(Option::is_some).await.ok().and_then(|at| *at) };
            tokio::select! {
                biased;
                last = stopped => {
                    if let Some(at) = last {
                        self.scrape(at, Instant::now() + self.every).await;
                    }
                    return self.history;
                }
                () = sleep_until(due) => {}
            }
            self.scrape(nanos(since), due + self.every).await;
            // After a late return, the round that is going on; what lies between is left out.
            let now_in = self.began.elapsed().as_nanos() / self.every.as_nanos();
            round = (round + 1).max(u64::try_from(now_in).unwrap_or(u64::MAX));
        }
    }

    /// One scrape, of the round at `at`, that may last until `limit`.
    async fn scrape(&mut self, at: Nanos, limit: Instant) {
        let answer = timeout_at(limit, read(&self.fetch, &self.history.target)).await;
        let answer = answer.unwrap_or_else(|_| Err(format!("{}: no answer in time", self.history.target)));
        let Some(reading) = self.history.note(at, answer) else { return };
        let total = self.history.total();
        // Fails only if the scraper was dropped: then nobody wants the row.
        let _ = self.rows.send(TimelineRow {
            at,
            replica: self.number,
            waiting: small(reading.waiting),
            running: small(reading.running),
            kv_blocks_used: small(reading.kv_blocks_used),
            kv_blocks_total: small(reading.kv_blocks_total),
            prefix_queries: total.prefix_queries,
            prefix_hits: total.prefix_hits,
            evictions: total.evictions,
            preemptions: total.preemptions,
            generation_tokens: total.generation_tokens,
            ttft_count: total.ttft_count,
            ttft_sum: Nanos::from_seconds(total.ttft_sum_s).unwrap_or_default(),
        });
    }
}

/// A duration in the run's unit.
fn nanos(duration: Duration) -> Nanos {
    Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// A gauge as a timeline holds it; what the engine does not tell is zero there.
fn small(value: Option<u64>) -> u32 {
    value.map_or(0, |value| u32::try_from(value).unwrap_or(u32::MAX))
}
