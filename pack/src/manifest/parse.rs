//! From text to a checked manifest: the top level, the model, the engine and the gates.

use super::{
    Acceptance, ArrivalPattern, Engine, Manifest, Model, Placement, REQUESTS_MAX, TraceFormat, arrivals,
    client, workload,
};
use crate::document::Document;
use crate::fault::Faults;
use crate::fields::{Fields, Item, above, from_to};

/// The words of an engine's switches.
const SWITCH: [(&str, bool); 2] = [("enabled", true), ("disabled", false)];

impl Manifest {
    /// Reads and checks a manifest. `file` only names it in the faults.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with its place, what was found and what was expected.
    pub fn parse(file: &str, text: &str) -> Result<Manifest, Faults> {
        Manifest::of(&Document::parse(file, text)?)
    }

    /// The same for a file that is parsed already.
    ///
    /// # Errors
    /// As [`Manifest::parse`].
    pub fn of(document: &Document) -> Result<Manifest, Faults> {
        document.read(manifest)
    }
}

fn manifest(top: &mut Fields<'_>) -> Option<Manifest> {
    let cutoff = date(&top.req("cutoff"));
    let workload_revision = pinned(&top.opt("workload_revision"));
    let model = top.req("model").fields().map(model);
    let engine = top.req("engine").fields().map(engine);
    let mut client = top.req("client").fields();
    let (arrivals, trace) = client.as_mut().map_or((None, false), arrivals::pattern);
    let classes = workload::classes(&top.req("workload"), trace);
    let hashed = matches!(&arrivals, Some(ArrivalPattern::Trace(t)) if t.format == TraceFormat::Mooncake);
    let client = client.and_then(|fields| client::client(fields, arrivals, classes.as_deref()));
    let groups_item = top.opt("prefix_groups");
    let names: Option<Vec<&str>> =
        classes.as_ref().map(|all| all.iter().map(|read| read.class.name.as_str()).collect());
    let prefix_groups = workload::read_prefix_groups(&groups_item, names.as_deref());
    if hashed {
        groups_item.refuse("since the trace's block hashes name what is shared");
    }
    let acceptance = top.req("acceptance").fields().map(acceptance);
    Some(Manifest {
        cutoff: cutoff?,
        workload_revision,
        model: model??,
        engine: engine??,
        client: client?,
        classes: classes?.into_iter().map(|read| read.class).collect(),
        prefix_groups: prefix_groups?,
        acceptance: acceptance??,
    })
}

fn model(mut fields: Fields<'_>) -> Option<Model> {
    let id = fields.req("id").string();
    let revision = pinned(&fields.req("revision"));
    let tokenizer_revision = pinned(&fields.req("tokenizer_revision"));
    let precision = fields.req("precision").string();
    let chat_template_revision = pinned(&fields.opt("chat_template_revision"));
    fields.finish();
    Some(Model {
        id: id?,
        revision: revision?,
        tokenizer_revision: tokenizer_revision?,
        precision: precision?,
        chat_template_revision,
    })
}

fn engine(mut fields: Fields<'_>) -> Option<Engine> {
    let name = fields.req("name").string();
    let version = pinned(&fields.req("version"));
    let scheduler_revision = pinned(&fields.opt("scheduler_revision"));
    let placement = fields.req("placement").fields().map(placement);
    let prefix_cache = fields.req("prefix_cache").word(&SWITCH);
    let speculative_decoding = fields.req("speculative_decoding").word(&SWITCH);
    let disaggregated_prefill = fields.req("disaggregated_prefill").word(&SWITCH);
    fields.finish();
    Some(Engine {
        name: name?,
        version: version?,
        scheduler_revision,
        placement: placement??,
        prefix_cache: prefix_cache?,
        speculative_decoding: speculative_decoding?,
        disaggregated_prefill: disaggregated_prefill?,
    })
}

fn placement(mut fields: Fields<'_>) -> Option<Placement> {
    let tp = fields.req("tp").u32(1..=1024);
    let pp = fields.req("pp").u32(1..=1024);
    let dp_item = fields.req("dp");
    let dp = dp_item.u32(1..=100_000);
    let replicas = fields.req("replicas").u32(1..=100_000);
    let gpus_item = fields.req("gpus");
    let gpus = gpus_item.u32(1..=u32::MAX);
    fields.finish();
    let placement = Placement { tp: tp?, pp: pp?, dp: dp?, replicas: replicas?, gpus: gpus? };
    if placement.dp != placement.replicas {
        dp_item.wrong(&format!("{}, as replicas", placement.replicas), "dp counts independent replicas");
    }
    let product = u64::from(placement.replicas) * u64::from(placement.tp) * u64::from(placement.pp);
    if u64::from(placement.gpus) != product {
        gpus_item.wrong(&format!("{product} = replicas x tp x pp"), "");
    }
    Some(placement)
}

fn acceptance(mut fields: Fields<'_>) -> Option<Acceptance> {
    let class_slo_attainment_min = fields.req("class_slo_attainment_min").f64(from_to(0.0, 1.0));
    let min_successful = fields.req("min_successful_samples_per_class").u64(0..=REQUESTS_MAX);
    let error_rate_max = fields.req("error_rate_max").f64(from_to(0.0, 1.0));
    let trend = fields.req("queue_trend_required").word(&[("flat", true), ("any", false)]);
    let target_utilization = fields.req("target_utilization").f64(above(0.0, 1.0));
    fields.finish();
    Some(Acceptance {
        class_slo_attainment_min: class_slo_attainment_min?,
        min_successful_samples_per_class: min_successful?,
        error_rate_max: error_rate_max?,
        queue_trend_flat_required: trend?,
        target_utilization: target_utilization?,
    })
}

/// Whether a revision may name another state tomorrow: a branch, a moving tag, a range.
#[must_use]
pub fn is_movable(revision: &str) -> bool {
    const MOVING: [&str; 6] = ["latest", "main", "master", "head", "nightly", "stable"];
    let mut parts = revision.split(['/', ':', '@']);
    parts.any(|part| MOVING.iter().any(|word| part.trim().eq_ignore_ascii_case(word)))
        || revision.contains(['*', '>', '<', '~', '^'])
}

/// A revision that names one state for ever.
fn pinned(item: &Item<'_>) -> Option<String> {
    let text = item.string()?;
    if is_movable(&text) {
        item.wrong(
            "an immutable revision",
            "write the commit, digest or exact version that it stands for today",
        );
        return None;
    }
    Some(text)
}

/// A calendar date, kept as written.
fn date(item: &Item<'_>) -> Option<String> {
    let text = item.string()?;
    if crate::time::civil_day(&text).is_none() {
        item.wrong("a date as 2026-08-29", "");
        return None;
    }
    Some(text)
}
