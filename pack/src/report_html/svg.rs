//! Line charts as inline SVG. Series differ by dash and marker as well as by colour, so that they can be told
//! apart in black and white.

use super::axis::Axis;
use super::frame::{Frame, MARKED_POINTS_MAX, limit_dash, marker, style};
use super::html::escape;
use std::fmt::Write as _;

/// Units of a picture's width: about the pixels of a narrow screen, so that its text is not shrunk there.
pub(super) const WIDTH: f64 = 400.0;
pub(super) const PLOT_HEIGHT: f64 = 210.0;
pub(super) const LEFT: f64 = 50.0;
pub(super) const RIGHT: f64 = 16.0;
pub(super) const TOP: f64 = 24.0;
/// Size of all text, unless it says otherwise.
pub(super) const FONT_SIZE: f64 = 13.0;
const LEGEND_ROW: f64 = 19.0;
/// Where a legend's text begins, and how many characters have room beside it.
const LEGEND_TEXT: f64 = 54.0;
const LEGEND_CHARACTERS: usize = 48;

/// A point of a series.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Point {
    pub x: f64,
    pub y: f64,
    /// Its range over repeats.
    pub range: Option<(f64, f64)>,
    /// Written beside it.
    pub tag: Option<u32>,
}

impl Point {
    pub fn at(x: f64, y: f64) -> Point {
        Point { x, y, ..Point::default() }
    }
}

/// A line with its name.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    pub name: String,
    pub points: Vec<Point>,
    /// Its points are not joined.
    pub apart: bool,
}

/// A horizontal line with its name.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    pub value: f64,
    pub name: String,
    /// The series that it holds for: drawn in its style, and named by it.
    pub of_series: Option<usize>,
}

impl Limit {
    /// One for all series.
    pub fn of_all(value: f64, name: impl Into<String>) -> Limit {
        Limit { value, name: name.into(), of_series: None }
    }
}

/// How an axis runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Scale {
    /// From 0 to the greatest value.
    #[default]
    FromZero,
    /// From the least value to the greatest.
    Tight,
    /// Logarithmic where the values are far apart.
    Ratio,
}

/// What an axis measures.
#[derive(Clone, Debug, Default)]
pub(super) struct Measure {
    /// With its unit.
    pub label: String,
    pub scale: Scale,
}

impl Measure {
    pub fn new(label: impl Into<String>, scale: Scale) -> Measure {
        Measure { label: label.into(), scale }
    }

    fn axis(&self, values: impl Iterator<Item = f64> + Clone) -> Axis {
        match self.scale {
            Scale::FromZero => Axis::linear(values, true),
            Scale::Tight => Axis::linear(values, false),
            Scale::Ratio => Axis::of_ratios(values),
        }
    }
}

/// A line chart.
#[derive(Clone, Debug, Default)]
pub(super) struct Chart {
    /// What a screen reader says.
    pub title: String,
    pub x: Measure,
    pub y: Measure,
    pub series: Vec<Series>,
    /// What the names of the series are values of; nothing where they speak for themselves.
    pub legend: String,
    pub limits: Vec<Limit>,
    /// Vertical line with its name.
    pub mark: Option<(f64, String)>,
    /// Parts of the horizontal axis that are not measured, each with its name.
    pub spans: Vec<(f64, f64, &'static str)>,
}

impl Chart {
    /// The `svg` element.
    pub fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|s| &s.points);
        let xs = points().map(|p| p.x).chain(self.mark.iter().map(|m| m.0));
        let ys = points()
            .flat_map(|p| [p.y, p.range.map_or(p.y, |r| r.0), p.range.map_or(p.y, |r| r.1)])
            .chain(self.limits.iter().map(|l| l.value));
        let frame = Frame { x: self.x.axis(xs), y: self.y.axis(ys) };
        let legend = self.legend_lines();
        let height = frame.bottom() + 46.0 + LEGEND_ROW * legend.len() as f64;
        let mut out = format!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\" font-family=\"sans-serif\" \
             font-size=\"{FONT_SIZE}\" fill=\"#111\">\n",
            escape(&self.title)
        );
        for (from, to, name) in &self.spans {
            frame.span(&mut out, *from, *to, name);
        }
        frame.axes(&mut out, &self.x.label, &self.y.label);
        for (i, limit) in self.limits.iter().enumerate() {
            frame.limit(&mut out, limit.value, limit.of_series, i);
        }
        for (i, series) in self.series.iter().enumerate() {
            frame.series(&mut out, series, i);
        }
        if let Some((x, name)) = &self.mark {
            frame.mark(&mut out, *x, name);
        }
        for (i, line) in legend.iter().enumerate() {
            line.draw(&mut out, frame.bottom() + 56.0 + LEGEND_ROW * i as f64);
        }
        out.push_str("</svg>");
        out
    }

    /// A line for each series and each limit that none of them names. A single series needs none: the caption names it.
    fn legend_lines(&self) -> Vec<LegendLine> {
        let series = self.series.iter().enumerate().map(|(i, series)| {
            let limit = self.limits.iter().find(|limit| limit.of_series == Some(i));
            let name = match limit {
                Some(limit) => format!("{} ({}: thin line)", series.name, limit.name),
                None => series.name.clone(),
            };
            let marked = series.points.len() <= MARKED_POINTS_MAX;
            LegendLine { text: name, sample: Sample::Series { index: i, marked, apart: series.apart } }
        });
        let limits = self.limits.iter().enumerate().filter(|(_, limit)| limit.of_series.is_none());
        let limits =
            limits.map(|(i, limit)| LegendLine { text: limit.name.clone(), sample: Sample::Limit(i) });
        let lines: Vec<LegendLine> = series.chain(limits).collect();
        if lines.len() == 1 && self.legend.is_empty() {
            return Vec::new();
        }
        let title =
            (!self.legend.is_empty()).then(|| LegendLine { text: self.legend.clone(), sample: Sample::None });
        title.into_iter().chain(lines).flat_map(LegendLine::wrapped).collect()
    }
}

/// What a legend's line shows before its text.
enum Sample {
    None,
    Series { index: usize, marked: bool, apart: bool },
    Limit(usize),
}

struct LegendLine {
    text: String,
    sample: Sample,
}

impl LegendLine {
    /// In as many lines as its text needs.
    fn wrapped(self) -> Vec<LegendLine> {
        let mut sample = Some(self.sample);
        let lines = wrap(&self.text, LEGEND_CHARACTERS).into_iter();
        lines.map(|text| LegendLine { text, sample: sample.take().unwrap_or(Sample::None) }).collect()
    }

    fn draw(&self, out: &mut String, y: f64) {
        let line = |colour: &str, width: f64, dash: &str| {
            format!(
                "<path d=\"M4 {y}h40\" stroke=\"{colour}\" stroke-width=\"{width}\" stroke-dasharray=\"{dash}\"/>"
            )
        };
        match self.sample {
            Sample::None => {}
            Sample::Series { index, marked, apart } => {
                let (colour, dash) = style(index);
                if !apart {
                    out.push_str(&line(colour, 2.0, dash));
                }
                if marked {
                    marker(out, index, 24.0, y);
                }
            }
            Sample::Limit(index) => out.push_str(&line("#111", 1.5, limit_dash(index))),
        }
        let _ = writeln!(out, "<text x=\"{LEGEND_TEXT}\" y=\"{}\">{}</text>", y + 5.0, escape(&self.text));
    }
}

/// `text` in lines of at most so many characters, broken between words, or inside of one that is longer.
pub(super) fn wrap(text: &str, characters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let letters: Vec<char> = word.chars().collect();
        for part in letters.chunks(characters.max(1)) {
            let part: String = part.iter().collect();
            match lines.last_mut() {
                Some(line) if line.chars().count() + 1 + part.chars().count() <= characters => {
                    line.push(' ');
                    line.push_str(&part);
                }
                _ => lines.push(part),
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(series: Vec<Series>) -> Chart {
        Chart {
            title: "a & b".into(),
            series,
            limits: vec![Limit::of_all(0.95, "gate <95 %>")],
            mark: Some((24.0, "capacity".into())),
            ..Chart::default()
        }
    }

    #[test]
    fn names_are_escaped_and_no_number_is_odd() {
        let odd =
            [f64::NAN, f64::INFINITY, 1e300, -5.0].map(|y| Point { range: Some((y, y)), ..Point::at(y, y) });
        let series = Series { name: "<script>".into(), points: odd.to_vec(), apart: false };
        for scale in [Scale::FromZero, Scale::Tight, Scale::Ratio] {
            let svg = Chart { y: Measure::new("y", scale), ..chart(vec![series.clone()]) }.svg();
            assert!(svg.contains("&lt;script&gt;") && svg.contains("gate &lt;95 %&gt;"));
            assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains("<script"), "{svg}");
        }
    }

    #[test]
    fn series_differ_by_more_than_colour() {
        let series =
            |name: &str| Series { name: name.into(), points: vec![Point::at(1.0, 1.0)], apart: false };
        let svg = chart(vec![series("a"), series("b")]).svg();
        assert!(svg.contains("stroke-dasharray=\"\"") && svg.contains("stroke-dasharray=\"7 4\""));
    }

    #[test]
    fn a_series_names_its_own_limit() {
        let series = Series { name: "chat".into(), points: vec![Point::at(1.0, 1.0)], apart: false };
        let limit = Limit { value: 500.0, name: "cutoff 500 ms".into(), of_series: Some(0) };
        let both = Chart { limits: vec![limit], legend: "class".into(), ..chart(vec![series]) };
        assert!(both.svg().contains("chat (cutoff 500 ms: thin line)"));
        assert_eq!(both.legend_lines().len(), 2);
    }

    #[test]
    fn long_names_are_wrapped_and_none_is_lost() {
        assert_eq!(wrap("engine.max_num_seqs · replicas", 20), ["engine.max_num_seqs", "· replicas"]);
        assert_eq!(wrap("abcdef", 4), ["abcd", "ef"]);
        assert_eq!(wrap("", 4), Vec::<String>::new());
    }
}
