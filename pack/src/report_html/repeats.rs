//! Several reports of one level (an offered rate or a number of clients): their median and their spread.

use super::svg::{Point, Series};
use super::table::{NONE, Table};
use crate::report::Report;

/// The levels in ascending order, each with its repeats.
pub(super) type Levels<'a> = Vec<(f64, Vec<&'a Report>)>;

pub(super) fn levels(points: &[(f64, Report)]) -> Levels<'_> {
    let mut sorted: Vec<_> = points.iter().collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    sorted
        .chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq())
        .map(|repeats| (repeats[0].0, repeats.iter().map(|(_, report)| report).collect()))
        .collect()
}

/// A value over repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub median: f64,
    pub low: f64,
    pub high: f64,
    repeats: usize,
}

impl Spread {
    /// None without values.
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let (&low, &high) = (values.first()?, values.last()?);
        Some(Spread { median: values[(values.len() - 1) / 2], low, high, repeats: values.len() })
    }

    fn of_point(point: &Point) -> Spread {
        let (low, high) = point.range.unwrap_or((point.y, point.y));
        Spread { median: point.y, low, high, repeats: 1 }
    }

    /// Least and greatest, if there is more than one.
    pub fn range(&self) -> Option<(f64, f64)> {
        (self.repeats > 1).then_some((self.low, self.high))
    }
}

/// `23.8 (23.7–23.9)`: the median, and the range where it shows.
pub(super) fn text(spread: Option<Spread>, format: impl Fn(f64) -> String) -> String {
    let Some(spread) = spread else { return NONE.into() };
    let (median, low, high) = (format(spread.median), format(spread.low), format(spread.high));
    if low == high {
        return median;
    }
    // The median bears the unit of all three.
    let bare = |text: &str| text.trim_end_matches(" %").to_owned();
    format!("{median} ({}–{})", bare(&low), bare(&high))
}

/// `value` over some reports.
pub(super) fn over(reports: &[&Report], value: impl Fn(&Report) -> Option<f64>) -> Option<Spread> {
    Spread::of(reports.iter().filter_map(|report| value(report)))
}

/// A line through the medians of `value` at each level.
pub(super) fn series(name: &str, levels: &Levels, value: impl Fn(&Report) -> Option<f64>) -> Series {
    let point = |(level, repeats): &(f64, Vec<&Report>)| {
        let spread = over(repeats, &value)?;
        Some(Point { range: spread.range(), ..Point::at(*level, spread.median) })
    };
    Series { name: name.to_owned(), points: levels.iter().filter_map(point).collect(), apart: false }
}

/// The numbers of some series, a row a level: the median and, with repeats, the range.
pub(super) fn numbers(
    label: &str,
    level_name: &str,
    levels: &Levels,
    series: &[Series],
    format: impl Fn(f64) -> String + Copy,
) -> String {
    let mut table = Table::of(levels).key(level_name, |(level, _)| super::html::number(*level));
    for line in series {
        table = table.key(line.name.as_str(), |(level, _)| {
            let point = line.points.iter().find(|p| p.x.total_cmp(level).is_eq());
            text(point.map(Spread::of_point), format)
        });
    }
    table.html(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_is_said_where_it_shows() {
        let of = |values: &[f64]| text(Spread::of(values.iter().copied()), |v| format!("{v:.1}"));
        assert_eq!(of(&[24.0]), "24.0");
        assert_eq!(of(&[24.0, 23.5, 24.1]), "24.0 (23.5–24.1)");
        assert_eq!(of(&[24.0, 24.01]), "24.0");
        assert_eq!(of(&[]), NONE);
        let shares = Spread::of([0.95, 0.96].into_iter());
        assert_eq!(text(shares, super::super::html::percent), "95.0 % (95.0–96.0)");
        assert_eq!(Spread::of([1.0].into_iter()).and_then(|spread| spread.range()), None);
    }
}
