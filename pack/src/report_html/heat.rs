//! A grid of cells as inline SVG. Grey and hatching say it all: no colour is needed.

use super::html::escape;
use std::fmt::Write as _;

const WIDTH: f64 = 480.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 40.0;
const CELL_HEIGHT: f64 = 20.0;
/// Row labels beyond this are cut; the table below has them whole.
const LABEL_CHARACTERS: usize = 24;
const LABEL_CHARACTER_WIDTH: f64 = 7.0;
/// Columns narrower than this are labelled now and then.
const COLUMN_LABEL_WIDTH: f64 = 34.0;
/// Cells narrower than this have no text.
const TEXT_WIDTH: f64 = 44.0;

/// How a cell is filled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fill {
    /// A grey, from 0 (white) to 1.
    Grey(f64),
    /// Dark with stripes.
    Hatched,
    /// Nothing known.
    Empty,
}

/// A cell.
#[derive(Clone, Debug)]
pub(super) struct HeatCell {
    pub fill: Fill,
    /// Marked by a dot.
    pub dot: bool,
    /// Written into it where there is room.
    pub text: String,
}

/// A grid.
#[derive(Clone, Debug)]
pub(super) struct HeatMap {
    /// What a screen reader says.
    pub title: String,
    pub column_name: String,
    pub columns: Vec<String>,
    /// Label and cells of each row.
    pub rows: Vec<(String, Vec<HeatCell>)>,
    /// Fill, dot and meaning.
    pub legend: Vec<(Fill, bool, &'static str)>,
}

impl HeatMap {
    /// The `svg` element.
    pub fn svg(&self) -> String {
        let longest = self.rows.iter().map(|(label, _)| short(label).chars().count()).max().unwrap_or(0);
        let left = longest as f64 * LABEL_CHARACTER_WIDTH + 10.0;
        let width = (WIDTH - left - RIGHT) / self.columns.len().max(1) as f64;
        let bottom = TOP + CELL_HEIGHT * self.rows.len() as f64;
        let height = bottom + 14.0 + CELL_HEIGHT * 1.2 * self.legend.len() as f64;
        let mut out = format!(
            "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\" font-family=\"sans-serif\" \
             font-size=\"12\" fill=\"#111\">\n<defs><pattern id=\"stripes\" width=\"6\" height=\"6\" \
             patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" \
             fill=\"#666\"/><path d=\"M0 0v6\" stroke=\"#222\" stroke-width=\"4\"/></pattern></defs>\n",
            escape(&self.title)
        );
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"13\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            escape(&self.column_name)
        );
        let every = (COLUMN_LABEL_WIDTH / width).ceil().max(1.0) as usize;
        for (i, label) in self.columns.iter().enumerate().step_by(every) {
            let x = left + width * (i as f64 + 0.5);
            let _ = writeln!(
                out,
                "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                TOP - 6.0,
                escape(label)
            );
        }
        for (i, (label, cells)) in self.rows.iter().enumerate() {
            let y = TOP + CELL_HEIGHT * i as f64;
            let _ = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 5.0,
                y + 14.0,
                escape(&short(label))
            );
            for (j, cell) in cells.iter().enumerate() {
                draw(&mut out, cell, left + width * j as f64, y, width);
            }
        }
        for (i, (fill, dot, meaning)) in self.legend.iter().enumerate() {
            let y = bottom + 14.0 + CELL_HEIGHT * 1.2 * i as f64;
            draw(&mut out, &HeatCell { fill: *fill, dot: *dot, text: String::new() }, 4.0, y, 24.0);
            let _ = writeln!(out, "<text x=\"36\" y=\"{:.1}\">{}</text>", y + 14.0, escape(meaning));
        }
        out.push_str("</svg>");
        out
    }
}

fn short(label: &str) -> String {
    if label.chars().count() <= LABEL_CHARACTERS {
        return label.to_owned();
    }
    label.chars().take(LABEL_CHARACTERS - 1).chain(['…']).collect()
}

fn draw(out: &mut String, cell: &HeatCell, x: f64, y: f64, width: f64) {
    let (fill, dark) = match cell.fill {
        Fill::Grey(share) => {
            let level = (255.0 - 150.0 * share.clamp(0.0, 1.0)) as u8;
            (format!("#{level:02x}{level:02x}{level:02x}"), false)
        }
        Fill::Hatched => ("url(#stripes)".to_owned(), true),
        Fill::Empty => ("none".to_owned(), false),
    };
    let _ = write!(
        out,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{CELL_HEIGHT}\" fill=\"{fill}\" \
         stroke=\"#888\" stroke-width=\".5\"/>"
    );
    let middle = x + width / 2.0;
    if width >= TEXT_WIDTH && !cell.text.is_empty() {
        let _ = write!(
            out,
            "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"{}\">{}</text>",
            y + 14.0,
            if dark { "#fff" } else { "#111" },
            escape(&cell.text)
        );
    } else if cell.dot {
        let colour = if dark { "#fff" } else { "#111" };
        let radius = (width / 4.0).min(3.0);
        let _ = write!(
            out,
            "<circle cx=\"{middle:.1}\" cy=\"{:.1}\" r=\"{radius:.1}\" fill=\"{colour}\"/>",
            y + CELL_HEIGHT / 2.0
        );
    }
    out.push('\n');
}
