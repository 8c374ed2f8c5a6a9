//! failure-test.md.

use super::{Beside, FailureReport, Repeats, Seen};
use crate::report::{GateValue, Origin};
use std::fmt::Write as _;

/// What a cell without a value holds.
const NONE: &str = "–";

impl FailureReport {
    /// The report as Markdown, with the spread over `repeats` if there are several.
    #[must_use]
    pub fn to_markdown(&self, repeats: Option<&Repeats>) -> String {
        self.with_prediction(repeats, None)
    }

    /// The same, with a prediction's repeats beside it.
    #[must_use]
    pub fn with_prediction(&self, repeats: Option<&Repeats>, prediction: Option<&Repeats>) -> String {
        let mut out = String::new();
        let verdict = if self.pass { "passed" } else { "FAILED" };
        let _ = writeln!(out, "# Failure test: {}\n\n**{verdict}.** {}\n", self.fault.kind, self.summary());
        out += &self.check_table();
        out += &self.time_table();
        out += &self.part_table();
        out += &self.count_table();
        out += &self.alarm_table();
        if let Some(prediction) = prediction {
            out += &prediction_table(prediction.runs, &prediction.beside(self));
        }
        if let Some(repeats) = repeats {
            out += &repeat_table(repeats);
        }
        out += &self.moment_table();
        out
    }

    fn summary(&self) -> String {
        let rate = self.run.offered_rps.map(|rps| format!(" at {rps} requests/s")).unwrap_or_default();
        let origin = origin_word(self.run.origin);
        let what = &self.fault.what;
        let failed: Vec<&str> =
            self.checks.iter().filter(|check| check.pass == Some(false)).map(|check| check.name).collect();
        let failed = match failed.as_slice() {
            [] => String::new(),
            failed => format!(" Not so: {}.", failed.join("; ")),
        };
        format!("{what}, {:.0} s into a {origin} run{rate}.{failed} {}", self.fault.at_s, self.load())
    }

    /// Whether those that were left carried the load.
    fn load(&self) -> String {
        let Some(during) = self.part("during") else { return String::new() };
        let required = during.report.gates.iter().find_map(|gate| match gate.required {
            GateValue::Share(Some(share)) if gate.name.contains("attainment") => Some(share),
            _ => None,
        });
        let attainment = during.report.attempted_attainment.unwrap_or(0.0);
        let inside = required.is_none_or(|required| attainment >= required);
        if inside {
            return "The fleet carried the load inside its cutoffs meanwhile.".to_owned();
        }
        let bounded =
            self.checks.iter().any(|check| check.name.contains("bounded") && check.pass == Some(true));
        let queue = if bounded { "stayed bounded" } else { "did NOT stay bounded" };
        let shed = match self.counts.rejected {
            0 => "nothing was shed by admission control".to_owned(),
            n => format!("admission control shed {n} requests"),
        };
        format!(
            "The fleet did not carry the load inside its cutoffs meanwhile ({:.1} % of the attempts): {shed}, and the \
             queue {queue}.",
            attainment * 100.0
        )
    }

    fn check_table(&self) -> String {
        let mut out = "## Verdict\n\n| asked | so? | seen |\n|---|---|---|\n".to_owned();
        for check in &self.checks {
            let pass = match check.pass {
                Some(true) => "yes",
                Some(false) => "**NO**",
                None => "not asked",
            };
            let _ = writeln!(out, "| {} | {pass} | {} |", check.name, check.evidence);
        }
        out + "\n"
    }

    fn time_table(&self) -> String {
        let mut out =
            "## Times\n\n| what | s of the run | s after the injection |\n|---|---|---|\n".to_owned();
        let at = self.fault.at_s;
        let mut row = |what: &str, time: Option<f64>| {
            let cells = time.map_or((NONE.to_owned(), NONE.to_owned()), |time| {
                (format!("{time:.2}"), format!("{:.2}", time - at))
            });
            let _ = writeln!(out, "| {what} | {} | {} |", cells.0, cells.1);
        };
        let time = |seen: &Option<Seen>| seen.as_ref().map(|seen| seen.at_s);
        row("injection", Some(at));
        if let Some(took_s) = self.fault.made_in_s {
            row("end of the command that made it", Some(at + took_s));
        }
        row("detection", time(&self.detected));
        row("removal from the router", time(&self.removed));
        row("first error", self.errors_s.map(|(first, _)| first));
        row("last error", self.errors_s.map(|(_, last)| last));
        row("taking work again", time(&self.readmitted));
        row("steady state", self.recovery_s.map(|recovery| recovery + at));
        out + "\n"
    }

    fn part_table(&self) -> String {
        let mut out =
            "## Before, during, after\n\n| part | from s | to s | class | attempts | ok | attainment | of \
                       attempts | P50 TTFT ms | P95 TTFT ms | P50 TPOT ms | P95 TPOT ms |\n\
                       |---|---|---|---|---|---|---|---|---|---|---|---|\n"
                .to_owned();
        for part in &self.parts {
            for (name, class) in &part.report.classes {
                let _ = writeln!(
                    out,
                    "| {} | {:.0} | {:.0} | {name} | {} | {} | {} | {} | {} | {} | {} | {} |",
                    part.name,
                    part.from_s,
                    part.to_s,
                    class.attempted_count,
                    class.successful_count,
                    percent(class.attainment),
                    percent(class.attempted_attainment),
                    number(class.latency.p50_ttft_ms),
                    number(class.latency.p95_ttft_ms),
                    number(class.p50_tpot_ms),
                    number(class.p95_tpot_ms),
                );
            }
        }
        out + "\n"
    }

    fn count_table(&self) -> String {
        let counts = &self.counts;
        let peak = |peak: Option<(u64, f64)>| match peak {
            Some((count, at)) => format!("{count} at {at:.0} s"),
            None => NONE.to_owned(),
        };
        format!(
            "## From the injection on\n\n| what | how many |\n|---|---|\n| requests retried (of those ok) | {} ({}) |\n\
             | requests rejected | {} |\n| requests lost | {} |\n| errors | {} |\n| timeouts | {} |\n| cancelled | {} |\n\
             | queue peak, requests waiting | {} |\n| in flight at most | {} |\n\n",
            counts.retried,
            counts.retried_ok,
            counts.rejected,
            counts.lost,
            counts.errors,
            counts.timeouts,
            counts.cancelled,
            peak(self.queue_peak),
            peak(Some(self.in_flight_peak))
        )
    }

    fn alarm_table(&self) -> String {
        if self.alarms.is_empty() {
            return "## Alerts\n\nNone fired.\n\n".to_owned();
        }
        let mut out =
            "## Alerts\n\n| alert | cause | replica | fired at s | s after the injection | cleared at s |\n\
                       |---|---|---|---|---|---|\n"
                .to_owned();
        for alarm in &self.alarms {
            let replica = alarm.replica.map_or("fleet".to_owned(), |replica| replica.to_string());
            let cleared = alarm.cleared_s.map_or(NONE.to_owned(), |at| format!("{at:.0}"));
            let _ = writeln!(
                out,
                "| {} | {} | {replica} | {:.0} | {:.0} | {cleared} |",
                alarm.name,
                alarm.cause,
                alarm.at_s,
                alarm.at_s - self.fault.at_s
            );
        }
        out + "\n"
    }

    fn moment_table(&self) -> String {
        let mut out =
            "## What happened\n\n| s of the run | s after the injection | replica | what |\n|---|---|---|---|\n"
                .to_owned();
        for seen in &self.moments {
            let replica = seen.replica.map_or("fleet".to_owned(), |replica| replica.to_string());
            let _ = writeln!(out, "| {:.2} | {:.2} | {replica} | {} |", seen.at_s, seen.after_s, seen.what);
        }
        out
    }
}

fn prediction_table(runs: usize, rows: &[Beside]) -> String {
    let mut out = format!(
        "## Prediction\n\nThe same fault in {runs} simulated runs. A time is inside up to 0.1 s, or a tenth of the mean, and what the \
         injecting command took (at most 1 s), beyond the range.\n\n\
         | what | predicted, mean | one more run, 95 % | seen | inside? |\n|---|---|---|---|---|\n"
    );
    for row in rows {
        let inside = row.inside.map_or(NONE, |inside| if inside { "yes" } else { "NO" });
        let range = range(row.one_more_95);
        let (predicted, seen) = (number(row.predicted), number(row.seen));
        let _ = writeln!(out, "| {} | {predicted} | {range} | {seen} | {inside} |", row.name);
    }
    out + "\n"
}

fn range(range: Option<(f64, f64)>) -> String {
    range.map_or(NONE.to_owned(), |(low, high)| format!("{low:.2} to {high:.2}"))
}

fn repeat_table(repeats: &Repeats) -> String {
    let mut out = format!(
        "## Over {} seeds\n\n{} of them passed. The tables above are of the first.\n\n\
         | what | mean | 95 % of the mean | one more run, 95 % | values |\n|---|---|---|---|---|\n",
        repeats.runs, repeats.passed
    );
    for spread in &repeats.spreads {
        let values: Vec<String> = spread.values.iter().map(|value| number(Some(*value))).collect();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} |",
            spread.name,
            number(spread.mean),
            range(spread.mean_ci95),
            range(spread.one_more_95),
            values.join(", ")
        );
    }
    out + "\n"
}

fn origin_word(origin: Origin) -> &'static str {
    match origin {
        Origin::Simulated => "simulated",
        Origin::Live => "live",
        Origin::File | Origin::Imported => "recorded",
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or(NONE.to_owned(), |share| format!("{:.1} %", share * 100.0))
}

fn number(value: Option<f64>) -> String {
    value.map_or(NONE.to_owned(), |value| {
        let text = format!("{value:.2}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    })
}
