//! A grid of cells as inline SVG. Grey and hatching say it all: no colour is needed.

use super::html::escape;
use super::svg::{FONT_SIZE, WIDTH, wrap};
use std::fmt::Write as _;

const RIGHT: f64 = 8.0;
const LINE_HEIGHT: f64 = 16.0;
const CELL_HEIGHT: f64 = 20.0;
/// Rows with a longer label among them are numbered: cut labels might all look alike.
const LABEL_CHARACTERS_MAX: usize = 24;
const CHARACTER_WIDTH: f64 = 7.3;
/// Columns are labelled now and then if this many characters of a label would not fit.
const COLUMN_GAP_CHARACTERS: usize = 1;
/// Characters of a line across the picture.
const LINE_CHARACTERS: usize = 52;
/// Cells narrower than this have no text.
const TEXT_WIDTH: f64 = 44.0;

/// How a cell is filled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fill {
    /// A grey, from 0 (white) to 1.
    Grey(f64),
    /// Dark with stripes.
    Hatched,
    /// Nothing known: a question mark.
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
    /// What the labels of the rows are values of; empty for nothing.
    pub row_name: String,
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
        let labels = self.labels();
        let longest = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
        let left = longest as f64 * CHARACTER_WIDTH + 8.0;
        let width = (WIDTH - left - RIGHT) / self.columns.len().max(1) as f64;
        let head = self.head();
        let top = LINE_HEIGHT * (head.len() as f64 + 1.0) + 6.0;
        let bottom = top + CELL_HEIGHT * self.rows.len() as f64;
        let height = bottom + 14.0 + CELL_HEIGHT * 1.2 * self.legend.len() as f64;
        let mut out = format!(
            "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\" font-family=\"sans-serif\" \
             font-size=\"{FONT_SIZE}\" fill=\"#111\">\n<defs><pattern id=\"stripes\" width=\"6\" height=\"6\" \
             patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" \
             fill=\"#666\"/><path d=\"M0 0v6\" stroke=\"#222\" stroke-width=\"4\"/></pattern></defs>\n",
            escape(&self.title)
        );
        for (i, line) in head.iter().enumerate() {
            text(&mut out, 2.0, 13.0 + LINE_HEIGHT * i as f64, "start", line);
        }
        for (i, label) in self.columns.iter().enumerate().step_by(self.labelled_every(width)) {
            text(&mut out, left + width * (i as f64 + 0.5), top - 5.0, "middle", label);
        }
        for (i, (label, (_, cells))) in labels.iter().zip(&self.rows).enumerate() {
            let y = top + CELL_HEIGHT * i as f64;
            text(&mut out, left - 5.0, y + 14.5, "end", label);
            for (j, cell) in cells.iter().enumerate() {
                draw(&mut out, cell, left + width * j as f64, y, width);
            }
        }
        for (i, (fill, dot, meaning)) in self.legend.iter().enumerate() {
            let y = bottom + 14.0 + CELL_HEIGHT * 1.2 * i as f64;
            draw(&mut out, &HeatCell { fill: *fill, dot: *dot, text: String::new() }, 4.0, y, 24.0);
            text(&mut out, 36.0, y + 14.5, "start", meaning);
        }
        out.push_str("</svg>");
        out
    }

    /// What stands above the grid: what goes down and what goes across.
    fn head(&self) -> Vec<String> {
        let across = format!("across: {}", self.column_name);
        let lines = if self.row_name.is_empty() {
            vec![across]
        } else {
            vec![format!("down: {}", self.row_name), across]
        };
        lines.iter().flat_map(|line| wrap(line, LINE_CHARACTERS)).collect()
    }

    /// The rows' labels, or their numbers where a label is too long.
    fn labels(&self) -> Vec<String> {
        let numbered = self.rows.iter().any(|(label, _)| label.chars().count() > LABEL_CHARACTERS_MAX);
        let label = |(i, (label, _)): (usize, &(String, Vec<HeatCell>))| {
            if numbered { format!("row {}", i + 1) } else { label.clone() }
        };
        self.rows.iter().enumerate().map(label).collect()
    }

    fn labelled_every(&self, width: f64) -> usize {
        let longest = self.columns.iter().map(|label| label.chars().count()).max().unwrap_or(0);
        let wanted = (longest + COLUMN_GAP_CHARACTERS) as f64 * CHARACTER_WIDTH;
        let least = (wanted / width).ceil() as usize;
        // Round steps can be counted on.
        [1, 2, 5, 10, 20, 50, 100].into_iter().find(|&step| step >= least).unwrap_or(least)
    }
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let text = escape(text);
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
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
    let ink = if dark { "#fff" } else { "#111" };
    let written = match cell.fill {
        Fill::Empty => "?",
        _ if width >= TEXT_WIDTH => cell.text.as_str(),
        _ => "",
    };
    if !written.is_empty() {
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"{ink}\">{}</text>",
            x + width / 2.0,
            y + 14.5,
            escape(written)
        );
    }
    if cell.dot {
        // Beside what is written, or in the middle.
        let dot_x = if written.is_empty() { x + width / 2.0 } else { x + 5.0 };
        let _ = write!(
            out,
            "<circle cx=\"{dot_x:.1}\" cy=\"{:.1}\" r=\"{:.1}\" fill=\"{ink}\"/>",
            y + CELL_HEIGHT / 2.0,
            (width / 4.0).min(3.0)
        );
    }
    out.push('\n');
}
