//! The targets' own metrics beside a run: rows of its timeline, the loads that a router may go by, and what the counters say of
//! the run as a whole.

use crate::client::Client;
use crate::clock::RunClock;
use crate::config::LiveConfig;
use crate::driver::Message;
use crate::engine::LiveObserver;
use crate::scrape::{Counters, History, Scraper};
use scaleproof_pack::timeline::TimelineRow;
use std::sync::mpsc::Sender;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Scrapes while a run lasts.
pub(crate) struct Watch {
    scraper: Scraper,
    /// Who goes by the loads, if anybody does.
    router: Option<Sender<Message>>,
}

/// What the scrapes of a run say of it.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// Growth over the run, all replicas together.
    pub total: Counters,
    /// Tokens of a KV block.
    pub block_size: Option<u32>,
    /// What is missing, in words.
    pub gaps: Vec<String>,
}

impl Watch {
    pub(crate) fn start(
        runtime: &Runtime,
        client: &Client,
        config: &LiveConfig,
        clock: RunClock,
        router: Option<Sender<Message>>,
    ) -> Watch {
        let _inside = runtime.enter();
        let sampled = config.sample_interval;
        let every = Duration::from_nanos(
            config.routing.poll_interval.map_or(sampled, |polled| polled.min(sampled)).0,
        );
        Watch { scraper: Scraper::start(client, config.replicas(), every, clock.began().into()), router }
    }

    /// Passes on what has been scraped.
    pub(crate) fn pass_on(&mut self, observer: &mut dyn LiveObserver) {
        while let Some(row) = self.scraper.try_row() {
            observer.sample(&row);
            if let Some(router) = &self.router {
                // It has gone when the run is over.
                let _ = router.send(Message::Sample(row));
            }
        }
    }

    /// A last scrape.
    pub(crate) fn finish(self, runtime: &Runtime, observer: &mut dyn LiveObserver) -> Watched {
        let scraped = runtime.block_on(self.scraper.finish());
        scraped.rows.iter().for_each(|row: &TimelineRow| observer.sample(row));
        let mut watched = Watched::default();
        for replica in &scraped.replicas {
            watched.total = watched.total + replica.total();
            watched.block_size =
                watched.block_size.or(replica.first.as_ref().and_then(|first| first.block_size));
            watched.gaps.extend(gap(replica));
        }
        watched
    }
}

/// What a replica did not tell.
fn gap(history: &History) -> Option<String> {
    let missing = history.asked.checked_sub(history.answered).filter(|&missing| missing > 0)?;
    let why = history.last_error.clone().unwrap_or_else(|| history.target.to_string());
    Some(format!("{missing} of {} questions for metrics got no answer: {why}", history.asked))
}
