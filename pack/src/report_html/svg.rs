//! Line charts as inline SVG. Series differ by dash and marker as well as by colour, so that they can be told
//! apart in black and white.

use super::axis::Axis;
use super::html::{escape, number};
use std::fmt::Write as _;

const WIDTH: f64 = 480.0;
const PLOT_HEIGHT: f64 = 230.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 24.0;
const LEGEND_ROW: f64 = 20.0;
/// More points than this are drawn without markers.
const MARKED_POINTS_MAX: usize = 40;

const STYLES: [(&str, &str); 5] =
    [("#0b3c5d", ""), ("#a63603", "7 4"), ("#1b7837", "2 3"), ("#542788", "10 3 2 3"), ("#444444", "4 2")];

/// Dashes of the limits, apart from each other and from the series.
const LIMIT_DASHES: [&str; 2] = ["1 3", "14 4"];

/// A point of a series with its range over repeats.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub x: f64,
    pub y: f64,
    pub range: Option<(f64, f64)>,
}

/// A line with its name.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub name: String,
    pub points: Vec<Point>,
}

/// A line chart.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    /// What a screen reader says.
    pub title: String,
    pub x_label: &'static str,
    pub y_label: &'static str,
    pub series: Vec<Series>,
    /// Horizontal line with its name.
    pub limits: Vec<(f64, String)>,
    /// Vertical line with its name.
    pub mark: Option<(f64, String)>,
    pub x_from_zero: bool,
    pub y_from_zero: bool,
    /// The vertical axis may be logarithmic.
    pub y_ratio: bool,
}

impl Chart {
    /// The `svg` element.
    pub fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|s| &s.points);
        let xs = points().map(|p| p.x).chain(self.mark.iter().map(|m| m.0));
        let ys = points()
            .flat_map(|p| [p.y, p.range.map_or(p.y, |r| r.0), p.range.map_or(p.y, |r| r.1)])
            .chain(self.limits.iter().map(|l| l.0));
        let y_axis = if self.y_ratio { Axis::of_ratios(ys) } else { Axis::linear(ys, self.y_from_zero) };
        let frame = Frame { x: Axis::linear(xs, self.x_from_zero), y: y_axis };
        // A single line needs no legend: the caption names it.
        let rows = self.series.len() + self.limits.len();
        let legend_rows = if rows > 1 { rows } else { 0 };
        let height = frame.bottom() + 50.0 + LEGEND_ROW * legend_rows as f64;
        let mut out = format!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\" font-family=\"sans-serif\" \
             font-size=\"14\" fill=\"#111\">\n",
            escape(&self.title)
        );
        frame.axes(&mut out, self.x_label, self.y_label);
        for (i, (value, _)) in self.limits.iter().enumerate() {
            frame.limit(&mut out, *value, i);
        }
        if let Some((x, name)) = &self.mark {
            frame.mark(&mut out, *x, name);
        }
        for (i, series) in self.series.iter().enumerate() {
            frame.series(&mut out, series, i);
        }
        if legend_rows > 0 {
            self.legend(&mut out, frame.bottom() + 58.0);
        }
        out.push_str("</svg>");
        out
    }

    fn legend(&self, out: &mut String, mut y: f64) {
        for (i, series) in self.series.iter().enumerate() {
            let (colour, dash) = STYLES[i % STYLES.len()];
            let _ = write!(
                out,
                "<path d=\"M{LEFT} {y}h40\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>"
            );
            if series.points.len() <= MARKED_POINTS_MAX {
                marker(out, i, LEFT + 20.0, y);
            }
            let _ = writeln!(
                out,
                "<text x=\"{}\" y=\"{}\">{}</text>",
                LEFT + 50.0,
                y + 5.0,
                escape(&series.name)
            );
            y += LEGEND_ROW;
        }
        for (i, (_, name)) in self.limits.iter().enumerate() {
            let dash = LIMIT_DASHES[i % LIMIT_DASHES.len()];
            let _ = writeln!(
                out,
                "<path d=\"M{LEFT} {y}h40\" stroke=\"#111\" stroke-width=\"1.5\" stroke-dasharray=\"{dash}\"/>\
                 <text x=\"{}\" y=\"{}\">{}</text>",
                LEFT + 50.0,
                y + 5.0,
                escape(name)
            );
            y += LEGEND_ROW;
        }
    }
}

/// The plotting area with its axes.
struct Frame {
    x: Axis,
    y: Axis,
}

impl Frame {
    fn bottom(&self) -> f64 {
        TOP + PLOT_HEIGHT
    }

    fn px(&self, x: f64) -> f64 {
        LEFT + self.x.position(x) * (WIDTH - LEFT - RIGHT)
    }

    fn py(&self, y: f64) -> f64 {
        self.bottom() - self.y.position(y) * PLOT_HEIGHT
    }

    fn axes(&self, out: &mut String, x_label: &str, y_label: &str) {
        let (bottom, right) = (self.bottom(), WIDTH - RIGHT);
        for &tick in &self.y.ticks {
            let y = self.py(tick);
            let _ = writeln!(
                out,
                "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#ddd\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                y + 5.0,
                number(tick)
            );
        }
        for &tick in &self.x.ticks {
            let x = self.px(tick);
            let _ = writeln!(
                out,
                "<path d=\"M{x:.1} {bottom}v5\" stroke=\"#111\"/>\
                 <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 19.0,
                number(tick)
            );
        }
        let _ = writeln!(
            out,
            "<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"#111\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text><text x=\"2\" y=\"13\">{}</text>",
            (LEFT + right) / 2.0,
            bottom + 38.0,
            escape(x_label),
            escape(y_label)
        );
    }

    fn limit(&self, out: &mut String, value: f64, index: usize) {
        let (y, dash) = (self.py(value), LIMIT_DASHES[index % LIMIT_DASHES.len()]);
        let _ = writeln!(
            out,
            "<path d=\"M{LEFT} {y:.1}H{}\" stroke=\"#111\" stroke-width=\"1.5\" stroke-dasharray=\"{dash}\"/>",
            WIDTH - RIGHT
        );
    }

    fn mark(&self, out: &mut String, x: f64, name: &str) {
        let x = self.px(x);
        // The name stands on the side with more room.
        let (anchor, shift) = if x > WIDTH / 2.0 { ("end", -5.0) } else { ("start", 5.0) };
        let _ = writeln!(
            out,
            "<path d=\"M{x:.1} {TOP}V{}\" stroke=\"#111\"/>\
             <text x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\" font-weight=\"bold\">{}</text>",
            self.bottom(),
            x + shift,
            self.bottom() - 8.0,
            escape(name)
        );
    }

    fn series(&self, out: &mut String, series: &Series, index: usize) {
        let (colour, dash) = STYLES[index % STYLES.len()];
        let points: Vec<_> = series.points.iter().filter(|p| p.x.is_finite() && p.y.is_finite()).collect();
        let mut path = String::new();
        for (i, p) in points.iter().enumerate() {
            let _ = write!(path, "{}{:.1} {:.1}", if i == 0 { 'M' } else { 'L' }, self.px(p.x), self.py(p.y));
        }
        let _ = writeln!(
            out,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>"
        );
        for p in &points {
            if let Some((low, high)) = p.range {
                let x = self.px(p.x);
                let _ = writeln!(
                    out,
                    "<path d=\"M{:.1} {:.1}h8m-4 0V{:.1}m-4 0h8\" fill=\"none\" stroke=\"{colour}\"/>",
                    x - 4.0,
                    self.py(low),
                    self.py(high)
                );
            }
            if points.len() <= MARKED_POINTS_MAX {
                marker(out, index, self.px(p.x), self.py(p.y));
            }
        }
    }
}

/// The marker of series `index` at a position.
fn marker(out: &mut String, index: usize, x: f64, y: f64) {
    let colour = STYLES[index % STYLES.len()].0;
    let shape = match index % STYLES.len() {
        0 => format!("M{:.1} {y:.1}a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z", x - 4.5),
        1 => format!("M{:.1} {:.1}h8v8h-8z", x - 4.0, y - 4.0),
        2 => format!("M{x:.1} {:.1}l5 9h-10z", y - 5.5),
        3 => format!("M{x:.1} {:.1}l5.5 5.5l-5.5 5.5l-5.5 -5.5z", y - 5.5),
        _ => format!("M{:.1} {:.1}l8 8m0 -8l-8 8", x - 4.0, y - 4.0),
    };
    // Every second shape is hollow.
    let fill = if index % 2 == 1 { "#fff" } else { colour };
    let _ = writeln!(out, "<path d=\"{shape}\" fill=\"{fill}\" stroke=\"{colour}\" stroke-width=\"1.5\"/>");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(series: Vec<Series>) -> Chart {
        Chart {
            title: "a & b".into(),
            x_label: "x",
            y_label: "y",
            series,
            limits: vec![(0.95, "gate <95 %>".into())],
            mark: Some((24.0, "capacity".into())),
            x_from_zero: false,
            y_from_zero: true,
            y_ratio: false,
        }
    }

    #[test]
    fn names_are_escaped_and_no_number_is_odd() {
        let odd = [f64::NAN, f64::INFINITY, 1e300, -5.0].map(|y| Point { x: y, y, range: Some((y, y)) });
        let svg = chart(vec![Series { name: "<script>".into(), points: odd.to_vec() }]).svg();
        assert!(
            svg.contains("&lt;script&gt;") && svg.contains("gate &lt;95 %&gt;") && !svg.contains("<script")
        );
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn series_differ_by_more_than_colour() {
        let points = vec![Point { x: 1.0, y: 1.0, range: None }];
        let series = |name: &str| Series { name: name.into(), points: points.clone() };
        let svg = chart(vec![series("a"), series("b")]).svg();
        assert!(svg.contains("stroke-dasharray=\"\"") && svg.contains("stroke-dasharray=\"7 4\""));
    }
}
