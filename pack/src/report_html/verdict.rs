//! A prediction beside what was measured.

use super::html::{escape, figure, notes, number, page, percent, verdicts};
use super::svg::{Chart, Limit, Measure, Point, Scale, Series};
use super::table::{NONE, Table, pairs};
use crate::compare::{Level, Metric, Quantity};
use crate::verdict::{Compared, FleetCapacity, KEYS, RULES, Shape, Verdict, shown_difference};

/// What of a verdict is shown.
#[derive(Clone, Copy, Debug)]
pub struct VerdictPage<'a> {
    /// Heading.
    pub title: &'a str,
    /// The verdict with all that it rests on.
    pub verdict: &'a Verdict,
    /// When the prediction was written down, in UTC.
    pub predicted_at: &'a str,
    /// SHA-256 of the prediction's file.
    pub prediction_sha256: &'a str,
    /// What was measured.
    pub engine: &'a str,
    /// What the profile is worth, in words.
    pub profile: &'a str,
    /// The attainment that the gate asks for.
    pub required_attainment: f64,
}

/// The page of a verdict.
#[must_use]
pub fn verdict_html(input: &VerdictPage<'_>) -> String {
    let verdict = input.verdict;
    let answer = format!("{}: {}.", verdict.outcome.word().to_uppercase(), verdict.reasons.join("; "));
    let mut answers = vec![escape(&answer)];
    answers.extend(
        verdict
            .causes
            .iter()
            .map(|cause| escape(&format!("Cause: {}. {}.", cause.place.word(), cause.evidence))),
    );
    answers.extend(verdict.more.as_ref().map(|more| escape(&more.sentence(verdict.repeats))));
    let mut body = verdicts(&answers);
    body += &format!(
        "<p class=\"basis\">Predicted {} with profile {}, before any measurement (SHA-256 of prediction.json {}). \
         Measured: {}. {} repeats of each point.</p>\n",
        escape(input.predicted_at),
        escape(input.profile),
        escape(input.prediction_sha256.get(..16).unwrap_or(input.prediction_sha256)),
        escape(input.engine),
        verdict.repeats
    );
    body +=
        &format!("<h2>Capacity</h2>\n<p>{}</p>\n{}", escape(&verdict.scale_out.statement), fleets(verdict));
    body += "<h2>Predicted and measured</h2>\n<p>Bars are 95 % intervals; those of the prediction cover seeds and the profile's own uncertainty.</p>\n<div class=\"pictures\">\n";
    body += &curves(input);
    body += "</div>\n<h2>Distributions</h2>\n<p>On the dotted diagonal both are the same.</p>\n<div class=\"pictures\">\n";
    body += &quantile_plots(&verdict.shapes);
    body += "</div>\n<h2>Every metric that was judged</h2>\n";
    body += &comparisons(&verdict.compared);
    body += &notes("Before you believe the numbers", &verdict.warnings);
    body += &rule(verdict);
    page(input.title, &body)
}

fn fleets(verdict: &Verdict) -> String {
    let rate = |rps: Option<f64>| number(rps);
    let passing = |fleet: &FleetCapacity| {
        let of = |rate: &crate::verdict::RateResult| {
            format!(
                "{}: {} predicted, {} measured of {}",
                number(rate.offered_rps),
                rate.predicted_passing,
                rate.measured_passing,
                rate.repeats
            )
        };
        fleet.rates.iter().map(of).collect::<Vec<_>>().join("; ")
    };
    Table::of(&verdict.scale_out.fleets)
        .key("replicas", |f| f.replicas.to_string())
        .key("capacity predicted, requests/s", |f| rate(f.predicted_rps))
        .column("over draws of the profile", |f| {
            f.predicted_range_rps
                .map_or(NONE.to_owned(), |(low, high)| format!("{} to {}", number(low), number(high)))
        })
        .key("measured", |f| rate(f.measured_rps))
        .key("standing", |f| f.standing.words().to_owned())
        .key("repeats that pass, by rate", passing)
        .html("Capacity of each fleet")
}

/// The points of one size of the fleet and of one class, rising by rate.
fn of<'a>(compared: &'a [Compared], replicas: u32, class: Option<&str>, metric: Metric) -> Vec<&'a Compared> {
    let same = |c: &&Compared| c.replicas == replicas && c.class.as_deref() == class && c.metric == metric;
    compared.iter().filter(same).collect()
}

fn curves(input: &VerdictPage<'_>) -> String {
    let compared = &input.verdict.compared;
    let mut classes: Vec<&str> = compared.iter().filter_map(|c| c.class.as_deref()).collect();
    classes.sort_unstable();
    classes.dedup();
    let mut replicas: Vec<u32> = compared.iter().map(|c| c.replicas).collect();
    replicas.sort_unstable();
    replicas.dedup();
    let mut out = String::new();
    for &size in &replicas {
        let fleet = if replicas.len() > 1 { format!(", {size} replicas") } else { String::new() };
        out += &curve(
            &format!("Requests/s served{fleet}"),
            "requests/s",
            &of(compared, size, None, Metric::Throughput),
            None,
        );
        for &class in &classes {
            let name = |what: &str| format!("{what}, {class}{fleet}");
            for (what, quantity, level) in [
                ("TTFT p50", Quantity::Ttft, Level::P50),
                ("TTFT p95", Quantity::Ttft, Level::P95),
                ("TPOT p50", Quantity::Tpot, Level::P50),
                ("TPOT p95", Quantity::Tpot, Level::P95),
            ] {
                let rows = of(compared, size, Some(class), Metric::Percentile(quantity, level));
                out += &curve(&name(what), "ms", &rows, None);
            }
            let rows = of(compared, size, Some(class), Metric::Attainment);
            out += &curve(&name("Attainment"), "share", &rows, Some(input.required_attainment));
        }
    }
    out
}

fn curve(caption: &str, unit: &str, rows: &[&Compared], gate: Option<f64>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let line = |name: &str, value: fn(&Compared) -> f64, range: fn(&Compared) -> Option<(f64, f64)>| Series {
        name: name.to_owned(),
        points: rows
            .iter()
            .map(|c| Point { range: range(c), ..Point::at(c.offered_rps, value(c)) })
            .collect(),
        apart: false,
    };
    let chart = Chart {
        title: caption.to_owned(),
        x: Measure::new("offered, requests/s", Scale::FromZero),
        y: Measure::new(unit, if gate.is_some() { Scale::Tight } else { Scale::FromZero }),
        series: vec![
            line("predicted", |c| c.predicted, |c| c.predicted_ci95),
            line("measured", |c| c.measured, |c| c.measured_ci95),
        ],
        limits: gate.map(|gate| Limit::of_all(gate, "gate")).into_iter().collect(),
        ..Chart::default()
    };
    let table = Table::of(rows)
        .key("offered, requests/s", |c| number(c.offered_rps))
        .key("predicted", |c| number(c.predicted))
        .key("measured", |c| number(c.measured))
        .key("difference", |c| c.difference_text())
        .html(caption);
    figure(caption, "", &chart.svg(), &table)
}

fn quantile_plots(shapes: &[Shape]) -> String {
    let mut out = String::new();
    for shape in shapes.iter().filter(|shape| shape.quantity != Quantity::E2e && !shape.quantiles.is_empty())
    {
        let caption = format!(
            "{} of {} at {} requests/s, {} replicas",
            shape.quantity.word().to_uppercase(),
            shape.class,
            number(shape.offered_rps),
            shape.replicas
        );
        let points = shape.quantiles.iter().map(|&(_, predicted, measured)| Point::at(predicted, measured));
        let ends = shape.quantiles.iter().flat_map(|&(_, a, b)| [a, b]);
        let (low, high) = ends.fold((f64::INFINITY, 0.0f64), |(low, high), v| (low.min(v), high.max(v)));
        let chart = Chart {
            title: caption.clone(),
            x: Measure::new("predicted, ms", Scale::Tight),
            y: Measure::new("measured, ms", Scale::Tight),
            series: vec![
                Series { name: "quantiles".into(), points: points.collect(), apart: true },
                Series {
                    name: "equal".into(),
                    points: vec![Point::at(low, low), Point::at(high, high)],
                    apart: false,
                },
            ],
            ..Chart::default()
        };
        let distance = shape.kolmogorov_smirnov.map_or(NONE.to_owned(), |ks| format!("{ks:.3}"));
        let reading = format!("Kolmogorov-Smirnov distance {distance}.");
        let table = Table::of(&shape.quantiles)
            .key("quantile", |q| format!("{} %", q.0))
            .key("predicted, ms", |q| number(q.1))
            .key("measured, ms", |q| number(q.2))
            .html(&caption);
        out += &figure(&caption, &reading, &chart.svg(), &table);
    }
    out
}

fn comparisons(compared: &[Compared]) -> String {
    let value = |c: &Compared, value: f64| if c.metric.is_share() { percent(value) } else { number(value) };
    let interval = |c: &Compared, ends: Option<(f64, f64)>| {
        ends.map_or(NONE.to_owned(), |(low, high)| format!("{} to {}", value(c, low), value(c, high)))
    };
    Table::of(compared)
        .key("metric", Compared::name)
        .column("replicas", |c| c.replicas.to_string())
        .key("predicted", |c| value(c, c.predicted))
        .column("its 95 % interval", |c| interval(c, c.predicted_ci95))
        .key("measured", |c| value(c, c.measured))
        .column("its 95 % interval", |c| interval(c, c.measured_ci95))
        .key("difference", |c| c.difference_text())
        .column("tolerated", |c| shown_difference(c.tolerance, c.metric).trim_start_matches('+').to_owned())
        .column("p inside", |c| format!("{:.4}", c.p_inside))
        .column("p outside, adjusted", |c| format!("{:.4}", c.p_outside))
        .key("finding", |c| c.finding.word().to_owned())
        .html("Comparisons")
}

fn rule(verdict: &Verdict) -> String {
    let rows: Vec<(String, String)> = KEYS
        .iter()
        .map(|(name, _, meaning)| (format!("{name}: {meaning}"), format!("{}", verdict.tolerance.get(name))))
        .collect();
    let causes: Vec<(String, String)> =
        RULES.iter().map(|(place, shows)| (place.word().to_owned(), (*shows).to_owned())).collect();
    format!(
        "<h2>The rule</h2>\n<p>Confirmed: every metric is shown inside its tolerance. Refuted: some metric is shown outside, and by \
         more than the profile's own uncertainty makes it, with p-values adjusted for all of them. Otherwise inconclusive.</p>\n{}<h2>How causes are found</h2>\n{}",
        pairs("The rule", ["tolerance", "value"], &rows),
        pairs("Causes", ["part", "what shows it"], &causes)
    )
}
