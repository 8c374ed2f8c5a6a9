//! Progress of long work: a bar with an ETA on a terminal, plain lines elsewhere, nothing in the first two seconds.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Shorter work shows nothing.
const QUIET: Duration = Duration::from_secs(2);
/// Plain lines come this far apart.
const LINE_EVERY: Duration = Duration::from_secs(5);

static STOP: AtomicBool = AtomicBool::new(false);

/// Makes Ctrl-C ask running work to stop; a second one ends the process.
pub fn catch_interrupts() {
    let handler = || {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(3);
        }
    };
    if ctrlc::set_handler(handler).is_err() {
        say("note: Ctrl-C cannot be caught here; it will end the command at once");
    }
}

/// Whether the user asked to stop.
pub fn interrupted() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// A line for the user, on standard error.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Progress over all points of a command, shared by its threads.
pub struct Progress {
    started: Instant,
    label: String,
    unit: &'static str,
    total: u64,
    done: AtomicU64,
    bar: Option<ProgressBar>,
    last_line: Mutex<Instant>,
    silent: bool,
}

impl Progress {
    /// Begins. `total` in attempts; a run may turn out longer.
    pub fn start(label: &str, total: u64) -> Progress {
        Progress::counting(label, total, "attempts")
    }

    /// The same in another unit, in the plural.
    pub fn counting(label: &str, total: u64, unit: &'static str) -> Progress {
        let started = Instant::now();
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
            let template = format!("{{msg}} [{{wide_bar}}] {{human_pos}}/{{human_len}} {unit}, {{eta}} left");
            bar.set_style(
                ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar.set_message(label.to_owned());
            bar
        });
        Progress {
            started,
            label: label.to_owned(),
            unit,
            total,
            done: 0.into(),
            bar,
            last_line: Mutex::new(started),
            silent: false,
        }
    }

    /// One that says nothing, for a part of what another one counts.
    pub fn silent() -> Progress {
        let mut progress = Progress::counting("", 0, "");
        (progress.silent, progress.bar) = (true, None);
        progress
    }

    /// Some of it is done.
    pub fn advance(&self, attempts: u64) {
        let done = self.done.fetch_add(attempts, Ordering::Relaxed) + attempts;
        let total = self.total.max(done);
        let elapsed = self.started.elapsed();
        if self.silent || elapsed < QUIET {
            return;
        }
        match &self.bar {
            Some(bar) => {
                if bar.is_hidden() {
                    bar.set_draw_target(ProgressDrawTarget::stderr());
                    bar.reset_eta();
                }
                bar.set_length(total);
                bar.set_position(done);
            }
            None => self.line(done, total, elapsed),
        }
    }

    fn line(&self, done: u64, total: u64, elapsed: Duration) {
        let Ok(mut last) = self.last_line.try_lock() else { return };
        if last.elapsed() < LINE_EVERY && *last != self.started {
            return;
        }
        *last = Instant::now();
        let left = elapsed.as_secs_f64() * (total - done) as f64 / done.max(1) as f64;
        say(&format!("{}: {done} of {total} {}, about {left:.0} s left", self.label, self.unit));
    }
}

/// The part of one run in a shared progress, from the totals that the run reports.
pub struct Share<'a> {
    progress: &'a Progress,
    shown: u64,
}

impl<'a> Share<'a> {
    /// Nothing of the run is done.
    pub fn of(progress: &'a Progress) -> Share<'a> {
        Share { progress, shown: 0 }
    }

    /// So many attempts of the run have ended by now.
    pub fn reached(&mut self, ended: u64) {
        self.progress.advance(ended.saturating_sub(self.shown));
        self.shown = ended;
    }

    /// The run is over, though it may have been ended before all of its planned attempts.
    pub fn finish(&mut self, planned: u64) {
        self.reached(planned.max(self.shown));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
