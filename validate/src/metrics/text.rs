//! The Prometheus text format, and what OpenMetrics adds to it: exemplars, times in seconds and a last line `# EOF`.
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>

use super::line::{Line, ParseError};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The kind of a family, by its `# TYPE` line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, until the process restarts.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Cumulative buckets, a sum and a count.
    Histogram,
    /// Quantiles, a sum and a count.
    Summary,
    /// OpenMetrics: labels that state something, with the value 1.
    Info,
    /// Anything else, declared or not.
    Untyped,
}

impl Kind {
    fn from_word(word: &str) -> Option<Kind> {
        match word {
            "counter" => Some(Kind::Counter),
            "gauge" => Some(Kind::Gauge),
            "histogram" => Some(Kind::Histogram),
            "summary" => Some(Kind::Summary),
            "info" => Some(Kind::Info),
            "untyped" | "unknown" | "stateset" | "gaugehistogram" => Some(Kind::Untyped),
            _ => None,
        }
    }
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<'a> {
    /// The series' name, with its suffix (`_total`, `_bucket`).
    pub name: &'a str,
    /// The labels, in the text's order.
    pub labels: Vec<(&'a str, Cow<'a, str>)>,
    /// The value; NaN and infinities are values.
    pub value: f64,
}

impl Sample<'_> {
    /// The value of a label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_ref())
    }
}

/// A text of metrics, read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exposition<'a> {
    samples: Vec<Sample<'a>>,
    kinds: BTreeMap<&'a str, Kind>,
}

impl<'a> Exposition<'a> {
    /// Reads a text. Times and exemplars are read past: what counts is when it was asked for.
    ///
    /// # Errors
    /// The first line that is not of the format, and anything after `# EOF`.
    pub fn parse(text: &'a str) -> Result<Exposition<'a>, ParseError> {
        let mut parsed = Exposition::default();
        let mut ended = false;
        for (index, raw) in text.lines().enumerate() {
            let mut line = Line::new(raw.trim_end(), index + 1);
            line.skip_blanks();
            if line.at_end() {
                continue;
            }
            if ended {
                return Err(line.error("nothing after `# EOF`"));
            }
            if line.eat('#') {
                ended = parsed.comment(&mut line)?;
            } else {
                parsed.samples.push(sample(&mut line)?);
            }
        }
        Ok(parsed)
    }

    /// Every value, in the text's order.
    #[must_use]
    pub fn samples(&self) -> &[Sample<'a>] {
        &self.samples
    }

    /// The declared kinds by family.
    #[must_use]
    pub fn kinds(&self) -> &BTreeMap<&'a str, Kind> {
        &self.kinds
    }

    /// The series of a name, one for each of its sets of labels.
    pub fn series<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s Sample<'a>> {
        self.samples.iter().filter(move |sample| sample.name == name)
    }

    /// A line that begins with `#`: a declaration, or a comment. True for the last line of OpenMetrics.
    fn comment(&mut self, line: &mut Line<'a>) -> Result<bool, ParseError> {
        line.skip_blanks();
        match line.word() {
            "EOF" => {
                line.skip_blanks();
                return Ok(line.at_end());
            }
            "TYPE" => {
                line.skip_blanks();
                let name = line.name(true, "the name of a metric")?;
                line.skip_blanks();
                let kind = Kind::from_word(line.rest()).ok_or_else(|| {
                    line.error("`counter`, `gauge`, `histogram`, `summary`, `info` or `untyped`")
                })?;
                self.kinds.insert(name, kind);
            }
            _ => {}
        }
        Ok(false)
    }
}

/// `name{label="value",...} value [time] [# {...} value [time]]`
fn sample<'a>(line: &mut Line<'a>) -> Result<Sample<'a>, ParseError> {
    let name = line.name(true, "the name of a metric, or a comment")?;
    line.skip_blanks();
    let labels = if line.eat('{') { labels(line)? } else { Vec::new() };
    let value = value_and_time(line)?;
    if line.eat('#') {
        line.skip_blanks();
        if !line.eat('{') {
            return Err(line.error("the labels of an exemplar"));
        }
        self::labels(line)?;
        value_and_time(line)?;
    }
    if line.at_end() { Ok(Sample { name, labels, value }) } else { Err(line.error("the end of the line")) }
}

/// A value and the time it may have, up to the next word.
fn value_and_time(line: &mut Line) -> Result<f64, ParseError> {
    line.skip_blanks();
    let value = line.number("a number")?;
    line.skip_blanks();
    if !line.at_end() && !line.rest().starts_with('#') {
        line.number("a time, or the end of the line")?;
        line.skip_blanks();
    }
    Ok(value)
}

/// Labels up to and with the closing brace. A comma may stand before it.
fn labels<'a>(line: &mut Line<'a>) -> Result<Vec<(&'a str, Cow<'a, str>)>, ParseError> {
    let mut labels = Vec::new();
    loop {
        line.skip_blanks();
        if line.eat('}') {
            return Ok(labels);
        }
        let name = line.name(false, "the name of a label, or `}`")?;
        line.skip_blanks();
        if !line.eat('=') {
            return Err(line.error("`=`"));
        }
        line.skip_blanks();
        labels.push((name, line.quoted()?));
        line.skip_blanks();
        if !line.eat(',') && !line.rest().starts_with('}') {
            return Err(line.error("`,` or `}`"));
        }
    }
}
