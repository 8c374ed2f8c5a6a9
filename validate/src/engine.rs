//! A live engine: one or more targets that serve the same model, and what is asked of them.

use crate::attempt::Shared;
use crate::checks::{Around, Limits, Tally, checks};
use crate::client::Client;
use crate::clock::RunClock;
use crate::connection::Pool;
use crate::dispatch::Dispatch;
use crate::driver::{Driver, Message, Status, Told};
use crate::heartbeat::Heartbeat;
use crate::maker::PromptMaker;
use crate::probe;
use crate::request::{Endpoint, Template};
use crate::route::{Routes, Routing};
use crate::target::Target;
use hyper::header::HeaderValue;
use scaleproof_pack::experiment::{EngineFacts, Experiment, ExperimentError, Observer, Progress, RunCheck};
use scaleproof_pack::report::Check;
use scaleproof_pack::schedule::Schedule;
use scaleproof_pack::time::Nanos;
use scaleproof_pack::workload::Enough;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// An attempt without a time limit of its own is given up after this.
pub const HARD_LIMIT: Nanos = Nanos(600_000_000_000);
/// Whether the observer wants to stop is asked this often at least.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// How a live run is made.
pub struct LiveConfig {
    /// Where requests go.
    pub targets: Vec<Target>,
    /// For the targets that speak TLS.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// The bearer token, if one is needed. Never printed.
    pub token: Option<String>,
    /// Which endpoint.
    pub endpoint: Endpoint,
    /// The model's id; None: the first that the target names.
    pub model: Option<String>,
    /// Whether answers are streamed.
    pub streaming: bool,
    /// Whether the answers' length is forced.
    pub ignore_eos: bool,
    /// Further parameters of each request.
    pub sampling: Vec<(String, f64)>,
    /// The client gives up this long after sending; None: [`HARD_LIMIT`].
    pub timeout: Option<Nanos>,
    /// The client gives up without a first token this long after sending.
    pub ttft_timeout: Option<Nanos>,
    /// The clients of a closed loop begin spread over this.
    pub ramp: Nanos,
    /// Who chooses among several targets.
    pub routing: Routing,
    /// Threads of the event loop.
    pub threads: usize,
    /// What the self-checks let pass.
    pub limits: Limits,
}

/// What a run was, beside its records.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveRun {
    /// The last state.
    pub status: Status,
    /// The self-checks.
    pub checks: Vec<Check>,
    /// Whether the observer stopped it early.
    pub stopped: bool,
    /// Connections opened.
    pub connections: u64,
    /// Requests sent on a connection that was open already.
    pub reused: u64,
}

/// Live targets, ready to run schedules.
pub struct LiveEngine {
    config: LiveConfig,
    runtime: Runtime,
    client: Client,
    authorization: Option<HeaderValue>,
    prompts: Box<dyn PromptMaker>,
    template: Option<Template>,
    /// The prefix caches were emptied, and nothing was sent since.
    caches_are_empty: bool,
}

/// Sees what a run yields and how far it is.
pub trait LiveObserver: Observer {
    /// How far the run is, some ten times a second.
    fn status(&mut self, _status: &Status) {}
}

/// An observer that asks for nothing more.
struct Plain<'a>(&'a mut dyn Observer);

impl Observer for Plain<'_> {
    fn record(&mut self, record: &scaleproof_pack::record::Record) {
        self.0.record(record);
    }
    fn sample(&mut self, row: &scaleproof_pack::timeline::TimelineRow) {
        self.0.sample(row);
    }
    fn progress(&mut self, progress: Progress) {
        self.0.progress(progress);
    }
    fn stop(&mut self) -> bool {
        self.0.stop()
    }
}

impl LiveObserver for Plain<'_> {}

impl LiveEngine {
    /// Prepares to talk to the targets; sends nothing yet.
    ///
    /// # Errors
    /// No target, a token that no header can hold, or a system without threads to spare.
    pub fn new(config: LiveConfig, prompts: Box<dyn PromptMaker>) -> Result<LiveEngine, ExperimentError> {
        if config.targets.is_empty() {
            return Err(failed("no target: expected at least one address to send requests to"));
        }
        let authorization = config.token.as_deref().map(bearer).transpose()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(config.threads.max(1))
            .enable_all()
            .build()
            .map_err(|error| failed(format!("the event loop cannot start: {error}")))?;
        let client = Client::new(config.tls.clone(), authorization.clone());
        Ok(LiveEngine {
            config,
            runtime,
            client,
            authorization,
            prompts,
            template: None,
            caches_are_empty: false,
        })
    }

    /// The template of all requests: asks the first target what it serves and understands, once.
    fn template(&mut self) -> Result<Template, ExperimentError> {
        if let Some(template) = &self.template {
            return Ok(template.clone());
        }
        let found = self.runtime.block_on(probe::template(&self.client, &self.config)).map_err(failed)?;
        Ok(self.template.insert(found).clone())
    }

    /// Asks the first target what it serves and understands, unless that is known already.
    ///
    /// # Errors
    /// If it cannot be reached, or refuses every form of a request.
    pub fn prepare(&mut self) -> Result<(), ExperimentError> {
        self.template().map(|_| ())
    }

    /// Runs a schedule from its beginning until it has had `enough`.
    ///
    /// # Errors
    /// If no request could be made, or the schedule not be continued. What the observer was given until then is valid.
    pub fn run_live(
        &mut self,
        schedule: &Schedule,
        enough: Enough,
        observer: &mut dyn LiveObserver,
    ) -> Result<LiveRun, ExperimentError> {
        let template = self.template()?;
        if !std::mem::take(&mut self.caches_are_empty) && !schedule.shared_prefixes {
            // A cold run must find nothing that an earlier one left.
            self.prompts.renew(salt());
        }
        let clock = RunClock::start();
        let (stop, stopped) = watch::channel(false);
        let config = &self.config;
        let pool = |target: &Target| Pool::new(target.clone(), config.tls.clone(), clock);
        let shared = Arc::new(Shared {
            clock,
            pools: config.targets.iter().map(pool).collect(),
            path: template.endpoint.path(),
            authorization: self.authorization.clone(),
            secret: config.token.clone(),
            timeout: config.timeout.unwrap_or(HARD_LIMIT),
            ttft_timeout: config.ttft_timeout,
            stopped,
        });
        let (reply, inbox) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let heartbeat = Heartbeat::start(self.runtime.handle());
        let driver = Driver {
            dispatch: Dispatch::new(schedule, enough, config.ramp),
            routes: Routes::new(config.routing, config.targets.len() as u32, schedule),
            prompts: self.prompts.as_mut(),
            template: &template,
            shared: Arc::clone(&shared),
            runtime: self.runtime.handle().clone(),
            inbox,
            reply: reply.clone(),
            tell,
            stop,
        };
        let mut tally = Tally::default();
        let (ended, stopped) = std::thread::scope(|scope| {
            let driver = scope.spawn(|| driver.run());
            let stopped = observe(&told, &reply, observer, &mut tally);
            (driver.join(), stopped)
        });
        let status = match ended {
            Ok(ended) => {
                ended.map_err(|error| failed(format!("the schedule cannot be continued: {error}")))?
            }
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let (loop_lags_ns, cpu_share) = heartbeat.finish(config.threads);
        let forced_length = template.features.forced_length && template.ignore_eos;
        let around = Around { loop_lags_ns, cpu_share, forced_length, cold_hit_share: None };
        let counts = shared.pools.iter().map(Pool::counts).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        Ok(LiveRun {
            checks: checks(&config.limits, tally, &status, around),
            status,
            stopped,
            connections: counts.0,
            reused: counts.1,
        })
    }
}

/// Gives the observer what the driver tells, until the driver has ended. Returns whether the observer stopped it.
fn observe(
    told: &Receiver<Told>,
    to_driver: &Sender<Message>,
    observer: &mut dyn LiveObserver,
    tally: &mut Tally,
) -> bool {
    let mut stopped = false;
    loop {
        match told.recv_timeout(ASK_EVERY) {
            Ok(Told::Record(record)) => {
                tally.push(&record);
                observer.record(&record);
            }
            Ok(Told::Sample(row)) => observer.sample(&row),
            Ok(Told::Status(status)) => {
                observer.status(&status);
                let Status { now, ended, planned, .. } = status;
                observer.progress(Progress { now, ended, planned });
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return stopped,
        }
        if !stopped && observer.stop() {
            stopped = true;
            let _ = to_driver.send(Message::Stop);
        }
    }
}

impl Experiment for LiveEngine {
    fn engine(&mut self) -> Result<EngineFacts, ExperimentError> {
        let template = self.template()?;
        self.runtime.block_on(probe::facts(&self.client, &self.config, &template)).map_err(failed)
    }

    fn run(
        &mut self,
        schedule: &Schedule,
        enough: Enough,
        observer: &mut dyn Observer,
    ) -> Result<RunCheck, ExperimentError> {
        let run = self.run_live(schedule, enough, &mut Plain(observer))?;
        Ok(RunCheck { invalid: run.checks.iter().filter_map(Check::failure).collect(), stopped: run.stopped })
    }

    fn reset_prefix_cache(&mut self) -> Result<bool, ExperimentError> {
        let reset = probe::reset_prefix_cache(&self.client, &self.config);
        self.caches_are_empty = self.runtime.block_on(reset).map_err(failed)?;
        Ok(self.caches_are_empty)
    }
}

/// A number that no earlier run had.
fn salt() -> u64 {
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since_1970.map_or(0, |passed| passed.as_nanos() as u64)
}

/// The header of a bearer token. It is not shown by whatever prints headers.
fn bearer(token: &str) -> Result<HeaderValue, ExperimentError> {
    let value = HeaderValue::from_str(&format!("Bearer {token}"));
    let mut value =
        value.map_err(|_| failed("the token: found a character that no header can hold; check its file"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn failed(error: impl Into<String>) -> ExperimentError {
    ExperimentError(error.into())
}
