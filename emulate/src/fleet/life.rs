//! One life of a replica, from its start to its end: an engine in its thread, and the server before it.

use super::{Blueprint, ReplicaSummary};
use crate::api::Api;
use crate::book::{Book, Ended};
use crate::config::EmulateError;
use crate::engine::{Command, Engine, Shared};
use crate::fault::{Conditions, Fault};
use crate::link::{Door, Switch};
use scaleproof_pack::chance;
use std::future::IntoFuture;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task;

/// A running replica. Dropping it kills it.
pub(super) struct Life {
    commands: Sender<Command>,
    conditions: watch::Sender<Conditions>,
    dead: watch::Sender<bool>,
    shared: Shared,
    server: task::JoinHandle<()>,
    engine: Option<JoinHandle<()>>,
}

impl Life {
    /// Begins behind `listener`. `life` counts the lives before.
    pub fn begin(
        blueprint: &Blueprint,
        replica: u32,
        life: u64,
        listener: TcpListener,
    ) -> Result<Life, EmulateError> {
        let config = &blueprint.config;
        let shared = Shared::new(config.limits.max_request_tokens);
        let engine = Engine::new(config, replica, life, shared.clone(), blueprint.step_log.clone())?;
        let (commands, received) = mpsc::channel();
        let thread = thread::Builder::new()
            .name(format!("replica {replica}"))
            .spawn(move || engine.run(&received))
            .map_err(EmulateError::Start)?;
        let conditions = watch::Sender::new(Conditions::default());
        let dead = watch::Sender::new(false);
        let api = Api {
            facts: Arc::new(config.facts()),
            commands: commands.clone(),
            shared: shared.clone(),
            conditions: conditions.subscribe(),
            chance: Arc::new(Mutex::new(chance::stream(
                config.seed,
                life,
                &format!("emulate faults {replica}"),
            ))),
            requests: Arc::new(AtomicU64::new(0)),
            time_scale: config.time_scale,
        };
        let service = api.router().into_make_service_with_connect_info::<Switch>();
        let serving = axum::serve(Door::new(listener, dead.subscribe()), service).into_future();
        let server = tokio::spawn(async move {
            // It only ends with its task.
            let _ = serving.await;
        });
        Ok(Life { commands, conditions, dead, shared, server, engine: Some(thread) })
    }

    /// What it is under.
    pub fn conditions(&self) -> Conditions {
        *self.conditions.borrow()
    }

    /// Puts it under one more fault.
    pub fn under(&self, fault: &Fault) {
        let conditions = self.conditions().under(fault);
        // The engine ends only with its life.
        let _ = self.commands.send(Command::Conditions(conditions));
        self.conditions.send_replace(conditions);
    }

    /// Kills it: connections are reset, the port refuses. Returns what it counted.
    pub async fn end(mut self) -> Book {
        self.kill();
        // The listener is closed once its task is gone.
        let _ = (&mut self.server).await;
        if let Some(engine) = self.engine.take() {
            let _ = task::spawn_blocking(|| engine.join()).await;
        }
        self.shared.book().clone()
    }

    fn kill(&self) {
        self.dead.send_replace(true);
        self.server.abort();
        let _ = self.commands.send(Command::End);
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.kill();
    }
}

impl ReplicaSummary {
    pub(super) fn add(&mut self, book: &Book) {
        self.completed += book.ended(Ended::Length);
        self.aborted += book.ended(Ended::Abort);
        self.rejected += book.rejected.0 + book.rejected.1;
        self.tokens += book.generation_tokens;
        self.steps += book.steps;
        self.preemptions += book.totals.preemptions;
    }
}
