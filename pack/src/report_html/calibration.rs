//! The page of a calibration: what the fit leaves, by kind of step.

use super::html::{escape, figure, notes, number, page, percent, verdicts};
use super::svg::{Chart, Limit, Measure, Point, Scale, Series};
use super::table::Table;

/// A measured time and what the fit makes of it.
#[derive(Clone, Debug, PartialEq)]
pub struct FittedTime {
    /// What kind of step.
    pub kind: &'static str,
    /// In a few words.
    pub label: String,
    /// Tokens that were computed, all together.
    pub tokens: f64,
    /// Measured, milliseconds.
    pub measured_ms: f64,
    /// Fitted, milliseconds.
    pub fitted_ms: f64,
    /// Whether it was measured to judge the fit only.
    pub held_out: bool,
}

impl FittedTime {
    fn relative_error(&self) -> f64 {
        self.fitted_ms / self.measured_ms - 1.0
    }
}

/// What the page of a calibration shows.
#[derive(Clone, Copy, Debug)]
pub struct CalibrationPage<'a> {
    /// Heading.
    pub title: &'a str,
    /// The result in a sentence.
    pub verdict: &'a str,
    /// What was found of the engine, and what the numbers rest on.
    pub remarks: &'a [String],
    /// Every time.
    pub times: &'a [FittedTime],
    /// The reference point: seconds of experiments, microseconds of a step.
    pub reference: &'a [(f64, f64)],
}

/// Rows of the table of residuals at most.
const ROWS_MAX: usize = 40;

/// The page of a calibration, as HTML.
#[must_use]
pub fn calibration_html(input: &CalibrationPage) -> String {
    let mut body = verdicts(&[escape(input.verdict)]);
    body.push_str("<h2>Pictures</h2>\n<div class=\"pictures\">\n");
    for held_out in [false, true] {
        body.push_str(&residuals(input.times, held_out));
    }
    body.push_str(&reference(input.reference));
    body.push_str("</div>\n<h2>The largest residuals</h2>\n");
    let mut times: Vec<&FittedTime> = input.times.iter().collect();
    times.sort_by(|a, b| b.relative_error().abs().total_cmp(&a.relative_error().abs()));
    times.truncate(ROWS_MAX);
    body.push_str(
        &Table::of(&times)
            .key("step", |time| time.label.clone())
            .column("measured ms", |time| number(time.measured_ms))
            .column("fitted ms", |time| number(time.fitted_ms))
            .column("error", |time| percent(time.relative_error()))
            .column("", |time| if time.held_out { "held out".to_owned() } else { String::new() })
            .html("The largest residuals"),
    );
    body.push_str(&notes("What was found", input.remarks));
    page(input.title, &body)
}

fn residuals(times: &[FittedTime], held_out: bool) -> String {
    let mut series: Vec<Series> = Vec::new();
    for time in times.iter().filter(|time| time.held_out == held_out && time.tokens > 0.0) {
        let point = Point::at(time.tokens, 100.0 * time.relative_error());
        match series.iter_mut().find(|series| series.name == time.kind) {
            Some(series) => series.points.push(point),
            None => series.push(Series { name: time.kind.to_owned(), points: vec![point], apart: true }),
        }
    }
    if series.is_empty() {
        return String::new();
    }
    let caption = if held_out { "Residuals of steps held out" } else { "Residuals of fitted steps" };
    let chart = Chart {
        title: caption.to_owned(),
        x: Measure::new("tokens computed", Scale::Ratio),
        y: Measure::new("fitted over measured, less 1, %", Scale::Tight),
        series,
        limits: vec![Limit::of_all(0.0, "no error")],
        ..Chart::default()
    };
    figure(caption, "A pattern, not a cloud, is what the form of the model misses.", &chart.svg(), "")
}

fn reference(points: &[(f64, f64)]) -> String {
    if points.len() < 2 {
        return String::new();
    }
    let points = points.iter().map(|(at_s, step_us)| Point::at(*at_s, step_us / 1e3)).collect();
    let chart = Chart {
        title: "The reference point over the sweep".to_owned(),
        x: Measure::new("seconds of experiments", Scale::FromZero),
        y: Measure::new("ms a step", Scale::Tight),
        series: vec![Series { name: "one stream".to_owned(), points, apart: false }],
        ..Chart::default()
    };
    figure(
        "The reference point over the sweep",
        "The same load again and again: what moves here is the machine.",
        &chart.svg(),
        "",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_both_pictures_and_escapes_what_it_is_given() {
        let time = |held_out| FittedTime {
            kind: "decode",
            label: "4 rows <at> 100".to_owned(),
            tokens: 4.0,
            measured_ms: 10.0,
            fitted_ms: 10.5,
            held_out,
        };
        let html = calibration_html(&CalibrationPage {
            title: "engine",
            verdict: "fits",
            remarks: &["a note".to_owned()],
            times: &[time(false), time(true)],
            reference: &[(0.0, 900.0), (10.0, 910.0)],
        });
        assert_eq!(html.matches("<svg").count(), 3);
        assert!(html.contains("4 rows &lt;at&gt; 100") && html.contains("5.0 %") && html.contains("a note"));
    }
}
