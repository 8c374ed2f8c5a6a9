//! Horizontal bars with intervals as inline SVG, in black on grey.

use super::axis::Axis;
use super::html::{escape, number};
use std::fmt::Write as _;

const WIDTH: f64 = 560.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 70.0;
const TOP: f64 = 8.0;
const ROW: f64 = 30.0;
const BAR: f64 = 16.0;

/// A bar with its interval.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub name: String,
    pub value: f64,
    pub range: Option<(f64, f64)>,
}

/// The `svg` element of bars from 0.
pub(super) fn bars(title: &str, label: &str, bars: &[Bar]) -> String {
    let values = bars.iter().flat_map(|bar| [bar.value, bar.range.map_or(bar.value, |range| range.1)]);
    let axis = Axis::linear(values, true);
    let position = |value: f64| if value.is_finite() { axis.position(value) } else { 0.0 };
    let x = |value: f64| LEFT + position(value) * (WIDTH - LEFT - RIGHT);
    let bottom = TOP + ROW * bars.len() as f64;
    let mut out = format!(
        "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\" font-family=\"sans-serif\" font-size=\"14\" \
         fill=\"#111\">\n",
        bottom + 46.0,
        escape(title)
    );
    for &tick in &axis.ticks {
        let at = x(tick);
        let _ = writeln!(
            out,
            "<path d=\"M{at:.1} {TOP}V{bottom}\" stroke=\"#ddd\"/>\
             <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            number(tick)
        );
    }
    for (i, bar) in bars.iter().enumerate() {
        let middle = TOP + ROW * (i as f64 + 0.5);
        let end = x(bar.value);
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{BAR}\" fill=\"#ccc\" stroke=\"#111\"/>",
            LEFT - 8.0,
            middle + 5.0,
            escape(&bar.name),
            middle - BAR / 2.0,
            end - LEFT
        );
        let mut right = end;
        if let Some((low, high)) = bar.range {
            right = right.max(x(high));
            let _ = writeln!(
                out,
                "<path d=\"M{:.1} {:.1}v10m0 -5H{:.1}m0 -5v10\" fill=\"none\" stroke=\"#111\" stroke-width=\"2\"/>",
                x(low),
                middle - 5.0,
                x(high)
            );
        }
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" font-weight=\"bold\">{}</text>",
            right + 6.0,
            middle + 5.0,
            number(bar.value)
        );
    }
    let _ = writeln!(
        out,
        "<path d=\"M{LEFT} {TOP}V{bottom}\" stroke=\"#111\"/>\
         <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n</svg>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        bottom + 38.0,
        escape(label)
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_escaped_and_no_number_is_odd() {
        let odd = [f64::NAN, f64::INFINITY, 0.0, 1e300].map(|value| Bar {
            name: "<b>".into(),
            value,
            range: Some((0.0, value)),
        });
        let svg = bars("a & b", "per <s>", &odd);
        assert!(svg.contains("&lt;b&gt;") && svg.contains("a &amp; b") && svg.contains("per &lt;s&gt;"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(bars("none", "x", &[]).ends_with("</svg>\n"));
    }
}
