//! All replicas of an emulator: started, stopped and started again, each on the address it had.

mod life;

use crate::admin;
use crate::config::{Config, EmulateError};
use crate::fault::{Conditions, Fault};
use crate::histogram::Lags;
use crate::step_log::StepLog;
use life::Life;
use scaleproof_pack::time::Nanos;
use serde::Serialize;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, MutexGuard};
use tokio::task::JoinHandle;

/// A running fleet. Ends when it is shut down; dropping it ends it too, without a summary.
pub struct Emulator {
    fleet: Arc<Fleet>,
    admin_address: SocketAddr,
    admin: JoinHandle<()>,
}

/// What the fleet did.
#[derive(Debug)]
pub struct Summary {
    /// By replica.
    pub replicas: Vec<ReplicaSummary>,
    /// How late steps ended, over all replicas and all their lives.
    lags: Lags,
    /// Why steps are missing in the file of the steps, if some are.
    pub step_log_failure: Option<std::io::Error>,
}

/// What one replica did, over all its lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaSummary {
    /// Requests that had all their tokens.
    pub completed: u64,
    /// Requests whose clients went away.
    pub aborted: u64,
    /// Requests refused because of a queue limit.
    pub rejected: u64,
    /// Tokens given.
    pub tokens: u64,
    /// Steps.
    pub steps: u64,
    /// Times a request lost its blocks.
    pub preemptions: u64,
}

impl Summary {
    /// Steps in all.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.lags.count()
    }

    /// How long after its moment the step at this share of all steps ended, at most; None without a step.
    #[must_use]
    pub fn step_lag(&self, share: f64) -> Option<Duration> {
        self.lags.percentile(share)
    }

    /// The largest of these.
    #[must_use]
    pub fn step_lag_max(&self) -> Duration {
        self.lags.max()
    }
}

/// What a replica is doing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplicaState {
    /// Its number.
    pub replica: u32,
    /// Where it listens when it runs.
    pub address: SocketAddr,
    /// `up`, `starting` or `stopped`.
    pub state: &'static str,
    /// What it is under, while it is up.
    pub conditions: Option<Conditions>,
}

/// A replica's place.
struct Slot {
    address: SocketAddr,
    life: Option<Life>,
    /// Lives before this one.
    past_lives: u64,
    /// A start that is under way.
    starting: Option<JoinHandle<()>>,
    past: ReplicaSummary,
    past_lags: Lags,
}

/// The replicas.
pub(crate) struct Fleet {
    blueprint: Blueprint,
    slots: Vec<Mutex<Slot>>,
}

/// What every life of a replica is made from.
pub(super) struct Blueprint {
    config: Config,
    step_log: Option<StepLog>,
}

impl Emulator {
    /// Starts all replicas, with empty caches.
    ///
    /// # Errors
    /// A setting that cannot be, or a port that cannot be had.
    pub async fn start(config: Config) -> Result<Emulator, EmulateError> {
        config.check()?;
        let step_log = config.steps.as_deref().map(StepLog::create).transpose()?;
        let blueprint = Blueprint { config, step_log };
        let config = &blueprint.config;
        let mut slots = Vec::new();
        for replica in 0..config.replicas {
            let port = if config.port == 0 { 0 } else { config.port + replica as u16 };
            let listener = bind(SocketAddr::new(config.host, port)).await?;
            let address = listener.local_addr().map_err(EmulateError::Start)?;
            let life = Life::begin(&blueprint, replica, 0, listener)?;
            slots.push(Mutex::new(Slot {
                address,
                life: Some(life),
                past_lives: 0,
                starting: None,
                past: ReplicaSummary::default(),
                past_lags: Lags::default(),
            }));
        }
        let listener = bind(SocketAddr::new(config.host, config.admin_port)).await?;
        let admin_address = listener.local_addr().map_err(EmulateError::Start)?;
        let fleet = Arc::new(Fleet { blueprint, slots });
        let admin = tokio::spawn(admin::serve(listener, Arc::clone(&fleet)));
        Ok(Emulator { fleet, admin_address, admin })
    }

    /// Where the replicas listen, in their order.
    pub async fn addresses(&self) -> Vec<SocketAddr> {
        self.fleet.states().await.into_iter().map(|state| state.address).collect()
    }

    /// Where faults are taken.
    #[must_use]
    pub fn admin_address(&self) -> SocketAddr {
        self.admin_address
    }

    /// What the replicas are doing.
    pub async fn states(&self) -> Vec<ReplicaState> {
        self.fleet.states().await
    }

    /// Does something to a replica.
    ///
    /// # Errors
    /// No such replica, a fault that cannot be, or a port that somebody else has taken since.
    pub async fn fault(&self, replica: u32, fault: &Fault) -> Result<(), EmulateError> {
        self.fleet.fault(replica, fault).await
    }

    /// Ends all replicas at once, and says what they did.
    pub async fn shutdown(self) -> Summary {
        let mut summary = Summary { replicas: Vec::new(), lags: Lags::default(), step_log_failure: None };
        for slot in &self.fleet.slots {
            let mut slot = slot.lock().await;
            slot.stop().await;
            summary.replicas.push(slot.past);
            summary.lags.add(&slot.past_lags);
        }
        summary.step_log_failure = self.fleet.blueprint.step_log.as_ref().and_then(StepLog::failure);
        summary
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.admin.abort();
        for slot in &self.fleet.slots {
            if let Ok(mut slot) = slot.try_lock() {
                slot.abandon_start();
                slot.life = None;
            }
        }
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, EmulateError> {
    TcpListener::bind(address).await.map_err(|error| EmulateError::Bind { address, error })
}

impl Fleet {
    pub(crate) fn replicas(&self) -> u32 {
        self.blueprint.config.replicas
    }

    pub(crate) async fn states(&self) -> Vec<ReplicaState> {
        let mut states = Vec::new();
        for (replica, slot) in self.slots.iter().enumerate() {
            let slot = slot.lock().await;
            let state = match (&slot.life, &slot.starting) {
                (Some(_), _) => "up",
                (None, Some(_)) => "starting",
                (None, None) => "stopped",
            };
            let conditions = slot.life.as_ref().map(Life::conditions);
            states.push(ReplicaState { replica: replica as u32, address: slot.address, state, conditions });
        }
        states
    }

    pub(crate) async fn fault(self: &Arc<Self>, replica: u32, fault: &Fault) -> Result<(), EmulateError> {
        fault.check()?;
        let mut slot = self.slot(replica).await?;
        match *fault {
            Fault::Stop { start_up_seconds } => {
                slot.stop().await;
                match start_up_seconds {
                    Some(seconds) => self.start(replica, slot, seconds).await,
                    None => Ok(()),
                }
            }
            Fault::Start { .. } if slot.life.is_some() => {
                Err(EmulateError::Fault(format!("replica {replica}: found it up; expected a stopped one")))
            }
            Fault::Start { start_up_seconds } => {
                slot.abandon_start();
                self.start(replica, slot, start_up_seconds).await
            }
            _ => match &slot.life {
                Some(life) => {
                    life.under(fault);
                    Ok(())
                }
                None => {
                    Err(EmulateError::Fault(format!("replica {replica}: found it stopped; expected it up")))
                }
            },
        }
    }

    async fn slot(&self, replica: u32) -> Result<MutexGuard<'_, Slot>, EmulateError> {
        match self.slots.get(replica as usize) {
            Some(slot) => Ok(slot.lock().await),
            None => {
                let last = self.slots.len() - 1;
                Err(EmulateError::Fault(format!("replica: found {replica}; expected 0 to {last}")))
            }
        }
    }

    /// Starts a stopped replica, which is ready after `start_up_seconds` of the engine's time.
    async fn start(
        self: &Arc<Self>,
        replica: u32,
        mut slot: MutexGuard<'_, Slot>,
        start_up_seconds: f64,
    ) -> Result<(), EmulateError> {
        let start_up = Nanos::from_seconds(start_up_seconds * self.blueprint.config.time_scale)
            .map_err(|error| EmulateError::Fault(error.to_string()))?;
        if start_up == Nanos::ZERO {
            return slot.revive(&self.blueprint, replica).await;
        }
        let fleet = Arc::clone(self);
        slot.starting = Some(tokio::spawn(async move {
            tokio::time::sleep(Duration::from_nanos(start_up.0)).await;
            if let Ok(mut slot) = fleet.slot(replica).await {
                slot.starting = None;
                // Somebody else has its port: it stays stopped, as its state says.
                let _ = slot.revive(&fleet.blueprint, replica).await;
            }
        }));
        Ok(())
    }
}

impl Slot {
    fn abandon_start(&mut self) {
        if let Some(starting) = self.starting.take() {
            starting.abort();
        }
    }

    async fn stop(&mut self) {
        self.abandon_start();
        if let Some(life) = self.life.take() {
            let book = life.end().await;
            self.past.add(&book);
            self.past_lags.add(&book.lags);
            self.past_lives += 1;
        }
    }

    async fn revive(&mut self, blueprint: &Blueprint, replica: u32) -> Result<(), EmulateError> {
        let listener = bind(self.address).await?;
        self.life = Some(Life::begin(blueprint, replica, self.past_lives, listener)?);
        Ok(())
    }
}
