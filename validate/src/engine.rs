//! A live engine: one or more targets that serve the same model, and what is asked of them.

use crate::attempt::Shared;
use crate::checks::{Around, Tally, checks};
use crate::client::Client;
use crate::clock::RunClock;
use crate::config::{HARD_LIMIT, LiveConfig, LiveRun};
use crate::connection::Pool;
use crate::dispatch::Dispatch;
use crate::driver::{Driver, Message, Status, Told};
use crate::give_up::GivingUp;
use crate::guard::{Guard, HEALTH, check_targets};
use crate::heartbeat::Heartbeat;
use crate::maker::{HashedTokens, PromptMaker};
use crate::news::News;
use crate::probe;
use crate::prompt::{Priming, Tokenizer, Words, prefixes, prime, vocabulary};
use crate::request::{Endpoint, Template};
use crate::route::Routes;
use crate::target::Target;
use crate::watch::Watch;
use hyper::header::HeaderValue;
use scaleproof_pack::experiment::{EngineFacts, Experiment, ExperimentError, Observer, Progress, RunCheck};
use scaleproof_pack::report::Check;
use scaleproof_pack::schedule::Schedule;
use scaleproof_pack::workload::Enough;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// Whether the observer wants to stop is asked this often at least.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// Live targets, ready to run schedules.
pub struct LiveEngine {
    config: LiveConfig,
    runtime: Runtime,
    client: Client,
    authorization: Option<HeaderValue>,
    prompts: Box<dyn PromptMaker>,
    template: Option<Template>,
    salt: u64,
    /// Of the next run's prompts the caches have nothing but what primed them.
    fresh: bool,
    /// Why the next run's shared prefixes are not in the caches.
    unprimed: Option<String>,
}

/// Sees what a run yields and how far it is.
pub trait LiveObserver: Observer {
    /// How far the run is, some ten times a second.
    fn status(&mut self, _status: &Status) {}

    /// What happens beside the records, in order.
    fn news(&mut self, _news: &News) {}
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
    /// Prepares to talk to the targets; sends nothing yet. `salt` makes prompts, where nothing asks for new ones.
    ///
    /// # Errors
    /// No target, a token that no header can hold, or a system without threads to spare.
    pub fn new(config: LiveConfig, salt: u64) -> Result<LiveEngine, ExperimentError> {
        if config.first_target().is_none() {
            return Err(failed(
                "no target: found none that is there from the beginning; expected an address to send requests to",
            ));
        }
        let authorization = config.token.as_deref().map(bearer).transpose()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(config.threads.max(1))
            .enable_all()
            .build()
            .map_err(|error| failed(format!("the event loop cannot start: {error}")))?;
        let client = Client::new(config.tls.clone(), authorization.clone());
        let vocabulary = config.vocabulary.unwrap_or(HashedTokens::VOCABULARY);
        Ok(LiveEngine {
            config,
            runtime,
            client,
            authorization,
            prompts: Box::new(HashedTokens { vocabulary, salt }),
            template: None,
            salt,
            fresh: false,
            unprimed: None,
        })
    }

    /// The template of all requests: asks the first target what it serves and understands, once.
    fn template(&mut self) -> Result<Template, ExperimentError> {
        if let Some(template) = &self.template {
            return Ok(template.clone());
        }
        let found = self.runtime.block_on(probe::template(&self.client, &self.config)).map_err(failed)?;
        let (fetch, salt) = (&self.client, self.salt);
        let target = self.config.first_target().expect("looked for when the engine was made");
        if found.endpoint == Endpoint::Chat {
            let tokenizer = Tokenizer { fetch, target, model: &found.model, endpoint: found.endpoint };
            // Where a server has no tokenizer to ask, the check of its usage says how far off the prompts are.
            if let Ok(words) = self.runtime.block_on(Words::learn(&tokenizer, salt)) {
                self.prompts = Box::new(words);
            }
        } else if self.config.vocabulary.is_none()
            && let Ok(size) = self.runtime.block_on(vocabulary(fetch, target, &found.model))
        {
            self.prompts = Box::new(HashedTokens { vocabulary: size.min(HashedTokens::VOCABULARY), salt });
        }
        Ok(self.template.insert(found).clone())
    }

    /// The next run's prompts are such as no cache has.
    fn freshen(&mut self) {
        if !self.fresh {
            self.prompts.renew(salt());
        }
    }

    /// Asks the first target what it serves and understands, unless that is known already.
    ///
    /// # Errors
    /// If it cannot be reached, or refuses every form of a request.
    pub fn prepare(&mut self) -> Result<(), ExperimentError> {
        self.template().map(|_| ())
    }

    /// Whether anybody answers at a replica's address.
    #[must_use]
    pub fn answers(&self, replica: u32) -> bool {
        let target = self.config.replicas().get(replica as usize);
        target.is_some_and(|target| self.runtime.block_on(self.client.ask(target, HEALTH, None)).is_ok())
    }

    fn shared(&self, template: &Template, clock: RunClock, stopped: watch::Receiver<bool>) -> Shared {
        let config = &self.config;
        let pool = |target: &Target| Pool::new(target.clone(), config.tls.clone(), clock);
        Shared {
            clock,
            pools: config.targets.iter().map(pool).collect(),
            path: template.endpoint.path(),
            authorization: self.authorization.clone(),
            secret: config.token.clone(),
            timeout: config.timeout.unwrap_or(HARD_LIMIT),
            ttft_timeout: config.ttft_timeout,
            connect_timeout: config.resilience.as_ref().map(|rules| rules.connect_timeout),
            stopped,
        }
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
        self.freshen();
        self.fresh = false;
        let clock = RunClock::start();
        let (stop, stopped) = watch::channel(false);
        let shared = Arc::new(self.shared(&template, clock, stopped));
        let config = &self.config;
        let (reply, inbox) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let polled = config.routing.poll_interval.map(|_| reply.clone());
        let mut watch = Watch::start(&self.runtime, &self.client, config, clock, polled);
        let health_checks = config.resilience.as_ref().map_or_else(Vec::new, |rules| {
            let (runtime, check) = (self.runtime.handle(), rules.health_check);
            check_targets(runtime, &self.client, &config.targets, check, clock, &reply)
        });
        let heartbeat = Heartbeat::start(self.runtime.handle());
        let (routes, guard) = routing(config, schedule);
        let driver = Driver {
            dispatch: Dispatch::new(schedule, enough, config.ramp),
            routes,
            guard,
            giving_up: config.give_up.clone().map(|rules| GivingUp::new(rules, schedule)),
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
            let stopped = observe(&told, &reply, observer, (&mut tally, &mut watch));
            (driver.join(), stopped)
        });
        health_checks.iter().for_each(tokio::task::JoinHandle::abort);
        let status = match ended {
            Ok(ended) => {
                ended.map_err(|error| failed(format!("the schedule cannot be continued: {error}")))?
            }
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let (loop_lags_ns, cpu_share) = heartbeat.finish(config.threads);
        let watched = watch.finish(&self.runtime, observer);
        let around = Around {
            loop_lags_ns,
            cpu_share,
            forced_length: template.features.forced_length && template.ignore_eos,
            cold: !schedule.shared_prefixes,
            servers: watched.total,
        };
        let counts = shared.pools.iter().map(Pool::counts).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        Ok(LiveRun {
            checks: checks(&config.limits, tally, &status, around),
            status,
            stopped,
            block_size: watched.block_size,
            gaps: self.unprimed.take().into_iter().chain(watched.gaps).collect(),
            connections: counts.0,
            reused: counts.1,
        })
    }
}

/// Who chooses among the targets, and what is done about those that fail.
fn routing(config: &LiveConfig, schedule: &Schedule) -> (Routes, Option<Guard>) {
    let (targets, absent) = (config.targets.len() as u32, config.absent_targets());
    let mut routes = Routes::new(config.routing, targets, schedule);
    let guard = config.resilience.map(|rules| Guard::new(rules, targets, absent, schedule));
    if guard.is_some() {
        absent
            .iter()
            .filter(|&&target| target < targets)
            .for_each(|&target| routes.set_available(target, false));
    }
    (routes, guard)
}

/// Gives the observer what the driver tells, until the driver has ended. Returns whether the observer stopped it.
fn observe(
    told: &Receiver<Told>,
    to_driver: &Sender<Message>,
    observer: &mut dyn LiveObserver,
    (tally, watch): (&mut Tally, &mut Watch),
) -> bool {
    let mut stopped = false;
    loop {
        watch.pass_on(observer);
        match told.recv_timeout(ASK_EVERY) {
            Ok(Told::Record(record)) => {
                tally.push(&record);
                observer.record(&record);
            }
            Ok(Told::News(news)) => observer.news(&news),
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
        self.fresh = self.runtime.block_on(reset).map_err(failed)?;
        Ok(self.fresh)
    }

    fn prime(&mut self, schedule: &Schedule) -> Result<(), ExperimentError> {
        if !schedule.shared_prefixes {
            return Ok(());
        }
        let template = self.template()?;
        self.freshen();
        self.fresh = true;
        let replicas = self.config.present();
        let priming = Priming { fetch: &self.client, replicas: &replicas, path: template.endpoint.path() };
        let (prompts, prefixes) = (self.prompts.as_mut(), prefixes(schedule));
        let primed = prime(&priming, &prefixes, |segments| template.body(prompts.prompt(segments), 1, 0));
        self.unprimed = self
            .runtime
            .block_on(primed)
            .err()
            .map(|why| format!("the shared prefixes were not in the caches before the run: {why}"));
        Ok(())
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
