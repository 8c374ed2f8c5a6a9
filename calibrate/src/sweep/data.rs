//! What a sweep measured, as rows of a table that can be fitted again.

use std::fmt::Write;

/// What kind of experiment a row is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Prompts alone in the engine: from sending to the only token.
    Prompt,
    /// A step of a batch in which every row decodes.
    Decode,
    /// The steps that prompts of known size take beside decode rows.
    Mixed,
    /// What a prompt waits beside decode rows, from sending to the begin of its first step.
    Wait,
}

impl Kind {
    const WORDS: [(&'static str, Kind); 4] =
        [("prompt", Kind::Prompt), ("decode", Kind::Decode), ("mixed", Kind::Mixed), ("wait", Kind::Wait)];

    /// The word in the table.
    #[must_use]
    pub fn word(self) -> &'static str {
        Kind::WORDS.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }
}

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// What kind.
    pub kind: Kind,
    /// Seconds of experiments before it.
    pub at_s: f64,
    /// Rows that decode.
    pub rows: u32,
    /// Tokens of context that they read in a step, all together, in the mean; the step's own included.
    pub context: f64,
    /// Prompts at once.
    pub prompts: u32,
    /// Tokens of each.
    pub prompt_tokens: u32,
    /// Of those, found in the prefix cache.
    pub cached_tokens: u32,
    /// The time, drift divided out.
    pub time_us: f64,
    /// Standard deviation of the time, as a share.
    pub relative_sd: f64,
    /// Times that it is the mean of.
    pub samples: u32,
    /// Of those, far from the others: kept, with less weight.
    pub outliers: u32,
    /// What the outliers would add to the time, as a share of it: their plain mean is so much longer.
    pub stalls: f64,
    /// Measured to judge the fit, never fitted.
    pub held_out: bool,
}

impl Measurement {
    /// A time of no rows and no prompts yet.
    #[must_use]
    pub fn new(kind: Kind, at_s: f64, time: Robust, held_out: bool) -> Measurement {
        Measurement {
            kind,
            at_s,
            rows: 0,
            context: 0.0,
            prompts: 0,
            prompt_tokens: 0,
            cached_tokens: 0,
            time_us: time.mean,
            relative_sd: time.relative_sd,
            samples: time.samples,
            outliers: time.outliers,
            stalls: time.stalls,
            held_out,
        }
    }

    /// Tokens of each prompt that are computed.
    #[must_use]
    pub fn new_tokens(&self) -> u32 {
        self.prompt_tokens.saturating_sub(self.cached_tokens)
    }

    /// Tokens that are computed in its steps, all together.
    #[must_use]
    pub fn batch_tokens(&self) -> u32 {
        self.rows.saturating_add(self.prompts.saturating_mul(self.new_tokens()))
    }

    /// In a few words.
    #[must_use]
    pub fn label(&self) -> String {
        let context = self.context / f64::from(self.rows.max(1));
        let prompts = match self.prompts {
            0 | 1 if self.cached_tokens > 0 => {
                format!("prompt of {} cached and {} new", self.cached_tokens, self.new_tokens())
            }
            0 | 1 => format!("prompt of {}", self.prompt_tokens),
            n => format!("{n} prompts of {}", self.prompt_tokens),
        };
        match self.kind {
            Kind::Prompt => prompts,
            Kind::Decode => format!("{} rows at {context:.0}", self.rows),
            Kind::Mixed => format!("{prompts} beside {} rows at {context:.0}", self.rows),
            Kind::Wait => format!("{prompts} waits beside {} rows", self.rows),
        }
    }
}

const HEAD: &str = "kind,at_s,rows,context,prompts,prompt_tokens,cached_tokens,time_us,relative_sd,samples,outliers,stalls,held_out";

/// The table as text.
#[must_use]
pub fn to_csv(rows: &[Measurement]) -> String {
    let mut text = format!("{HEAD}\n");
    for row in rows {
        // Writing into a String cannot fail.
        let _ = writeln!(
            text,
            "{},{:.3},{},{:.1},{},{},{},{:.3},{:.5},{},{},{:.5},{}",
            row.kind.word(),
            row.at_s,
            row.rows,
            row.context,
            row.prompts,
            row.prompt_tokens,
            row.cached_tokens,
            row.time_us,
            row.relative_sd,
            row.samples,
            row.outliers,
            row.stalls,
            row.held_out
        );
    }
    text
}

/// Reads the table.
///
/// # Errors
/// The first line that is none of it, with its number.
pub fn from_csv(file: &str, text: &str) -> Result<Vec<Measurement>, String> {
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    if head != HEAD {
        return Err(format!("{file}:1: found {head:?}; expected {HEAD:?}, as a calibration writes it"));
    }
    let rows = (2..).zip(lines).map(|(number, line)| {
        row(line).ok_or_else(|| {
            format!(
                "{file}:{number}: found {line:?}; expected finite numbers under {HEAD:?}; restore the file"
            )
        })
    });
    rows.collect()
}

fn row(line: &str) -> Option<Measurement> {
    let cells: Vec<&str> = line.split(',').collect();
    let &[
        kind,
        at_s,
        rows,
        context,
        prompts,
        tokens,
        cached,
        time_us,
        sd,
        samples,
        outliers,
        stalls,
        held_out,
    ] = &cells[..]
    else {
        return None;
    };
    let number = |cell: &str, least: f64| {
        cell.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= least && *value < 1e15)
    };
    // Batches beyond this are no engine's, and their squares must fit.
    let count = |cell: &str| cell.parse::<u32>().ok().filter(|value| *value <= 100_000_000);
    Some(Measurement {
        kind: Kind::WORDS.iter().find(|(word, _)| *word == kind)?.1,
        at_s: number(at_s, 0.0)?,
        rows: count(rows)?,
        context: number(context, 0.0)?,
        prompts: count(prompts)?,
        prompt_tokens: count(tokens)?,
        cached_tokens: count(cached).filter(|cached| *cached == 0 || count(tokens) > Some(*cached))?,
        time_us: number(time_us, -1e15)?,
        relative_sd: number(sd, 0.0)?,
        samples: count(samples)?,
        outliers: count(outliers)?,
        stalls: number(stalls, -1e15)?,
        held_out: held_out.parse().ok()?,
    })
}

/// A mean that outliers move little, with its relative standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Robust {
    /// The mean, values beyond the limits counted as the limits.
    pub mean: f64,
    /// Standard deviation of the mean, as a share of it.
    pub relative_sd: f64,
    /// Values.
    pub samples: u32,
    /// Values beyond the limits.
    pub outliers: u32,
    /// The plain mean over this one, less 1.
    pub stalls: f64,
}

/// Deviations from the median beyond which a value is an outlier: 1.4826 median deviations are one of a normal.
const OUTLIER_SDS: f64 = 4.0;

/// The winsorised mean. None without values.
#[must_use]
pub fn robust(values: &[f64]) -> Option<Robust> {
    let middle = median(values)?;
    let deviations: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    let sd = (1.4826 * median(&deviations)?).max(1e-4 * middle.abs());
    let (low, high) = (middle - OUTLIER_SDS * sd, middle + OUTLIER_SDS * sd);
    let kept: Vec<f64> = values.iter().map(|value| value.clamp(low, high)).collect();
    let n = kept.len() as f64;
    let mean = kept.iter().sum::<f64>() / n;
    let variance = kept.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    let outliers = values.iter().filter(|value| **value < low || **value > high).count() as u32;
    let relative_sd = if mean > 0.0 { (variance / n).sqrt() / mean } else { 1.0 };
    let stalls = if mean > 0.0 { values.iter().sum::<f64>() / n / mean - 1.0 } else { 0.0 };
    Some(Robust { mean, relative_sd, samples: values.len() as u32, outliers, stalls })
}

/// Standard deviations of its mean above which the share that stalls add is more than chance.
const SURE_SDS: f64 = 2.0;

/// What stalls add to the steps of a sweep in the mean, as a share: over its decode rows, each by its number of steps. 0 where
/// that is no more than chance, as one long pause is: a profile has nothing that happens once.
#[must_use]
pub fn stalls(rows: &[Measurement]) -> f64 {
    let steps = || rows.iter().filter(|row| row.kind == Kind::Decode);
    let count: f64 = steps().map(|row| f64::from(row.samples)).sum();
    let mean = steps().map(|row| f64::from(row.samples) * row.stalls).sum::<f64>() / count.max(1.0);
    let square = |row: &Measurement| (f64::from(row.samples) * (row.stalls - mean)).powi(2);
    let sd = steps().map(square).sum::<f64>().sqrt() / count.max(1.0);
    if mean > SURE_SDS * sd { mean } else { 0.0 }
}

/// The median; of an even count the mean of the middle two. None without values.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[half]),
        _ => Some(f64::midpoint(sorted[half - 1], sorted[half])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_reads_back_and_a_bad_line_is_named() {
        let row = Measurement {
            kind: Kind::Mixed,
            at_s: 1.5,
            rows: 4,
            context: 420.0,
            prompts: 2,
            prompt_tokens: 256,
            cached_tokens: 64,
            time_us: 12_345.678,
            relative_sd: 0.01,
            samples: 3,
            outliers: 1,
            stalls: 0.25,
            held_out: true,
        };
        let text = to_csv(&[row.clone(), Measurement { kind: Kind::Wait, time_us: -3.0, ..row.clone() }]);
        let read = from_csv("m.csv", &text).unwrap();
        assert_eq!(read[0], row);
        assert_eq!(read[1].kind, Kind::Wait);
        let fault = |text: &str| from_csv("m.csv", text).unwrap_err();
        assert!(fault("kind\n").starts_with("m.csv:1: found \"kind\""));
        assert!(fault(&text.replacen("420.0", "NaN", 1)).starts_with("m.csv:2:"));
        assert!(fault(&text.replacen("256", "4294967295", 1)).starts_with("m.csv:2:"));
    }

    #[test]
    fn an_outlier_is_kept_and_moves_little() {
        let mut values: Vec<f64> = (0..50).map(|i| 100.0 + f64::from(i % 5)).collect();
        let clean = robust(&values).unwrap();
        values[7] = 900.0;
        let found = robust(&values).unwrap();
        assert!((found.mean / clean.mean - 1.0).abs() < 0.003, "{found:?}");
        assert_eq!((found.samples, found.outliers, clean.outliers), (50, 1, 0));
        assert!((found.stalls - 0.157).abs() < 0.003 && clean.stalls.abs() < 1e-12, "{found:?}");
        assert_eq!((robust(&[]), median(&[])), (None, None));
    }

    #[test]
    fn stalls_that_come_again_have_a_share_and_one_pause_has_none() {
        let row = |stalls| Measurement {
            rows: 4,
            context: 400.0,
            ..Measurement::new(
                Kind::Decode,
                0.0,
                Robust { mean: 1000.0, relative_sd: 0.01, samples: 30, outliers: 0, stalls },
                false,
            )
        };
        let often: Vec<Measurement> =
            (0..300).map(|i| row(if i % 10 == 0 { 0.1 } else { -0.0002 })).collect();
        assert!((stalls(&often) - 0.00982).abs() < 1e-5, "{}", stalls(&often));
        let once: Vec<Measurement> = (0..300).map(|i| row(if i == 7 { 3.0 } else { 0.0 })).collect();
        let prompts: Vec<Measurement> =
            often.iter().map(|row| Measurement { kind: Kind::Prompt, ..row.clone() }).collect();
        for rows in [once, prompts, Vec::new()] {
            assert!(stalls(&rows).abs() < 1e-12);
        }
    }
}
