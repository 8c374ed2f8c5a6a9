//! Whether gates and queues come out the same on both sides, repeat by repeat: exact sign tests.

use super::draws::Drawn;
use super::measure::{Pair, Point, Run};
use crate::capacity::Judgement;
use crate::trend;

/// What a sign test is about.
#[derive(Clone, Copy, PartialEq)]
enum Sign {
    Gates,
    Trend,
}

impl Sign {
    /// Of both sides of a pair.
    fn of(self, pair: &Pair) -> (bool, bool) {
        match self {
            Sign::Gates => passing(pair),
            Sign::Trend => trends(pair),
        }
    }

    /// Of a drawn engine, judged as the point's pairs are.
    fn of_drawn(self, point: &Point, drawn: &Drawn) -> bool {
        match self {
            Sign::Gates => without_trend(drawn.judgement.clone(), point.pairs.iter().all(trends_known)).pass,
            Sign::Trend => drawn.grows,
        }
    }
}

/// The sign tests of each point: of the gates and of the queue's trend. Two-sided, over the repeats in which the sides
/// disagree; what an engine drawn from the profile's uncertainty does as well is no evidence against the profile.
pub(super) fn sign_tests(points: &[&Point]) -> Vec<f64> {
    let tests = |point: &&Point| [p_of_signs(point, Sign::Gates), p_of_signs(point, Sign::Trend)];
    points.iter().flat_map(tests).collect()
}

/// Whether each side passes its gates. Where a side's queue trend is not known, as of an engine that shows no queue, both
/// are taken without that gate.
pub(super) fn passing(pair: &Pair) -> (bool, bool) {
    let (a, b) = judgements(pair);
    (a.pass, b.pass)
}

pub(super) fn judgements(pair: &Pair) -> (Judgement, Judgement) {
    let known = trends_known(pair);
    let judged = |run: &Run| without_trend(Judgement::of(&run.report), known);
    (judged(&pair.predicted), judged(&pair.measured))
}

/// A judgement without the queue's gate where its trend is not known on both sides.
fn without_trend(mut judged: Judgement, known: bool) -> Judgement {
    if !known {
        judged.failing_gates.retain(|gate| gate != "queue_trend");
        judged.pass = judged.failing_gates.is_empty();
    }
    judged
}

/// Whether the queue's trend is known on both sides.
pub(super) fn trends_known(pair: &Pair) -> bool {
    let known = |run: &Run| run.report.queue_trend != trend::Verdict::Undetermined;
    known(&pair.predicted) && known(&pair.measured)
}

/// Whether each side's queue grows; neither does where one is not known.
pub(super) fn trends(pair: &Pair) -> (bool, bool) {
    let grows = |run: &Run| run.report.queue_trend == trend::Verdict::Growing;
    if trends_known(pair) { (grows(&pair.predicted), grows(&pair.measured)) } else { (false, false) }
}

fn p_of_signs(point: &Point, sign: Sign) -> f64 {
    let count = |way: (bool, bool)| point.pairs.iter().filter(|pair| sign.of(pair) == way).count();
    let (disagree, measured) = match (count((true, false)), count((false, true))) {
        (0, 0) => return 1.0,
        // Both ways: no more than chance.
        (a, b) if a > 0 && b > 0 => return 1.0,
        (a, b) => (a + b, b > 0),
    };
    if point.draws.iter().any(|drawn| sign.of_drawn(point, drawn) == measured) {
        return 1.0;
    }
    (2.0 * 0.5f64.powi(disagree.min(1000) as i32)).min(1.0)
}
