//! How late the event loop is, and how much of its threads' time it takes.

use nix::sys::resource::{UsageWho, getrusage};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// A beat this often.
const EVERY: Duration = Duration::from_millis(20);
/// Beats that are kept: a day of them.
const BEATS_MAX: usize = 4_500_000;

/// Beats until it is finished.
pub(crate) struct Heartbeat {
    began: Instant,
    cpu_before: Option<Duration>,
    lags_ns: Arc<Mutex<Vec<u64>>>,
    task: JoinHandle<()>,
}

impl Heartbeat {
    /// Begins to beat on the runtime.
    pub(crate) fn start(runtime: &Handle) -> Heartbeat {
        let lags_ns = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lags_ns);
        let task = runtime.spawn(async move {
            let mut due = Instant::now() + EVERY;
            loop {
                tokio::time::sleep_until(due.into()).await;
                let now = Instant::now();
                let lag = now.saturating_duration_since(due);
                let mut lags = kept.lock().unwrap_or_else(PoisonError::into_inner);
                if lags.len() < BEATS_MAX {
                    lags.push(u64::try_from(lag.as_nanos()).unwrap_or(u64::MAX));
                }
                drop(lags);
                // From the beat that was due, but never into the past: a long pause is one late beat.
                due = (due + EVERY).max(now);
            }
        });
        Heartbeat { began: Instant::now(), cpu_before: cpu_time(), lags_ns, task }
    }

    /// The lags of all beats, in nanoseconds; and this process's CPU time over that of `threads` threads.
    pub(crate) fn finish(self, threads: usize) -> (Vec<u64>, Option<f64>) {
        self.task.abort();
        let available_s = self.began.elapsed().as_secs_f64() * threads.max(1) as f64;
        let used = cpu_time().zip(self.cpu_before).map(|(after, before)| after.saturating_sub(before));
        let lags = std::mem::take(&mut *self.lags_ns.lock().unwrap_or_else(PoisonError::into_inner));
        (lags, used.filter(|_| available_s > 0.0).map(|used| used.as_secs_f64() / available_s))
    }
}

/// CPU time of this process, in the kernel and outside.
fn cpu_time() -> Option<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let times = [usage.user_time(), usage.system_time()];
    let micros = times.iter().map(|time| time.tv_sec() * 1_000_000 + time.tv_usec()).sum::<i64>();
    u64::try_from(micros).ok().map(Duration::from_micros)
}
