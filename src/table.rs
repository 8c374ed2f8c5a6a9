//! Tables for people: columns aligned, numbers to the right.

/// Lays out rows under their headers, two spaces between columns.
pub fn table(headers: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([headers[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headers.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| {
            let space = " ".repeat(width.saturating_sub(cell.chars().count()));
            let number = cell.starts_with(|c: char| c.is_ascii_digit() || c == '-');
            if number { format!("{space}{cell}") } else { format!("{cell}{space}") }
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let body = rows.iter().map(|row| line(row.iter().map(String::as_str).collect()));
    std::iter::once(line(headers.to_vec())).chain(body).collect()
}

/// A table whose rows may have a word about the profile's validity region: then it has a column for that.
pub fn table_with_region<W: Into<String>>(headers: &[&str], rows: Vec<(Vec<String>, Option<W>)>) -> String {
    let any = rows.iter().any(|(_, word)| word.is_some());
    let with_column = |(mut row, word): (Vec<String>, Option<W>)| {
        if any {
            row.push(word.map_or_else(|| "inside".to_owned(), Into::into));
        }
        row
    };
    let rows: Vec<Vec<String>> = rows.into_iter().map(with_column).collect();
    let last = ["profile's region"];
    table(&[headers, &last[..usize::from(any)]].concat(), &rows)
}

/// A number with `digits` decimals, or a dash where there is none.
pub fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

/// `1 replica`, `2 replicas`.
pub fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// A share as a percentage with one decimal, or a dash.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

/// A whole number with commas between thousands.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        let all = [0, 999, 1000, 70_553_706_496].map(grouped);
        assert_eq!(all, ["0", "999", "1,000", "70,553,706,496"]);
    }

    #[test]
    fn numbers_stand_right_and_words_left() {
        let rows = vec![vec!["16".to_owned(), "flat".to_owned()], vec!["5".to_owned(), "growing".to_owned()]];
        assert_eq!(table(&["rps", "queue"], &rows), "rps  queue\n 16  flat\n  5  growing\n");
    }
}
