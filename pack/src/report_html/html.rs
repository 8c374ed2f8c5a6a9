//! The page around the pictures: escaping, tables, numbers, and the one style sheet.

use std::fmt::Write as _;

const STYLE: &str = "
:root { color-scheme: light; }
body { font: 16px/1.45 system-ui, sans-serif; color: #111; background: #fff; margin: 0 auto; padding: 1rem;
  max-width: 72rem; }
h1 { font-size: 1.5rem; line-height: 1.2; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 1.5rem 0 .5rem; }
.verdict { border-left: .4rem solid #111; padding: .4rem .8rem; margin: .8rem 0; font-weight: 600; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1.5rem; }
.pictures > * { min-width: 0; }
figure { margin: 0; border: 1px solid #999; padding: .6rem; }
figcaption { font-weight: 600; margin-bottom: .3rem; }
figure p { margin: .2rem 0; font-size: .85rem; }
svg { width: 100%; height: auto; display: block; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; margin: .5rem 0; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid #bbb; padding: .2rem .45rem; text-align: right; white-space: nowrap; }
th { border-bottom: 2px solid #111; white-space: normal; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; white-space: normal; }
ul { margin: .3rem 0; padding-left: 1.2rem; }
@media print { figure, tr { break-inside: avoid; } }
";

/// `text` with the characters that mean something in HTML and SVG replaced.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// A number with about four significant digits; a dash for none.
pub(super) fn number(value: impl Into<Option<f64>>) -> String {
    let Some(value) = value.into().filter(|v| v.is_finite()) else { return "–".into() };
    let decimals = match value.abs() {
        v if v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".into() } else { text.into() }
}

/// A share as per cent with one decimal.
pub(super) fn percent(share: impl Into<Option<f64>>) -> String {
    match share.into().filter(|s| s.is_finite()) {
        Some(share) => format!("{:.1} %", share * 100.0),
        None => "–".into(),
    }
}

/// Yes or no.
pub(super) fn yes(value: bool) -> String {
    if value { "yes".into() } else { "NO".into() }
}

/// A table; every cell is escaped here.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut out = String::from("<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>");
    for cell in head {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(cell));
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for cell in row {
            let _ = write!(out, "<td>{}</td>", escape(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    out
}

/// A table with a column more, about the profile's validity region, if a row lies outside.
pub(super) fn table_with_region(head: &[&str], rows: Vec<(Vec<String>, bool)>) -> String {
    let any = rows.iter().any(|(_, outside)| *outside);
    let with_column = |(mut row, outside): (Vec<String>, bool)| {
        if any {
            row.push(if outside { "OUTSIDE" } else { "inside" }.to_owned());
        }
        row
    };
    let rows: Vec<Vec<String>> = rows.into_iter().map(with_column).collect();
    let last = ["profile's region"];
    table(&[head, &last[..usize::from(any)]].concat(), &rows)
}

/// A list of sentences under a heading; nothing for none.
pub(super) fn notes(heading: &str, sentences: &[String]) -> String {
    if sentences.is_empty() {
        return String::new();
    }
    let items: String = sentences.iter().map(|s| format!("<li>{}</li>\n", escape(s))).collect();
    format!("<h2>{}</h2>\n<ul>\n{items}</ul>\n", escape(heading))
}

/// A picture with its caption, a sentence on how to read it, and its numbers.
pub(super) fn figure(caption: &str, reading: &str, svg: &str, table: &str) -> String {
    let (caption, reading) = (escape(caption), escape(reading));
    format!("<figure><figcaption>{caption}</figcaption>\n{svg}\n<p>{reading}</p>\n{table}</figure>\n")
}

/// The whole page. `body` is HTML.
pub(super) fn page(title: &str, verdict: &str, body: &str) -> String {
    let (title, verdict) = (escape(title), escape(verdict));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<p class=\"verdict\">{verdict}</p>\n\
         {body}</body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (24.0, "24"),
            (23.94, "23.94"),
            (3891.2, "3891"),
            (0.0, "0"),
            (-0.000_01, "0"),
            (182.04, "182"),
            (100.0, "100"),
        ] {
            assert_eq!(number(value), text);
        }
        assert_eq!(
            (number(None), number(f64::NAN), percent(0.954)),
            ("–".into(), "–".into(), "95.4 %".into())
        );
    }

    #[test]
    fn text_is_escaped() {
        let html = table(&["<a>"], &[vec!["\"x\" & 'y'".into()]]);
        assert!(html.contains("&lt;a&gt;") && html.contains("&quot;x&quot; &amp; &#39;y&#39;"));
    }
}
