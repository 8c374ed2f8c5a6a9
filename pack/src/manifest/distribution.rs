//! Distributions of lengths and durations: a plain number, or a mapping that names one.

use super::{DURATION_MAX_SECONDS, Distribution, TOKENS_MAX};
use crate::fields::{Fields, Item, above, from_to};

/// What a distribution is of.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Unit {
    /// Whole tokens, from 1 to [`TOKENS_MAX`].
    Tokens,
    /// Seconds, from 0 to [`DURATION_MAX_SECONDS`].
    Seconds,
}

impl Unit {
    fn min(self) -> f64 {
        if self == Unit::Tokens { 1.0 } else { 0.0 }
    }

    fn max(self) -> f64 {
        if self == Unit::Tokens { f64::from(TOKENS_MAX) } else { DURATION_MAX_SECONDS }
    }

    /// A value of this unit: whole for tokens.
    fn value(self, item: &Item<'_>) -> Option<f64> {
        match self {
            Unit::Tokens => item.u32(1..=TOKENS_MAX).map(f64::from),
            Unit::Seconds => item.f64(from_to(self.min(), self.max())),
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Uniform,
    Normal,
    Lognormal,
    Geometric,
    Empirical,
}

/// A distribution of tokens, `{distribution: KIND, ...}` or a whole number.
pub(crate) fn lengths(item: &Item<'_>) -> Option<Distribution> {
    distribution(item, Unit::Tokens)
}

/// Reads a number, or `{distribution: KIND, ...}`.
pub(super) fn distribution(item: &Item<'_>, unit: Unit) -> Option<Distribution> {
    if !matches!(item.value(), Some(crate::yaml::Value::Map(_))) {
        return unit.value(item).map(Distribution::Fixed);
    }
    let mut fields = item.fields()?;
    let kind = fields.req("distribution").word(&[
        ("uniform", Kind::Uniform),
        ("normal", Kind::Normal),
        ("lognormal", Kind::Lognormal),
        ("geometric", Kind::Geometric),
        ("empirical", Kind::Empirical),
    ])?;
    let read = match kind {
        Kind::Uniform => uniform(&mut fields, unit),
        Kind::Normal => normal(&mut fields, unit),
        Kind::Lognormal => lognormal(&mut fields, unit),
        Kind::Geometric => {
            let mean = fields.req("mean").f64(from_to(1.0, unit.max()));
            mean.map(|mean| Distribution::Geometric { mean })
        }
        Kind::Empirical => empirical(&mut fields, unit),
    };
    fields.finish();
    read
}

fn uniform(fields: &mut Fields<'_>, unit: Unit) -> Option<Distribution> {
    let min = unit.value(&fields.req("min"));
    let max_item = fields.req("max");
    let (min, max) = (min?, unit.value(&max_item)?);
    ordered(&max_item, min, max).then_some(Distribution::Uniform { min, max })
}

/// `min` and `max`, by default the unit's own, with `middle` between them.
fn cut(fields: &mut Fields<'_>, unit: Unit, middle: &Item<'_>) -> Option<(f64, f64, f64)> {
    let center = middle.f64(from_to(unit.min(), unit.max()));
    let bound = |item: Item<'_>, default: f64| {
        if item.is_present() { unit.value(&item) } else { Some(default) }
    };
    let min = bound(fields.opt("min"), unit.min());
    let max_item = fields.opt("max");
    let max = bound(max_item.clone(), unit.max());
    let (center, min, max) = (center?, min?, max?);
    if !ordered(&max_item, min, max) {
        return None;
    }
    if !(min..=max).contains(&center) {
        middle.wrong(&format!("a number from min ({min}) to max ({max})"), "");
        return None;
    }
    Some((center, min, max))
}

fn ordered(max_item: &Item<'_>, min: f64, max: f64) -> bool {
    if min > max {
        max_item.wrong(&format!("at least min, {min}"), "");
    }
    min <= max
}

/// What lies outside is drawn again, so a cut must leave enough inside to be hit.
const WIDTH_MIN: f64 = 0.01;

fn normal(fields: &mut Fields<'_>, unit: Unit) -> Option<Distribution> {
    let sd_item = fields.req("sd");
    let sd = sd_item.f64(from_to(0.0, unit.max()));
    let middle = fields.req("mean");
    let (mean, min, max) = cut(fields, unit, &middle)?;
    let sd = sd?;
    if max - min < WIDTH_MIN * sd {
        sd_item.wrong("at most a hundred times max - min", "write a uniform distribution");
        return None;
    }
    Some(Distribution::Normal { mean, sd, min, max })
}

fn lognormal(fields: &mut Fields<'_>, unit: Unit) -> Option<Distribution> {
    let sigma_item = fields.req("sigma");
    let sigma = sigma_item.f64(from_to(0.0, 10.0));
    let middle = fields.req("median");
    let (median, min, max) = cut(fields, unit, &middle)?;
    let sigma = sigma?;
    if median <= 0.0 {
        middle.wrong("a number above 0", "");
        return None;
    }
    // A least of 0 gives an endless interval of logarithms.
    if (max / min).ln() < WIDTH_MIN * sigma {
        sigma_item
            .wrong("at most a hundred times the logarithm of max / min", "write a uniform distribution");
        return None;
    }
    Some(Distribution::Lognormal { median, sigma, min, max })
}

fn empirical(fields: &mut Fields<'_>, unit: Unit) -> Option<Distribution> {
    let values = fields.req("values").list(1..=100_000);
    let weights_item = fields.opt("weights");
    let values = values?.iter().map(|item| unit.value(item)).collect::<Option<Vec<f64>>>();
    if !weights_item.is_present() {
        let values = values?;
        let weights = vec![1.0; values.len()];
        return Some(Distribution::Empirical { values, weights });
    }
    let weights = weights_item.list(1..=100_000)?;
    let weights = weights.iter().map(|item| item.f64(from_to(0.0, 1e12))).collect::<Option<Vec<f64>>>();
    let (values, weights) = (values?, weights?);
    if weights.len() != values.len() {
        weights_item.wrong(&format!("a weight for each of the {} values", values.len()), "");
        return None;
    }
    if weights.iter().sum::<f64>() <= 0.0 {
        weights_item.fault("weights that sum to 0", "a sum above 0", "");
        return None;
    }
    Some(Distribution::Empirical { values, weights })
}

/// A duration above 0, in seconds.
pub(super) fn positive_seconds(item: &Item<'_>) -> Option<f64> {
    item.f64(above(0.0, DURATION_MAX_SECONDS))
}
