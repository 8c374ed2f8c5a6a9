//! The arguments of `failure-test`.

use crate::args::{ScenarioArgs, rate, seed};
use crate::commands::live::{EndpointArg, RouterArg, TargetArgs, router};
use crate::commands::observability::interval;
use clap::{Args, ValueEnum};
use scaleproof_pack::time::Nanos;
use std::path::PathBuf;

/// Arguments of `failure-test`.
#[derive(Debug, Args)]
pub struct FailureTestArgs {
    #[command(flatten)]
    pub common: ScenarioArgs,
    /// What is injected
    #[arg(long, value_enum, default_value = "kill")]
    pub fault: FaultArg,
    /// Offered rate, in requests per second [default: the highest of the scenario's that passes without a fault]
    #[arg(long, value_name = "R", allow_negative_numbers = true, value_parser = rate)]
    pub rate: Option<f64>,
    /// Whom it meets; several are met at once [default: 0; all for cancellations and rolling-restart]
    #[arg(long, value_name = "N,N,...", value_delimiter = ',')]
    pub replica: Vec<u32>,
    /// When, in seconds of the run [default: after the warm-up and a fifth of the arrivals]
    #[arg(long, value_name = "S", allow_negative_numbers = true, value_parser = rate)]
    pub at: Option<f64>,
    /// For how long, in seconds: hang, slow, link, kv-cut [default: 120; a hang lasts until its watchdog]
    #[arg(long = "for", value_name = "S", allow_negative_numbers = true, value_parser = rate)]
    pub lasts: Option<f64>,
    /// slow: each step takes this many times as long
    #[arg(long, value_name = "X", default_value_t = 3.0, allow_negative_numbers = true, value_parser = rate)]
    pub factor: f64,
    /// link: added to each message, each way, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 200.0, allow_negative_numbers = true, value_parser = rate)]
    pub latency_ms: f64,
    /// link: share of connections that fail, and of those opened that break
    #[arg(long, value_name = "SHARE", default_value_t = 0.2, allow_negative_numbers = true, value_parser = share)]
    pub loss: f64,
    /// kv-cut: share of the KV blocks; cancellations: share of what is in flight
    #[arg(long, value_name = "SHARE", default_value_t = 0.8, allow_negative_numbers = true, value_parser = share)]
    pub share: f64,
    /// Repeat with so many schedules and seeds, for the intervals
    #[arg(long, value_name = "K", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub repeats: u64,
    /// The first repeat; 0 has the manifest's own schedule
    #[arg(long, default_value_t = 0, value_parser = seed)]
    pub run: u64,
    #[command(flatten)]
    pub live: LiveFaultArgs,
}

/// A test against real engines.
#[derive(Clone, Debug, Args)]
pub struct LiveFaultArgs {
    /// Against real engines: schedules are sent to --target, and --inject makes the fault
    #[arg(long, requires = "targets")]
    pub live: bool,
    /// An endpoint that speaks OpenAI's API. Several are routed here: what fails is left out, and requests sent again
    #[arg(long = "target", value_name = "URL", requires = "live")]
    pub targets: Vec<String>,
    /// A replica behind the target, in the order of their numbers, of which the metrics are read [default: the targets]
    #[arg(long = "replica-url", value_name = "URL", requires = "live")]
    pub replica_urls: Vec<String>,
    /// A shell command that makes the fault. Cancellations need none: the load generator's own clients give up
    #[arg(long, value_name = "COMMAND", requires = "live")]
    pub inject: Option<String>,
    /// A shell command that ends it, after --for. After a kill or a hang that is a repair by hand
    #[arg(long, value_name = "COMMAND", requires = "live")]
    pub restore: Option<String>,
    /// Simulate the same, and put the prediction of --repeats runs beside the result
    #[arg(long, requires = "live")]
    pub predict: bool,
    /// Take the alerts that a Prometheus posts here, to /api/v2/alerts, instead of evaluating the rules over the run
    #[arg(long, value_name = "PORT", requires = "live")]
    pub alert_port: Option<u16>,
    /// Evaluate the rules every so many seconds
    #[arg(long, value_name = "S", default_value = "5", allow_negative_numbers = true, value_parser = interval)]
    pub interval_s: Nanos,
    /// Serve the client's own metrics here, for Prometheus, at /metrics
    #[arg(long, value_name = "PORT", requires = "live")]
    pub metrics_port: Option<u16>,
    /// Which endpoint takes the requests
    #[arg(long, value_enum, default_value = "completions")]
    pub endpoint: EndpointArg,
    /// The model's id at the endpoint [default: the first that it lists]
    #[arg(long, value_name = "ID", requires = "live")]
    pub model: Option<String>,
    /// Who chooses among several targets [default: the scenario's]
    #[arg(long, value_name = "ROUTER", value_parser = router, requires = "live")]
    pub router: Option<RouterArg>,
    /// A file with the bearer token
    #[arg(long, value_name = "FILE", conflicts_with = "token_env", requires = "live")]
    pub token_file: Option<PathBuf>,
    /// An environment variable with the bearer token
    #[arg(long, value_name = "NAME", requires = "live")]
    pub token_env: Option<String>,
    /// A file of certificates, in PEM, to trust beside the public authorities
    #[arg(long, value_name = "FILE", requires = "live")]
    pub ca: Option<PathBuf>,
    /// Ids of the prompts' tokens are below this [default: 4096, or the engine's vocabulary if it is smaller]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(16..=10_000_000))]
    pub vocabulary: Option<u32>,
}

impl LiveFaultArgs {
    /// Where requests go. `--replica` is taken by whom the fault meets.
    pub fn targets(&self) -> TargetArgs {
        TargetArgs {
            targets: self.targets.clone(),
            replicas: self.replica_urls.clone(),
            endpoint: self.endpoint,
            model: self.model.clone(),
            router: self.router.clone(),
            token_file: self.token_file.clone(),
            token_env: self.token_env.clone(),
            ca: self.ca.clone(),
            vocabulary: self.vocabulary,
        }
    }

    /// What of them is no matter of the targets, as one types it.
    pub fn typed(&self) -> Vec<String> {
        let mut words = vec!["--live".to_owned()];
        for (option, value) in [
            ("--inject", self.inject.clone()),
            ("--restore", self.restore.clone()),
            ("--alert-port", self.alert_port.map(|port| port.to_string())),
            ("--metrics-port", self.metrics_port.map(|port| port.to_string())),
        ] {
            words.extend(value.into_iter().flat_map(|value| [option.to_owned(), value]));
        }
        words.extend(self.predict.then(|| "--predict".to_owned()));
        words
    }
}

/// What can be injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FaultArg {
    /// The process ends, and is started again
    Kill,
    /// It neither computes nor answers
    Hang,
    /// Its steps take longer
    Slow,
    /// The way to it is slow and loses connections
    Link,
    /// A part of its KV blocks is gone
    KvCut,
    /// Clients give up what is in flight, all at once
    Cancellations,
    /// It is not there before, and starts cold
    ColdStart,
    /// All are drained and started anew, one after another
    RollingRestart,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("expected a share from 0 to 1".to_owned()),
    }
}
