//! Our scenario.yaml beside its manifest.

use super::document::Document;
use super::rules;
use crate::yaml::Value;

pub(super) fn judge(document: &mut Document<'_>, manifest: &Document<'_>) {
    let cache = "experiment.cache";
    if document.text(cache) != Some("warm") {
        return;
    }
    let hashed = manifest.text("client.trace.format") == Some("mooncake");
    let sessions = manifest
        .list("workload")
        .iter()
        .any(|class| matches!(&class.value, Value::Map(fields) if fields.iter().any(|f| f.key == "session")));
    let groups = |document: &Document<'_>| !document.list("prefix_groups").is_empty();
    if manifest.text("engine.prefix_cache") == Some("disabled") {
        let found = "cache: warm, with the manifest's engine.prefix_cache: disabled";
        document.find(&rules::WARM_SHARES_NOTHING, cache, found);
    } else if !hashed && !sessions && !groups(document) && !groups(manifest) {
        document.find(&rules::WARM_SHARES_NOTHING, cache, "cache: warm, and no prefix_groups");
    }
}
