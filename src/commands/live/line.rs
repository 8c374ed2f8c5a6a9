//! The line that says how a live run goes: on a terminal one that changes, elsewhere one every few seconds.

use crate::progress::say;
use crate::table::percent;
use indicatif::{ProgressBar, ProgressStyle};
use scaleproof_pack::analyze::Analyzer;
use scaleproof_pack::record::Record;
use scaleproof_pack::time::Nanos;
use scaleproof_validate::Status;
use std::io::IsTerminal;

/// Plain lines come this far apart.
const LINE_EVERY: Nanos = Nanos(5_000_000_000);

/// The line of one point.
pub struct Line {
    name: String,
    terminal: Option<ProgressBar>,
    shown_at: Nanos,
    /// The latest sending since the line was last shown.
    worst_lag: Nanos,
}

impl Line {
    /// Nothing shown yet.
    pub fn new(name: &str) -> Line {
        let terminal = std::io::stderr().is_terminal().then(|| {
            let line = ProgressBar::new_spinner();
            line.set_style(
                ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            line
        });
        Line { name: name.to_owned(), terminal, shown_at: Nanos::ZERO, worst_lag: Nanos::ZERO }
    }

    /// An attempt ended.
    pub fn record(&mut self, record: &Record) {
        self.worst_lag = self.worst_lag.max(record.lag());
    }

    /// Shows how far the run is.
    pub fn show(&mut self, status: &Status, analyzer: &Analyzer) {
        if self.terminal.is_none() && status.now < self.shown_at + LINE_EVERY {
            return;
        }
        let text = text(&self.name, status, analyzer, self.worst_lag);
        match &self.terminal {
            Some(line) => line.set_message(text),
            None => say(&text),
        }
        if status.now >= self.shown_at + LINE_EVERY {
            (self.shown_at, self.worst_lag) = (status.now, Nanos::ZERO);
        }
    }

    /// Takes the line away.
    pub fn end(&self) {
        if let Some(line) = &self.terminal {
            line.finish_and_clear();
        }
    }
}

fn text(name: &str, status: &Status, analyzer: &Analyzer, worst_lag: Nanos) -> String {
    let attainments: Vec<String> =
        analyzer.attainments().map(|(class, share)| format!("{class} {}", percent(share))).collect();
    format!(
        "{name}: {:.0} s, offered {} of {}, completed {}, in flight {}, failed {}, within SLO: {}; latest send {:.1} ms late",
        status.now.seconds(),
        status.sent,
        status.planned,
        status.ended,
        status.sent - status.ended,
        analyzer.outcomes().failed(),
        attainments.join(", "),
        worst_lag.millis()
    )
}
