//! Loading a scenario: its directory's two files, the profile it names, and the trace if it replays one.

use crate::args::{Cache, ScenarioArgs};
use crate::exit::CommandError;
use crate::files::{read_bytes, read_text};
use scaleproof_pack::hash::sha256_hex;
use scaleproof_pack::manifest::{ArrivalPattern, Manifest};
use scaleproof_pack::report::{ProfileFacts, SystemFacts};
use scaleproof_pack::schedule::trace_rate_rps;
use scaleproof_pack::trace::Trace;
use scaleproof_sim::engine::BatchScheduler;
use scaleproof_sim::engine::vllm::VllmScheduler;
use scaleproof_sim::profile::Profile;
use scaleproof_sim::scenario::Scenario;
use std::path::{Path, PathBuf};

/// A scenario with all that it names, checked.
pub struct Loaded {
    /// Its directory.
    pub directory: PathBuf,
    /// The manifest's text, which goes into every pack.
    pub manifest_text: String,
    /// What is offered, and the gates.
    pub manifest: Manifest,
    /// The scenario's text, which goes into every pack.
    pub scenario_text: String,
    /// The fleet and the experiment.
    pub scenario: Scenario,
    /// The engine.
    pub profile: Profile,
    /// SHA-256 of the profile's file, in hexadecimal.
    pub profile_sha256: String,
    /// The trace, for a replay.
    pub trace: Option<Trace>,
}

/// The files of a scenario's directory, and of every pack.
pub const MANIFEST: &str = "workload-manifest.yaml";
/// See [`MANIFEST`].
pub const SCENARIO: &str = "scenario.yaml";

/// Loads the scenario that the arguments name, with what they change in it.
pub fn load(args: &ScenarioArgs) -> Result<Loaded, CommandError> {
    let mut loaded = load_directory(&args.scenario, args.trace.as_deref())?;
    if let Some(seed) = args.seed {
        loaded.manifest.client.request_schedule_seed = seed;
    }
    Ok(loaded)
}

/// Loads the scenario in a directory, with `trace` instead of the file that its manifest names.
fn load_directory(directory: &Path, trace: Option<&Path>) -> Result<Loaded, CommandError> {
    let mut loaded = load_files(directory)?;
    loaded.trace = load_trace(directory, &loaded.manifest, trace)?;
    Ok(loaded)
}

/// Loads a scenario's own files and its profile, but no trace.
pub fn load_files(directory: &Path) -> Result<Loaded, CommandError> {
    if !directory.is_dir() {
        return Err(CommandError::bad_input(format!(
            "{}: found no directory; expected a scenario, a directory with {MANIFEST} and {SCENARIO}; \
             scenarios/tp2-dp4 is one",
            directory.display()
        )));
    }
    let (manifest_path, scenario_path) = (directory.join(MANIFEST), directory.join(SCENARIO));
    let (manifest_text, scenario_text) = (read_text(&manifest_path)?, read_text(&scenario_path)?);
    let mut manifest = Manifest::parse(&manifest_path.display().to_string(), &manifest_text)
        .map_err(CommandError::bad_input)?;
    let scenario_name = scenario_path.display().to_string();
    let profile_path = directory
        .join(Scenario::profile_path(&scenario_name, &scenario_text).map_err(CommandError::bad_input)?);
    let profile_text = read_text(&profile_path)?;
    let profile = Profile::parse(&profile_path.display().to_string(), &profile_text)
        .map_err(CommandError::bad_input)?;
    let scenario = Scenario::parse(&scenario_name, &scenario_text, &profile, &manifest)
        .map_err(CommandError::bad_input)?;
    if manifest.prefix_groups.is_empty() {
        manifest.prefix_groups.clone_from(&scenario.prefix_groups);
    }
    let profile_sha256 = sha256_hex(profile_text.as_bytes());
    let loaded = Loaded {
        directory: directory.to_owned(),
        manifest_text,
        manifest,
        scenario_text,
        scenario,
        profile,
        profile_sha256,
        trace: None,
    };
    loaded.refuse_what_is_not_modelled()?;
    Ok(loaded)
}

fn load_trace(
    directory: &Path,
    manifest: &Manifest,
    given: Option<&Path>,
) -> Result<Option<Trace>, CommandError> {
    let ArrivalPattern::Trace(source) = &manifest.client.arrivals else {
        return match given {
            None => Ok(None),
            Some(path) => Err(CommandError::bad_input(format!(
                "--trace {}: found a manifest whose arrivals are generated; expected `arrival_pattern: trace`; \
                 remove --trace or change the manifest",
                path.display()
            ))),
        };
    };
    let path = given.map_or_else(|| directory.join(&source.file), Path::to_owned);
    if given.is_none() && !path.exists() {
        return Err(CommandError::bad_input(format!(
            "{}: found no such file; expected the trace that the manifest names; put it there or give it with \
             --trace FILE",
            path.display()
        )));
    }
    let bytes = read_bytes(&path)?;
    let trace =
        Trace::parse(&path.display().to_string(), source.format, &bytes).map_err(CommandError::bad_input)?;
    Ok(Some(trace))
}

impl Loaded {
    /// What a simulation of `replicas` replicas rests on.
    pub fn system_facts(&self, replicas: u32, shared_prefixes: bool) -> SystemFacts {
        let profile = &self.profile;
        SystemFacts {
            replicas,
            gpus: replicas.saturating_mul(self.gpus_per_replica()),
            router: self.scenario.router.policy.word().to_owned(),
            cache: if shared_prefixes { "warm" } else { "cold" }.to_owned(),
            profile: Some(ProfileFacts {
                name: profile.name.clone(),
                kind: profile.kind.word().to_owned(),
                gpu: profile.gpu.clone(),
                sha256: self.profile_sha256.clone(),
                validity: profile.validity.to_string(),
            }),
        }
    }

    /// The manifest's path, as faults name it.
    pub fn manifest_file(&self) -> String {
        self.directory.join(MANIFEST).display().to_string()
    }

    /// The one cache state asked for, or else the scenario's.
    pub fn shared_prefixes(&self, asked: &[Cache]) -> Result<bool, CommandError> {
        match asked {
            [] => Ok(self.scenario.experiment.shared_prefixes),
            [cache] => Ok(*cache == Cache::Warm),
            _ => Err(CommandError::bad_input(
                "--cache: found several; expected cold or warm; only `sweep` makes both experiments",
            )),
        }
    }

    /// A replica's scheduler.
    pub fn engine(&self) -> Box<dyn BatchScheduler + Send> {
        Box::new(VllmScheduler::new(&self.scenario.scheduler).expect("the scenario's settings were checked"))
    }

    /// GPUs of one replica.
    pub fn gpus_per_replica(&self) -> u32 {
        self.manifest.engine.placement.tp.saturating_mul(self.manifest.engine.placement.pp)
    }

    /// What every number of a text output rests on.
    pub fn footing(&self) -> String {
        let profile = &self.profile;
        let hardware = profile.gpu.as_ref().map_or_else(
            || "names no GPU, so no hardware bound was checked".to_owned(),
            |gpu| format!("on {gpu}"),
        );
        format!(
            "simulated; seed {}; profile {} ({}, {hardware}); valid for {}\n",
            self.manifest.client.request_schedule_seed,
            profile.name,
            profile.kind.word(),
            profile.validity
        )
    }

    /// The rate of the trace as it is replayed, in requests per second.
    pub fn trace_rate(&self) -> Option<f64> {
        match (&self.manifest.client.arrivals, &self.trace) {
            (ArrivalPattern::Trace(source), Some(trace)) => trace_rate_rps(source, trace),
            _ => None,
        }
    }

    /// Refuses a manifest that asks for what the simulator does not do: a number would look fine and be wrong.
    fn refuse_what_is_not_modelled(&self) -> Result<(), CommandError> {
        let engine = &self.manifest.engine;
        let placement = engine.placement;
        let mut faults = Vec::new();
        let file = self.manifest_file();
        for (on, field) in [
            (engine.speculative_decoding, "engine.speculative_decoding"),
            (engine.disaggregated_prefill, "engine.disaggregated_prefill"),
        ] {
            if on {
                faults.push(format!(
                    "{file}: {field}: found enabled; expected disabled; it is not modelled yet"
                ));
            }
        }
        let profile = &self.profile;
        for (field, found, expected) in [
            ("engine.placement.tp", placement.tp.to_string(), profile.tp.to_string()),
            ("engine.placement.pp", placement.pp.to_string(), profile.pp.to_string()),
            ("model.id", self.manifest.model.id.clone(), profile.model_id.clone()),
            ("model.revision", self.manifest.model.revision.clone(), profile.model_revision.clone()),
            ("model.precision", self.manifest.model.precision.clone(), profile.precision.clone()),
        ] {
            if found != expected {
                faults.push(format!(
                    "{file}: {field}: found {found}; expected {expected}, as in the profile {}; name a profile \
                     that was made for this system",
                    profile.name
                ));
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(CommandError::bad_input(faults.join("\n"))) }
    }
}
