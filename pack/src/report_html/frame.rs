//! The plotting area of a chart: axes, lines, marks.

use super::axis::Axis;
use super::html::{escape, number};
use super::svg::{LEFT, PLOT_HEIGHT, RIGHT, Series, TOP, WIDTH};
use std::fmt::Write as _;

/// More points than this are drawn without markers.
pub(super) const MARKED_POINTS_MAX: usize = 40;

/// Room that a tag beside a marker takes.
const TAG_WIDTH: f64 = 24.0;
const TAG_HEIGHT: f64 = 12.0;

const STYLES: [(&str, &str); 5] =
    [("#0b3c5d", ""), ("#a63603", "7 4"), ("#1b7837", "2 3"), ("#542788", "10 3 2 3"), ("#444444", "4 2")];

/// Dashes of the limits of no series, apart from each other and from the series.
const LIMIT_DASHES: [&str; 2] = ["1 3", "14 4"];

/// Colour and dash of a series.
pub(super) fn style(index: usize) -> (&'static str, &'static str) {
    STYLES[index % STYLES.len()]
}

/// Dash of a limit of no series.
pub(super) fn limit_dash(index: usize) -> &'static str {
    LIMIT_DASHES[index % LIMIT_DASHES.len()]
}

/// The plotting area with its axes.
pub(super) struct Frame {
    pub x: Axis,
    pub y: Axis,
}

impl Frame {
    pub fn bottom(&self) -> f64 {
        TOP + PLOT_HEIGHT
    }

    fn px(&self, x: f64) -> f64 {
        LEFT + self.x.position(x) * (WIDTH - LEFT - RIGHT)
    }

    fn py(&self, y: f64) -> f64 {
        self.bottom() - self.y.position(y) * PLOT_HEIGHT
    }

    pub fn axes(&self, out: &mut String, x_label: &str, y_label: &str) {
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
                bottom + 18.0,
                number(tick)
            );
        }
        let log = if self.y.log { " (logarithmic)" } else { "" };
        let _ = writeln!(
            out,
            "<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"#111\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text><text x=\"2\" y=\"13\">{}{log}</text>",
            (LEFT + right) / 2.0,
            bottom + 36.0,
            escape(x_label),
            escape(y_label)
        );
    }

    /// A part of the horizontal axis that is not measured, greyed.
    pub fn span(&self, out: &mut String, from: f64, to: f64, name: &str) {
        let (left, right) = (self.px(from), self.px(to));
        let _ = writeln!(
            out,
            "<rect x=\"{left:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{PLOT_HEIGHT}\" fill=\"#e4e4e4\"/>\
             <path d=\"M{left:.1} {TOP}v{PLOT_HEIGHT}M{right:.1} {TOP}v{PLOT_HEIGHT}\" stroke=\"#777\"/>\
             <text transform=\"translate({:.1} {:.1}) rotate(-90)\" font-size=\"11\">{}</text>",
            right - left,
            // Upright inside a band that is wide enough, else beside it, where there is room.
            if right - left > 14.0 || right > WIDTH / 2.0 {
                right.min(WIDTH - RIGHT) - 3.0
            } else {
                right + 11.0
            },
            self.bottom() - 24.0,
            escape(name)
        );
    }

    /// A level line across: of a series, thin and in its style, or of none.
    pub fn limit(&self, out: &mut String, value: f64, of_series: Option<usize>, index: usize) {
        let (colour, dash, width) = match of_series {
            Some(series) => (style(series).0, style(series).1, 1.0),
            None => ("#111", limit_dash(index), 1.5),
        };
        let _ = writeln!(
            out,
            "<path d=\"M{LEFT} {:.1}H{}\" stroke=\"{colour}\" stroke-width=\"{width}\" stroke-dasharray=\"{dash}\"/>",
            self.py(value),
            WIDTH - RIGHT
        );
    }

    pub fn mark(&self, out: &mut String, x: f64, name: &str) {
        let x = self.px(x);
        // The name stands on the side with more room.
        let (anchor, shift) = if x > WIDTH / 2.0 { ("end", -5.0) } else { ("start", 5.0) };
        let _ = writeln!(
            out,
            "<path d=\"M{x:.1} {TOP}V{}\" stroke=\"#111\"/>\
             <text x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\" font-weight=\"bold\" \
             stroke=\"#fff\" stroke-width=\"4\" paint-order=\"stroke\">{}</text>",
            self.bottom(),
            x + shift,
            self.bottom() - 8.0,
            escape(name)
        );
    }

    pub fn series(&self, out: &mut String, series: &Series, index: usize) {
        let (colour, dash) = style(index);
        let points: Vec<_> = series.points.iter().filter(|p| p.x.is_finite() && p.y.is_finite()).collect();
        if !series.apart {
            let mut path = String::new();
            for (i, p) in points.iter().enumerate() {
                let _ =
                    write!(path, "{}{:.1} {:.1}", if i == 0 { 'M' } else { 'L' }, self.px(p.x), self.py(p.y));
            }
            let _ = writeln!(
                out,
                "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>"
            );
        }
        let mut tagged: Option<(f64, f64)> = None;
        for p in &points {
            let (x, y) = (self.px(p.x), self.py(p.y));
            if let Some((low, high)) = p.range {
                let _ = writeln!(
                    out,
                    "<path d=\"M{:.1} {:.1}h8m-4 0V{:.1}m-4 0h8\" fill=\"none\" stroke=\"{colour}\"/>",
                    x - 4.0,
                    self.py(low),
                    self.py(high)
                );
            }
            if points.len() <= MARKED_POINTS_MAX {
                marker(out, index, x, y);
            }
            // Of tags that would stand on one another, the first is written.
            let free =
                tagged.is_none_or(|(tx, ty)| (x - tx).abs() > TAG_WIDTH || (y - ty).abs() > TAG_HEIGHT);
            if let Some(tag) = p.tag.filter(|_| free) {
                tagged = Some((x, y));
                let _ = writeln!(
                    out,
                    "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"11\" text-anchor=\"end\">{tag}</text>",
                    x - 7.0,
                    y - 2.0
                );
            }
        }
    }
}

/// The marker of series `index` at a position.
pub(super) fn marker(out: &mut String, index: usize, x: f64, y: f64) {
    let colour = style(index).0;
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
