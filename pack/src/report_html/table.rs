//! Tables, a column at a time: what a column is called stands beside what is written into it.

use super::html::escape;
use std::fmt::Write as _;

/// Longer tables are folded until they are asked for.
const OPEN_ROWS_MAX: usize = 20;
/// What a cell without a value holds.
pub(super) const NONE: &str = "–";

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Tells the rows apart.
    Key,
    Number,
    /// Long enough to need more than one line.
    Text,
}

struct Column {
    head: String,
    kind: Kind,
    cells: Vec<String>,
}

impl Column {
    /// Characters across that keep the head to about two lines: a tall head looks like a gap where its column is out of
    /// sight.
    fn head_width(&self) -> usize {
        let longest = self.head.split(' ').map(|word| word.chars().count()).max().unwrap_or(0);
        longest.max(self.head.chars().count() / 2 + 2)
    }

    /// The one text of all rows, if there is more than one row.
    fn constant(&self) -> Option<&str> {
        match self.cells.as_slice() {
            [first, rest @ ..] if !rest.is_empty() && rest.iter().all(|cell| cell == first) => Some(first),
            _ => None,
        }
    }
}

/// A table over rows of one kind.
pub(super) struct Table<'a, R> {
    rows: &'a [R],
    columns: Vec<Column>,
}

impl<'a, R> Table<'a, R> {
    /// Without columns yet.
    pub fn of(rows: &'a [R]) -> Table<'a, R> {
        Table { rows, columns: Vec::new() }
    }

    fn with(mut self, kind: Kind, head: impl Into<String>, cell: impl Fn(&R) -> String) -> Self {
        let cells = self.rows.iter().map(cell).collect();
        self.columns.push(Column { head: head.into(), kind, cells });
        self
    }

    /// A column that tells the rows apart, and so is always shown.
    pub fn key(self, head: impl Into<String>, cell: impl Fn(&R) -> String) -> Self {
        self.with(Kind::Key, head, cell)
    }

    /// A column of numbers or single words. Where every row has the same, it is said once instead.
    pub fn column(self, head: impl Into<String>, cell: impl Fn(&R) -> String) -> Self {
        self.with(Kind::Number, head, cell)
    }

    /// The same for words.
    pub fn text(self, head: impl Into<String>, cell: impl Fn(&R) -> String) -> Self {
        self.with(Kind::Text, head, cell)
    }

    /// The table as HTML; every cell is escaped here. `label` is what a screen reader says.
    pub fn html(self, label: &str) -> String {
        let (same, shown): (Vec<&Column>, Vec<&Column>) =
            self.columns.iter().partition(|column| column.kind != Kind::Key && column.constant().is_some());
        let label = escape(label);
        let mut out = format!("<div class=\"scroll\" role=\"region\" aria-label=\"{label}\" tabindex=\"0\">");
        out.push_str("<table><thead><tr>");
        for column in &shown {
            let class = if column.kind == Kind::Text { " class=\"text\"" } else { "" };
            let (width, head) = (column.head_width(), escape(&column.head));
            let _ = write!(out, "<th scope=\"col\"{class} style=\"min-width:{width}ch\">{head}</th>");
        }
        out.push_str("</tr></thead><tbody>\n");
        for row in 0..self.rows.len() {
            out.push_str("<tr>");
            for (i, column) in shown.iter().enumerate() {
                let cell = escape(&column.cells[row]);
                let _ = match (i, column.kind) {
                    (0, _) => write!(out, "<th scope=\"row\">{cell}</th>"),
                    (_, Kind::Text) => write!(out, "<td class=\"text\">{cell}</td>"),
                    _ => write!(out, "<td>{cell}</td>"),
                };
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div>\n");
        if self.rows.len() > OPEN_ROWS_MAX {
            out = format!("<details><summary>{label}: {} rows</summary>\n{out}</details>\n", self.rows.len());
        }
        said_once(&same) + &out
    }
}

fn said_once(columns: &[&Column]) -> String {
    let constant = |column: &&Column| {
        let value = column.constant().filter(|&text| text != NONE).unwrap_or("none");
        format!("{}: {}", escape(&column.head), escape(value))
    };
    match columns.iter().map(constant).collect::<Vec<_>>().join("; ") {
        none if none.is_empty() => none,
        all => format!("<p class=\"same\">The same in every row: {all}.</p>\n"),
    }
}

/// A table of names and values.
pub(super) fn pairs(label: &str, heads: [&str; 2], rows: &[(String, String)]) -> String {
    Table::of(rows).key(heads[0], |row| row.0.clone()).key(heads[1], |row| row.1.clone()).html(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_row_has_is_said_once() {
        let rows = [(16, 0), (20, 0)];
        let table = |rows: &[(i32, i32)]| {
            Table::of(rows).key("rate", |r| r.0.to_string()).column("<errors>", |r| r.1.to_string()).html("x")
        };
        let both = table(&rows);
        assert!(both.contains("The same in every row: &lt;errors&gt;: 0."), "{both}");
        assert!(!both.contains("<td>0</td>"));
        assert!(table(&rows[..1]).contains("<td>0</td>"), "one row has nothing in common with others");
        assert!(table(&[(16, 0), (16, 1)]).contains("<th scope=\"row\">16</th>"), "a key is always shown");
    }

    #[test]
    fn long_tables_are_folded() {
        let table = |count: u32| {
            let rows: Vec<u32> = (0..count).collect();
            Table::of(&rows).key("n", u32::to_string).html("<all>")
        };
        assert!(table(21).contains("<summary>&lt;all&gt;: 21 rows</summary>"));
        assert!(!table(20).contains("<details>"));
    }
}
