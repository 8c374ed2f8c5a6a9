//! The gates of a point: attainment and successes of each class, the error rate, the queue trend. Nothing else
//! gates.

use crate::manifest::Acceptance;
use crate::report::{ClassReport, Gate, GateValue};
use crate::trend::Verdict;
use std::collections::BTreeMap;

/// Every gate with its result, classes first.
pub(super) fn gates(
    acceptance: &Acceptance,
    classes: &BTreeMap<String, ClassReport>,
    error_rate: Option<f64>,
    trend: Verdict,
) -> Vec<Gate> {
    let mut gates = Vec::new();
    for (name, class) in classes {
        let required = acceptance.class_slo_attainment_min;
        gates.push(Gate {
            name: format!("attainment:{name}"),
            observed: GateValue::Share(class.attainment),
            relation: ">=".into(),
            required: GateValue::Share(Some(required)),
            pass: class.attainment.is_some_and(|a| a >= required),
        });
        gates.push(Gate {
            name: format!("samples:{name}"),
            observed: GateValue::Count(class.successful_count),
            relation: ">=".into(),
            required: GateValue::Count(acceptance.min_successful_samples_per_class),
            pass: class.sample_adequate,
        });
    }
    gates.push(Gate {
        name: "error_rate".into(),
        observed: GateValue::Share(error_rate),
        relation: "<=".into(),
        required: GateValue::Share(Some(acceptance.error_rate_max)),
        pass: error_rate.is_some_and(|rate| rate <= acceptance.error_rate_max),
    });
    if acceptance.queue_trend_flat_required {
        gates.push(Gate {
            name: "queue_trend".into(),
            observed: GateValue::Word(trend.word().into()),
            relation: "=".into(),
            required: GateValue::Word(Verdict::Flat.word().into()),
            pass: trend == Verdict::Flat,
        });
    }
    gates
}
