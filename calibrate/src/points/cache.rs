//! What a point says of its prefix cache.

use super::{Assumed, PointError, unusable};
use scaleproof_pack::import::OperatingPoint;

/// Against the engine that is to serve it, and the workload.
pub(super) fn check(
    point: &OperatingPoint,
    assumed: &Assumed,
    notes: &mut Vec<String>,
) -> Result<(), PointError> {
    match (point.prefix_hit_share, &assumed.workload) {
        (Some(share), _) if share > 0.0 && !assumed.prefix_caching => unusable(
            "prefix_hit_share",
            share.to_string(),
            "0 of an engine without prefix cache; predict the prior without --no-prefix-caching",
        ),
        (Some(share), Some(_)) => {
            notes.push(format!(
                "a prefix_hit_share of {share} is not simulated: --workload says what prompts share"
            ));
            Ok(())
        }
        (Some(share), None) if share > 0.0 => {
            notes.push(
                "prompts begin with their prefix_hit_share of tokens that are the same in all, which the cache holds but for \
                 the first: their own histories would take more of the KV cache"
                    .to_owned(),
            );
            Ok(())
        }
        (None, None) if assumed.prefix_caching => {
            notes.push(
                "the source does not say how much of the prompts was cached (prefix_hit_share): the cache is taken as cold, \
                 and prompts as sharing nothing"
                    .to_owned(),
            );
            Ok(())
        }
        _ => Ok(()),
    }
}
