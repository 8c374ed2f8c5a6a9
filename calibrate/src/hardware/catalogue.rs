//! The shipped files, and finding an entry by its name.

use scaleproof_pack::fault::{Fault, Faults, suggestion};
use scaleproof_pack::fields::Item;

/// The GPUs: file name and text.
pub(super) const GPUS: [(&str, &str); 8] = [
    ("a100-40g.yaml", include_str!("../../../models/gpus/a100-40g.yaml")),
    ("a100-80g.yaml", include_str!("../../../models/gpus/a100-80g.yaml")),
    ("b200.yaml", include_str!("../../../models/gpus/b200.yaml")),
    ("h100-sxm.yaml", include_str!("../../../models/gpus/h100-sxm.yaml")),
    ("h200.yaml", include_str!("../../../models/gpus/h200.yaml")),
    ("l40s.yaml", include_str!("../../../models/gpus/l40s.yaml")),
    ("rtx-4090.yaml", include_str!("../../../models/gpus/rtx-4090.yaml")),
    ("rtx-pro-6000.yaml", include_str!("../../../models/gpus/rtx-pro-6000.yaml")),
];

/// The architectures: file name and text.
pub(super) const ARCHITECTURES: [(&str, &str); 8] = [
    ("llama-2-70b.yaml", include_str!("../../../models/architectures/llama-2-70b.yaml")),
    ("llama-3.1-70b.yaml", include_str!("../../../models/architectures/llama-3.1-70b.yaml")),
    ("llama-3.1-8b.yaml", include_str!("../../../models/architectures/llama-3.1-8b.yaml")),
    ("llama-3.2-1b.yaml", include_str!("../../../models/architectures/llama-3.2-1b.yaml")),
    ("mistral-7b-v0.3.yaml", include_str!("../../../models/architectures/mistral-7b-v0.3.yaml")),
    ("qwen2.5-72b.yaml", include_str!("../../../models/architectures/qwen2.5-72b.yaml")),
    ("qwen2.5-7b.yaml", include_str!("../../../models/architectures/qwen2.5-7b.yaml")),
    ("qwen3-32b.yaml", include_str!("../../../models/architectures/qwen3-32b.yaml")),
];

/// An entry of the catalogue: what it is called.
pub(super) trait Named {
    fn names(&self) -> impl Iterator<Item = &str>;
}

/// What a name stands for.
#[derive(Clone, Debug, PartialEq)]
pub enum Found<T> {
    /// An entry of the catalogue.
    Entry(T),
    /// It looks like a file: the caller reads it.
    File,
}

/// Looks a name up, whatever its case. A name with a slash, or that ends as a file does, is a file.
pub(super) fn find<T: Named>(what: &str, name: &str, entries: Vec<T>) -> Result<Found<T>, Faults> {
    let lower = name.to_lowercase();
    if [".yaml", ".yml", ".json"].iter().any(|end| lower.ends_with(end)) || name.contains('/') {
        return Ok(Found::File);
    }
    let position = entries.iter().position(|entry| entry.names().any(|known| known == lower));
    if let Some(position) = position {
        return Ok(Found::Entry(entries.into_iter().nth(position).expect("the position is of this list")));
    }
    Err(Fault {
        file: name.to_owned(),
        found: format!("no such {what}"),
        expected: "a name in the catalogue, or the path of a .yaml or .json file".to_owned(),
        hint: suggestion(&lower, entries.iter().flat_map(Named::names)),
        ..Fault::default()
    }
    .into())
}

/// Reads the other names of an entry.
pub(super) fn aliases(item: &Item<'_>) -> Option<Vec<String>> {
    if !item.is_present() {
        return Some(Vec::new());
    }
    item.list(0..=100)?.iter().map(name).collect()
}

/// Reads a name: in lower case, since that is how names are compared.
pub(super) fn name(item: &Item<'_>) -> Option<String> {
    let name = item.string()?;
    if name != name.to_lowercase() {
        item.wrong("a name in lower case", "");
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Fails for a file that nobody embedded, and for an embedded text that is no longer the file's.
    #[test]
    fn every_file_of_the_catalogue_is_embedded() {
        for (folder, embedded) in [("gpus", &GPUS[..]), ("architectures", &ARCHITECTURES[..])] {
            let path = format!("{}/../models/{folder}", env!("CARGO_MANIFEST_DIR"));
            let names: BTreeSet<String> = std::fs::read_dir(&path)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            let listed: BTreeSet<String> = embedded.iter().map(|(name, _)| (*name).to_owned()).collect();
            assert_eq!(names, listed, "{path} and catalogue.rs differ");
        }
    }
}
