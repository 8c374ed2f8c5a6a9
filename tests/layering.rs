//! The rooms and their arrows (docs/architecture.md): reads the manifests and fails on any other.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Which of our crates each crate may depend on.
const ARROWS: [(&str, &[&str]); 7] = [
    ("pack", &[]),
    ("policy", &["pack"]),
    ("sim", &["pack", "policy"]),
    ("calibrate", &["pack", "policy", "sim"]),
    ("validate", &["pack", "policy"]),
    ("emulate", &["pack", "policy", "sim"]),
    (".", &["pack", "policy", "sim", "calibrate", "validate", "emulate"]),
];

/// Crates that decide in virtual time: no runtime, no network, no terminal, no files, no threads.
const PURE: [&str; 3] = ["pack", "policy", "sim"];
const BANNED_IN_PURE: [&str; 8] =
    ["tokio", "reqwest", "hyper", "clap", "indicatif", "tempfile", "rayon", "num_cpus"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn dependencies(manifest: &Path, tables: &[&str]) -> BTreeSet<String> {
    let text = std::fs::read_to_string(manifest).unwrap();
    let parsed: toml::Table = text.parse().unwrap();
    let of = |table: &&str| parsed.get(*table).and_then(toml::Value::as_table);
    tables.iter().filter_map(of).flat_map(|table| table.keys().cloned()).collect()
}

fn ours(names: &BTreeSet<String>) -> BTreeSet<String> {
    names.iter().filter_map(|name| name.strip_prefix("scaleproof-")).map(str::to_owned).collect()
}

#[test]
fn crates_depend_only_along_the_arrows() {
    for (room, allowed) in ARROWS {
        let manifest = root().join(room).join("Cargo.toml");
        if !manifest.exists() {
            continue;
        }
        let found = ours(&dependencies(&manifest, &["dependencies", "build-dependencies"]));
        let allowed: BTreeSet<String> = allowed.iter().map(|s| (*s).to_owned()).collect();
        let wrong: Vec<_> = found.difference(&allowed).collect();
        assert!(wrong.is_empty(), "{}: may not depend on {wrong:?}", manifest.display());
    }
}

#[test]
fn every_member_is_a_known_room() {
    let text = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let parsed: toml::Table = text.parse().unwrap();
    for member in parsed["workspace"]["members"].as_array().unwrap() {
        let member = member.as_str().unwrap();
        assert!(ARROWS.iter().any(|(room, _)| *room == member), "no arrows are written down for {member}");
    }
}

#[test]
fn pure_crates_stay_pure() {
    for room in PURE {
        let found =
            dependencies(&root().join(room).join("Cargo.toml"), &["dependencies", "build-dependencies"]);
        let wrong: Vec<_> = BANNED_IN_PURE.iter().filter(|name| found.contains(**name)).collect();
        assert!(wrong.is_empty(), "{room} may not depend on {wrong:?}");
        let bans = std::fs::read_to_string(root().join(room).join("clippy.toml")).unwrap();
        for ban in ["std::time::Instant", "std::fs::File", "std::env::var", "std::collections::HashMap"] {
            assert!(bans.contains(ban), "{room}/clippy.toml no longer bans {ban}");
        }
    }
}
