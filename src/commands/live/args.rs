//! The arguments of `scaleproof live`.

use crate::args::{Format, SourceArgs, rate, seed};
use clap::{Args, ValueEnum};
use scaleproof_pack::document::Document;
use scaleproof_policy::RouterPolicy;
use scaleproof_validate::Endpoint;
use std::path::PathBuf;

/// Arguments of `live`.
#[derive(Debug, Args)]
pub struct LiveArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    #[command(flatten)]
    pub targets: TargetArgs,
    /// Open loop at these offered rates, in requests per second, one after the other [default: the scenario's highest]
    #[arg(long, alias = "rate", alias = "rates", value_name = "R,R,...", value_delimiter = ',', allow_negative_numbers = true, value_parser = rate)]
    pub rps: Vec<f64>,
    /// Closed loop with so many clients
    #[arg(long, alias = "concurrencies", value_name = "N,N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub concurrency: Vec<u32>,
    /// Which independent repeat of the schedule; 0 is the manifest's own
    #[arg(long, default_value_t = 0, value_parser = seed)]
    pub run: u64,
    /// So many independent repeats of each point, from --run on
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub repeats: u64,
    /// The clients of a closed loop begin spread over so many seconds
    #[arg(long, value_name = "S", default_value_t = 0.0, value_parser = crate::args::seconds)]
    pub ramp_s: f64,
    /// Threads for the connections [default: half of the cores, at most 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,
    /// A run is invalid if the 99th percentile of its sending is later than this [default: 5, or a hundredth of the
    /// smallest TTFT cutoff if that is more]
    #[arg(long, value_name = "MS", value_parser = rate)]
    pub max_send_lag_ms: Option<f64>,
    /// Serve the client's own metrics here, for Prometheus, at /metrics; 0 is any port that is free
    #[arg(long, value_name = "PORT")]
    pub metrics_port: Option<u16>,
    /// Write the pack here [default: a new directory under out/]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Continue the study in --out: points that are whole and of this very scenario are not run again
    #[arg(long, requires = "out")]
    pub resume: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// Where requests go, and how.
#[derive(Clone, Debug, Args)]
pub struct TargetArgs {
    /// An endpoint that speaks OpenAI's API, as http://host:8000. Give it several times to route here, without a router
    #[arg(long = "target", value_name = "URL")]
    pub targets: Vec<String>,
    /// A replica behind the target, of which the metrics are read [default: the targets themselves]
    #[arg(id = "replica_addresses", long = "replica", value_name = "URL")]
    pub replicas: Vec<String>,
    /// Which endpoint takes the requests
    #[arg(long, value_enum, default_value = "completions")]
    pub endpoint: EndpointArg,
    /// The model's id at the endpoint [default: the first that it lists]
    #[arg(long, value_name = "ID")]
    pub model: Option<String>,
    /// Who chooses among several targets [default: the scenario's]
    #[arg(long, value_name = "ROUTER", value_parser = router)]
    pub router: Option<RouterArg>,
    /// A file with the bearer token
    #[arg(long, value_name = "FILE", conflicts_with = "token_env")]
    pub token_file: Option<PathBuf>,
    /// An environment variable with the bearer token
    #[arg(long, value_name = "NAME")]
    pub token_env: Option<String>,
    /// A file of certificates, in PEM, to trust beside the public authorities
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Ids of the prompts' tokens are below this [default: 4096, or the engine's vocabulary if it is smaller]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(16..=10_000_000))]
    pub vocabulary: Option<u32>,
}

/// See [`Endpoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EndpointArg {
    /// /v1/completions.
    Completions,
    /// /v1/chat/completions.
    Chat,
}

impl From<EndpointArg> for Endpoint {
    fn from(endpoint: EndpointArg) -> Endpoint {
        match endpoint {
            EndpointArg::Completions => Endpoint::Completions,
            EndpointArg::Chat => Endpoint::Chat,
        }
    }
}

/// A router as it was typed.
#[derive(Clone, Debug)]
pub struct RouterArg {
    /// What was typed.
    pub text: String,
    /// What that is.
    pub policy: RouterPolicy,
}

/// A router by its word, or as in scenario.yaml with its parameters: `{policy: weighted, ...}`.
pub fn router(text: &str) -> Result<RouterArg, String> {
    let mapping = if text.contains(':') { text.to_owned() } else { format!("policy: {text}") };
    let document = Document::parse("--router", &mapping).map_err(|faults| faults.to_string())?;
    let policy = document.read(RouterPolicy::read).map_err(|faults| faults.to_string())?;
    Ok(RouterArg { text: text.to_owned(), policy })
}

impl TargetArgs {
    /// Who chooses among several targets.
    pub fn router_or(&self, of_scenario: RouterPolicy) -> RouterPolicy {
        self.router.as_ref().map_or(of_scenario, |router| router.policy)
    }

    /// The same arguments as one types them, the replicas behind `replica_option`.
    pub fn typed(&self, replica_option: &str) -> Vec<String> {
        let endpoint = self.endpoint.to_possible_value().map(|value| value.get_name().to_owned());
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let each = |option: &str, values: &[String]| -> Vec<String> {
            values.iter().flat_map(|value| [option.to_owned(), value.clone()]).collect()
        };
        let mut words = each("--target", &self.targets);
        words.extend(each(replica_option, &self.replicas));
        for (option, value) in [
            ("--endpoint", endpoint.filter(|_| self.endpoint != EndpointArg::Completions)),
            ("--model", self.model.clone()),
            ("--router", self.router.as_ref().map(|router| router.text.clone())),
            ("--token-file", path(&self.token_file)),
            ("--token-env", self.token_env.clone()),
            ("--ca", path(&self.ca)),
            ("--vocabulary", self.vocabulary.map(|size| size.to_string())),
        ] {
            words.extend(value.into_iter().flat_map(|value| [option.to_owned(), value]));
        }
        words
    }
}
