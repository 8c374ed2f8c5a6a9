//! The page of a study: its experiments' answers side by side, then each experiment. They are different questions and are
//! never averaged.

use super::basis;
use super::html::{escape, number, page, percent, verdicts};
use super::repeats::{Levels, Spread, over, text};
use super::table::{NONE, Table};
use crate::cache::CacheReport;
use crate::report::Report;

/// One experiment on the page of a study.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// Its heading.
    pub heading: String,
    /// What it found, in a sentence.
    pub verdict: String,
    pub(super) answer: Answer,
    /// HTML.
    pub(super) body: String,
}

/// What an experiment found, for the table of all.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    /// `Open loop, cold cache`.
    experiment: String,
    /// What all of its numbers rest on.
    source: String,
    /// `capacity 24 requests/s`.
    answer: String,
    /// The class with the lowest attainment there, and that attainment.
    weakest: (String, String),
    hits: String,
    expected_hits: String,
    evictions: String,
}

impl Answer {
    /// That of an experiment that chose a level; `word` says what that level is.
    pub fn of(levels: &Levels, chosen: Option<f64>, word: &str) -> Answer {
        let all: Vec<&Report> = levels.iter().flat_map(|(_, repeats)| repeats).copied().collect();
        let at =
            levels.iter().find(|(level, _)| Some(*level) == chosen).map_or(&[][..], |(_, repeats)| repeats);
        let of_cache = |value: fn(&CacheReport) -> Option<f64>, format: fn(f64) -> String| {
            let spread = Spread::of(all.iter().filter_map(|r| r.prefix_cache.as_ref().and_then(value)));
            spread.map_or(NONE.to_owned(), |s| {
                let (low, high) = (format(s.low), format(s.high));
                if low == high { low } else { format!("{low} to {high}") }
            })
        };
        let first = all.first().map(|report| &report.facts);
        Answer {
            experiment: first.map_or_else(String::new, basis::experiment),
            source: first.map_or_else(String::new, basis::source),
            answer: at
                .first()
                .and_then(|report| Some(format!("{word} {}", basis::load(&report.facts)?)))
                .unwrap_or("none".to_owned()),
            weakest: weakest(at),
            hits: of_cache(|cache| cache.hit_share, percent),
            expected_hits: of_cache(|cache| cache.expected_hit_share, percent),
            evictions: of_cache(|cache| cache.evictions_per_s, number),
        }
    }
}

/// The class whose attainment has the lowest median over repeats, and that attainment with its spread.
pub(super) fn weakest(repeats: &[&Report]) -> (String, String) {
    let names = repeats.first().map(|report| report.classes.keys());
    let attainment = |name: &String| {
        let spread = over(repeats, |report| report.classes.get(name)?.attainment);
        (name.clone(), spread)
    };
    let median = |class: &(String, Option<Spread>)| class.1.map_or(-1.0, |spread| spread.median);
    let lowest = names.into_iter().flatten().map(attainment).min_by(|a, b| median(a).total_cmp(&median(b)));
    lowest.map_or((NONE.into(), NONE.into()), |(name, spread)| (name, text(spread, percent)))
}

/// The page of a study of one or several experiments. `points`: the names of their directories.
#[must_use]
pub fn study_html(title: &str, sections: &[Section], points: &[String]) -> String {
    let answer = |section: &Section| match sections {
        [only] => escape(&only.verdict),
        _ => format!("{}. {}", escape(&section.answer.experiment), escape(&section.verdict)),
    };
    let mut body = verdicts(&sections.iter().map(answer).collect::<Vec<_>>());
    body += &answers(sections);
    if let Some(first) = sections.first() {
        body += &format!("<p class=\"basis\">{}</p>\n", escape(&first.answer.source));
    }
    for section in sections {
        body += &match sections {
            [only] => only.body.clone(),
            _ => section_html(section),
        };
    }
    page(title, &(body + &links(points)))
}

fn section_html(section: &Section) -> String {
    // A section's own headings stand one level below the section's.
    let body = section.body.replace("<h2>", "<h3>").replace("</h2>", "</h3>");
    format!(
        "<section>\n<h2>{}</h2>\n{}{body}</section>\n",
        escape(&section.heading),
        verdicts(&[escape(&section.verdict)])
    )
}

fn answers(sections: &[Section]) -> String {
    Table::of(sections)
        .key("experiment", |s| s.answer.experiment.clone())
        .key("answer", |s| s.answer.answer.clone())
        .key("weakest class there", |s| s.answer.weakest.0.clone())
        .key("its attainment", |s| s.answer.weakest.1.clone())
        .key("prefix hits", |s| s.answer.hits.clone())
        .key("implied by the groups", |s| s.answer.expected_hits.clone())
        .key("evictions, blocks/s", |s| s.answer.evictions.clone())
        .html("The answers")
}

/// Links to the pages of the points.
fn links(points: &[String]) -> String {
    if points.is_empty() {
        return String::new();
    }
    let link = |name: &String| {
        let name = escape(name);
        format!("<li><a href=\"points/{name}/report.html\">{name}</a></li>\n")
    };
    let items: String = points.iter().map(link).collect();
    format!(
        "<h2>Points</h2>\n<p>Each with its queue, running requests and KV use over time.</p>\n<ul>\n{items}</ul>\n"
    )
}
