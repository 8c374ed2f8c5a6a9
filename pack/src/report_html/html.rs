//! The page around the pictures: escaping, numbers, and the one style sheet.

use super::glossary::GLOSSARY;
use super::table::NONE;

const STYLE: &str = include_str!("style.css");

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
    let Some(value) = value.into().filter(|v| v.is_finite()) else { return NONE.into() };
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
        None => NONE.into(),
    }
}

/// Yes or no.
pub(super) fn yes(value: bool) -> String {
    if value { "yes".into() } else { "NO".into() }
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

/// The answers that a page begins with: HTML, as a paragraph or as a list.
pub(super) fn verdicts(answers: &[String]) -> String {
    if let [only] = answers {
        return format!("<p class=\"verdict\">{only}</p>\n");
    }
    let items: String = answers.iter().map(|answer| format!("<li>{answer}</li>\n")).collect();
    format!("<ul class=\"verdict\">\n{items}</ul>\n")
}

/// The whole page. `body` is HTML.
pub(super) fn page(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}{GLOSSARY}</body>\n</html>\n"
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
        assert_eq!(escape("<a> \"x\" & 'y'"), "&lt;a&gt; &quot;x&quot; &amp; &#39;y&#39;");
    }
}
