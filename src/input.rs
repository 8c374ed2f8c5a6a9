//! Loading a scenario: its directory's two files, the profile it names, and the trace if it replays one.

use crate::args::{Cache, SourceArgs};
use crate::exit::CommandError;
use crate::files::{MANIFEST, PROFILE, SCENARIO, read_bytes, read_text};
use crate::table::counted;
use scaleproof_calibrate::physics;
use scaleproof_pack::document::Document;
use scaleproof_pack::fault::Faults;
use scaleproof_pack::grid::{self, Axis, What};
use scaleproof_pack::hash::sha256_hex;
use scaleproof_pack::manifest::{ArrivalPattern, Manifest, Placement, TraceFormat};
use scaleproof_pack::report::{ProfileFacts, SystemFacts};
use scaleproof_pack::schedule::trace_rate_rps;
use scaleproof_pack::trace::Trace;
use scaleproof_sim::engine::vllm::VllmScheduler;
use scaleproof_sim::engine::{BatchScheduler, EngineConfig};
use scaleproof_sim::profile::Profile;
use scaleproof_sim::scenario::Scenario;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A scenario with all that it names, checked.
#[derive(Clone)]
pub struct Loaded {
    /// Its directory.
    pub directory: PathBuf,
    /// The manifest's text, which goes into every pack.
    pub manifest_text: String,
    /// What is offered, and the gates.
    pub manifest: Manifest,
    /// The scenario's text, as it goes into every pack: its profile lies beside it there.
    pub scenario_text: String,
    /// The profile's text, which goes into every pack.
    pub profile_text: String,
    /// The fleet and the experiment.
    pub scenario: Scenario,
    /// The engine.
    pub profile: Profile,
    /// SHA-256 of the profile's file, in hexadecimal.
    pub profile_sha256: String,
    /// The trace, for a replay.
    pub trace: Option<Arc<Trace>>,
}

/// Before the path of a field of the profile.
const PROFILE_PREFIX: &str = "profile.";
/// The most KV blocks of a fleet. Far above any fleet that is planned; if every block had a prompt of its own, the
/// simulator would need some 250 bytes for each.
const FLEET_BLOCKS_MAX: u64 = 1 << 27;

/// Loads the scenario that the arguments name, with what they change in it.
pub fn load(args: &SourceArgs) -> Result<Loaded, CommandError> {
    Sources::read(args)?.build(&[])
}

/// Loads the scenario in a directory as it stands there.
pub fn load_scenario(directory: &Path) -> Result<Loaded, CommandError> {
    Sources::of(directory)?.build(&[])
}

/// Loads the scenario that the arguments name on another engine: with this profile in the place of the scenario's.
pub fn load_with_profile(args: &SourceArgs, profile: Option<&Path>) -> Result<Loaded, CommandError> {
    let sources = Sources { profile: profile.map(Path::to_owned), ..Sources::read(args)? };
    sources.build(&[])
}

/// Loads a scenario with its trace, if that is where the manifest says.
pub fn load_with_trace_if_there(directory: &Path) -> Result<Loaded, CommandError> {
    let sources = Sources::of(directory)?;
    let mut loaded = sources.build_files(&[])?;
    if let ArrivalPattern::Trace(source) = &loaded.manifest.client.arrivals
        && sources.directory.join(&source.file).exists()
    {
        loaded.trace = sources.trace(&loaded.manifest)?;
    }
    Ok(loaded)
}

/// A value for an axis of a grid.
pub type Setting<'a> = (&'a Axis, usize);

/// The files of a scenario, read once, of which variants are built.
pub struct Sources {
    directory: PathBuf,
    manifest_text: String,
    manifest: Document,
    scenario_text: String,
    scenario: Document,
    seed: Option<u64>,
    /// The profile to take instead of the scenario's.
    profile: Option<PathBuf>,
    /// The trace to replay instead of the manifest's.
    trace: Option<PathBuf>,
    /// Traces are large: variants share them.
    traces: Mutex<Vec<(PathBuf, TraceFormat, Arc<Trace>)>>,
}

/// Which file a field is in.
enum Target {
    Scenario,
    Manifest,
    Profile,
}

impl Sources {
    /// Reads the two files of the arguments' scenario.
    pub fn read(args: &SourceArgs) -> Result<Sources, CommandError> {
        let sources = Sources::of(&args.scenario)?;
        Ok(Sources { seed: args.seed, trace: args.trace.clone(), ..sources })
    }

    /// Reads a directory's two files, with another profile in the place of the scenario's if there is one.
    pub fn at(path: &Path, profile: Option<&Path>) -> Result<Sources, CommandError> {
        Ok(Sources { profile: profile.map(Path::to_owned), ..Sources::of(path)? })
    }

    /// Reads a directory's two files.
    fn of(path: &Path) -> Result<Sources, CommandError> {
        let directory = directory_of(path);
        if !directory.is_dir() {
            return Err(CommandError::bad_input(format!(
                "{}: found no directory; expected a scenario, a directory with {MANIFEST} and {SCENARIO}; \
                 scenarios/tp2-dp4 is one",
                directory.display()
            )));
        }
        let (manifest_text, manifest) = read_document(&directory.join(MANIFEST))?;
        let (scenario_text, scenario) = read_document(&directory.join(SCENARIO))?;
        Ok(Sources {
            directory: directory.to_owned(),
            manifest_text,
            manifest,
            scenario_text,
            scenario,
            seed: None,
            profile: None,
            trace: None,
            traces: Mutex::default(),
        })
    }

    /// The scenario with these settings in it. Whatever checks the files checks the settings too. Rates and replicas
    /// are no settings of a file: they are left out here.
    pub fn build(&self, settings: &[Setting<'_>]) -> Result<Loaded, CommandError> {
        let mut loaded = self.build_files(settings)?;
        loaded.trace = self.trace(&loaded.manifest)?;
        Ok(loaded)
    }

    /// The same without the trace.
    fn build_files(&self, settings: &[Setting<'_>]) -> Result<Loaded, CommandError> {
        let (mut manifest, mut scenario) = (self.manifest.clone(), self.scenario.clone());
        let mut of_profile = Vec::new();
        for &(axis, value) in settings {
            let What::Field(field) = &axis.what else { continue };
            let option = axis.option(value);
            let document = match self.target(field, &option)? {
                Target::Scenario => &mut scenario,
                Target::Manifest => &mut manifest,
                Target::Profile => {
                    of_profile.push((&field[PROFILE_PREFIX.len()..], &axis.values[value], option));
                    continue;
                }
            };
            document.set(field, &axis.values[value], &option).map_err(CommandError::bad_input)?;
        }
        set_mixes(&mut manifest, settings)?;
        let named = Scenario::profile_path(&scenario).map_err(CommandError::bad_input)?;
        let path = self.profile.clone().unwrap_or_else(|| self.directory.join(named));
        let (profile_text, mut profile) = read_document(&path)?;
        for (field, value, option) in of_profile {
            profile.knows(field, &option, Profile::of).map_err(CommandError::bad_input)?;
            profile.set(field, value, &option).map_err(CommandError::bad_input)?;
        }
        self.check(&manifest, &scenario, &profile, &profile_text)
    }

    /// Reads the three documents as what they are.
    fn check(
        &self,
        manifest: &Document,
        scenario: &Document,
        profile: &Document,
        profile_text: &str,
    ) -> Result<Loaded, CommandError> {
        let mut manifest = Manifest::of(manifest).map_err(CommandError::bad_input)?;
        let file = profile.file().to_owned();
        let profile = Profile::of(profile).map_err(CommandError::bad_input)?;
        physics::check_hardware(&profile).map_err(|e| CommandError::bad_input(format!("{file}: {e}")))?;
        let scenario = Scenario::of(scenario, &profile, &manifest).map_err(CommandError::bad_input)?;
        scenario
            .check_lengths(&self.directory.join(MANIFEST).display().to_string(), &manifest)
            .map_err(CommandError::bad_input)?;
        if let Some(seed) = self.seed {
            manifest.client.request_schedule_seed = seed;
        }
        if manifest.prefix_groups.is_empty() {
            manifest.prefix_groups.clone_from(&scenario.prefix_groups);
        }
        let loaded = Loaded {
            directory: self.directory.clone(),
            manifest_text: self.manifest_text.clone(),
            manifest,
            scenario_text: with_value(&self.scenario_text, "profile", PROFILE)
                .unwrap_or_else(|| self.scenario_text.clone()),
            profile_text: profile_text.to_owned(),
            scenario,
            profile,
            profile_sha256: sha256_hex(profile_text.as_bytes()),
            trace: None,
        };
        loaded.refuse_what_is_not_modelled()?;
        if let Some(scaler) = loaded.scenario.faults.as_ref().and_then(|plan| plan.autoscaler) {
            loaded.check_fleet(scaler.max)?;
        }
        Ok(loaded)
    }

    /// Which file knows a field: the scenario, else the manifest.
    fn target(&self, field: &str, option: &str) -> Result<Target, CommandError> {
        if field.starts_with(PROFILE_PREFIX) {
            return Ok(Target::Profile);
        }
        let base = self.build(&[])?;
        let read = |document: &Document| Scenario::of(document, &base.profile, &base.manifest);
        let Err(of_scenario) = self.scenario.knows(field, option, read) else { return Ok(Target::Scenario) };
        let Err(of_manifest) = self.manifest.knows(field, option, Manifest::of) else {
            return Ok(Target::Manifest);
        };
        let near = |faults: &Faults| faults.0.iter().any(|fault| fault.hint.starts_with("did"));
        let mut faults = if near(&of_manifest) || !near(&of_scenario) { of_manifest } else { of_scenario };
        if let Some(hint) = What::word_near(field) {
            faults.0.iter_mut().for_each(|fault| fault.hint.clone_from(&hint));
        }
        Err(CommandError::bad_input(faults))
    }

    fn trace(&self, manifest: &Manifest) -> Result<Option<Arc<Trace>>, CommandError> {
        let ArrivalPattern::Trace(source) = &manifest.client.arrivals else {
            return match &self.trace {
                None => Ok(None),
                Some(path) => Err(CommandError::bad_input(format!(
                    "--trace {}: found a manifest whose arrivals are generated; expected `arrival_pattern: trace`; \
                     remove --trace or change the manifest",
                    path.display()
                ))),
            };
        };
        let path = self.trace.clone().unwrap_or_else(|| self.directory.join(&source.file));
        let mut traces = self.traces.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((.., trace)) = traces.iter().find(|(p, format, _)| *p == path && *format == source.format)
        {
            return Ok(Some(Arc::clone(trace)));
        }
        if self.trace.is_none() && !path.exists() {
            return Err(CommandError::bad_input(format!(
                "{}: found no such file; expected the trace that the manifest names; put it there or give it with \
                 --trace FILE",
                path.display()
            )));
        }
        let trace = Trace::parse(&path.display().to_string(), source.format, &read_bytes(&path)?)
            .map_err(CommandError::bad_input)?;
        traces.push((path, source.format, Arc::new(trace)));
        Ok(traces.last().map(|(.., trace)| Arc::clone(trace)))
    }
}

/// The scenario's directory, also where one of its files was named.
pub fn directory_of(path: &Path) -> &Path {
    let named = path.file_name().is_some_and(|name| name == SCENARIO || name == MANIFEST);
    match path.parent() {
        Some(parent) if named && path.is_file() && parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) if named && path.is_file() => parent,
        _ => path,
    }
}

/// A text with the plain value at a path replaced by another. None where it is written in an unusual way: as an alias,
/// with a tag, or over several lines.
fn with_value(text: &str, path: &str, new: &str) -> Option<String> {
    let document = Document::parse("", text).ok()?;
    let (old, place) = (document.get(path)?.plain(), document.place(path)?);
    let line_begins: usize = text.split_inclusive('\n').take(place.line as usize - 1).map(str::len).sum();
    let line = &text[line_begins..];
    let indent: usize = line.chars().take(place.column as usize - 1).map(char::len_utf8).sum();
    let (before, value) = text.split_at(line_begins + indent);
    let written = [format!("\"{old}\""), format!("'{old}'"), old];
    let rest = written.iter().find_map(|written| value.strip_prefix(written.as_str()))?;
    let replaced = format!("{before}{new}{rest}");
    let read = Document::parse("", &replaced).ok()?.get(path)?.plain();
    (read == new).then_some(replaced)
}

fn read_document(path: &Path) -> Result<(String, Document), CommandError> {
    let text = read_text(path)?;
    let document = Document::parse(&path.display().to_string(), &text).map_err(CommandError::bad_input)?;
    Ok((text, document))
}

/// The shares of classes among the settings, all at once: each leaves less to the other classes.
fn set_mixes(manifest: &mut Document, settings: &[Setting<'_>]) -> Result<(), CommandError> {
    let mut mixes = Vec::new();
    let mut options = Vec::new();
    for &(axis, value) in settings {
        if let (What::Mix(class), Some(share)) = (&axis.what, grid::number(&axis.values[value])) {
            mixes.push((class.as_str(), share));
            options.push(axis.option(value));
        }
    }
    if mixes.is_empty() {
        return Ok(());
    }
    grid::set_mixes(manifest, &mixes, &options.join(", ")).map_err(CommandError::bad_input)
}

impl Loaded {
    /// The same workload, gates and router before one replica of another system: its profile's model, precision,
    /// placement and engine stand in the place of the manifest's and of the scenario's `engine`. The texts stay as
    /// they were read.
    pub fn with_system(&self, profile: Profile) -> Loaded {
        let mut system = self.clone();
        let (tp, pp) = (profile.tp, profile.pp);
        system.manifest.model.id.clone_from(&profile.model_id);
        system.manifest.model.revision.clone_from(&profile.model_revision);
        system.manifest.model.precision.clone_from(&profile.precision);
        system.manifest.engine.placement =
            Placement { tp, pp, dp: 1, replicas: 1, gpus: tp.saturating_mul(pp) };
        system.scenario.scheduler = EngineConfig {
            enable_prefix_caching: profile.scheduler.enable_prefix_caching
                && self.manifest.engine.prefix_cache,
            ..profile.scheduler.clone()
        };
        system.scenario.max_num_queued_reqs = None;
        // They name replicas of another fleet.
        system.scenario.faults = None;
        system.scenario.max_num_queued_tokens = None;
        system.profile_text = profile.to_yaml(&[]);
        system.profile_sha256 = sha256_hex(system.profile_text.as_bytes());
        system.profile = profile;
        system
    }

    /// The same with a `part`-th of the requests, and of the successes that a class needs; as it is for a trace and for
    /// sessions, whose counts cannot be divided.
    pub fn with_fewer_requests(&self, part: u64) -> Loaded {
        let mut fewer = self.clone();
        let (client, classes) = (&mut fewer.manifest.client, &self.manifest.classes);
        if part > 1 && !client.class_schedule_counts.is_empty() && classes.iter().all(|c| c.session.is_none())
        {
            client.class_schedule_counts.iter_mut().for_each(|count| *count = count.div_ceil(part));
            client.initial_scheduled_requests = client.class_schedule_counts.iter().sum();
            let successes = &mut fewer.manifest.acceptance.min_successful_samples_per_class;
            *successes = successes.div_ceil(part);
        }
        fewer
    }

    /// The files of the scenario in a pack of a fleet of `replicas`: a pack is a scenario again, and says what was
    /// simulated.
    pub fn pack_texts(&self, replicas: u32) -> [(&'static str, String); 3] {
        [
            (MANIFEST, self.manifest_text_of(replicas)),
            (SCENARIO, self.scenario_text.clone()),
            (PROFILE, self.profile_text.clone()),
        ]
    }

    /// The manifest's text as read, or with another fleet's placement in it.
    fn manifest_text_of(&self, replicas: u32) -> String {
        if replicas == self.manifest.engine.placement.replicas {
            return self.manifest_text.clone();
        }
        let gpus = replicas.saturating_mul(self.gpus_per_replica());
        let values = [("dp", replicas), ("replicas", replicas), ("gpus", gpus)];
        let replaced = values.iter().try_fold(self.manifest_text.clone(), |text, (field, value)| {
            with_value(&text, &format!("engine.placement.{field}"), &value.to_string())
        });
        replaced.unwrap_or_else(|| self.manifest_text.clone())
    }

    /// What a simulation of `replicas` replicas rests on.
    pub fn system_facts(&self, replicas: u32, shared_prefixes: bool) -> SystemFacts {
        SystemFacts {
            replicas,
            gpus: replicas.saturating_mul(self.gpus_per_replica()),
            router: self.scenario.router.policy.word().to_owned(),
            cache: if shared_prefixes { "warm" } else { "cold" }.to_owned(),
            profile: Some(self.profile_facts()),
        }
    }

    /// What the simulated engine rests on.
    pub fn profile_facts(&self) -> ProfileFacts {
        let profile = &self.profile;
        ProfileFacts {
            name: profile.name.clone(),
            kind: profile.kind.word().to_owned(),
            gpu: profile.gpu.clone(),
            label: profile.label(),
            expected_relative_error: profile.provenance.expected_relative_error,
            sha256: self.profile_sha256.clone(),
            validity: profile.validity.to_string(),
        }
    }

    /// What is served, for pages: the model and how a replica is laid out.
    pub fn served(&self) -> String {
        let placement = &self.manifest.engine.placement;
        let pipeline = if placement.pp > 1 { format!(", PP{}", placement.pp) } else { String::new() };
        format!("{}, TP{}{pipeline}", self.manifest.model.id, placement.tp)
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
                "--cache: found several; expected cold or warm; only `sweep` and `live` make both experiments",
            )),
        }
    }

    /// A replica's scheduler.
    pub fn engine(&self) -> Box<dyn BatchScheduler + Send> {
        Box::new(
            VllmScheduler::grouping(&self.scenario.scheduler).expect("the scenario's settings were checked"),
        )
    }

    /// Refuses a fleet that no memory would hold, before it is made.
    pub fn check_fleet(&self, replicas: u32) -> Result<(), CommandError> {
        let each = u64::from(self.scenario.scheduler.num_blocks);
        let blocks = each * u64::from(replicas);
        if blocks <= FLEET_BLOCKS_MAX {
            return Ok(());
        }
        Err(CommandError::bad_input(format!(
            "{}: found {blocks} KV blocks, {each} each; expected at most {FLEET_BLOCKS_MAX} in all; \
             check the peak's unit, which is requests per second, or take fewer replicas",
            counted(replicas.into(), "replica")
        )))
    }

    /// GPUs of one replica.
    pub fn gpus_per_replica(&self) -> u32 {
        self.manifest.engine.placement.tp.saturating_mul(self.manifest.engine.placement.pp)
    }

    /// What every number of a text output rests on.
    pub fn footing(&self) -> String {
        let (profile, seed) = (&self.profile, self.manifest.client.request_schedule_seed);
        format!(
            "simulated; seed {seed}; profile {} ({}); valid for {}\n",
            profile.name,
            profile.label(),
            profile.validity
        )
    }

    /// The same of what was measured.
    pub fn live_footing(&self) -> String {
        format!("live; seed {}\n", self.manifest.client.request_schedule_seed)
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
