//! Whether a replica takes work, as far as whoever routes can tell: health checks, a circuit breaker, and what is sent again.
//! The rules alone, without a clock: the simulator and the live driver both go by them. docs/failures.md has the defaults.

use scaleproof_pack::time::Nanos;

/// A health check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// How often.
    pub interval: Nanos,
    /// No answer for so long is a failure.
    pub timeout: Nanos,
    /// So many failures in a row take a replica out.
    pub failures: u32,
    /// So many successes in a row bring it back.
    pub successes: u32,
}

/// A circuit breaker, one for each replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breaker {
    /// So many failures in a row open it.
    pub failures: u32,
    /// For so long it lets nothing through.
    pub open: Nanos,
    /// So many successes close it then; a failure opens it again.
    pub successes: u32,
}

impl Default for Breaker {
    /// vllm-router's.
    fn default() -> Breaker {
        Breaker { failures: 10, open: Nanos(60_000_000_000), successes: 3 }
    }
}

/// What the router sends again: requests whose answer has not begun.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retries {
    /// Tries of a request in all; 1 is no second one.
    pub attempts: u32,
    /// Before the second try.
    pub first_backoff: Nanos,
    /// Each later wait is so many times the one before.
    pub factor: f64,
    /// No wait is longer.
    pub cap: Nanos,
    /// A wait is longer or shorter by up to this share.
    pub jitter: f64,
    /// Further tries so far, at most this share of the requests so far; None: as many as there are.
    pub budget: Option<f64>,
}

impl Default for Retries {
    /// vllm-router's.
    fn default() -> Retries {
        Retries {
            attempts: 5,
            first_backoff: Nanos(50_000_000),
            factor: 1.5,
            cap: Nanos(30_000_000_000),
            jitter: 0.2,
            budget: None,
        }
    }
}

impl Retries {
    /// Whether there is a further try after `tried`, when `retries` were made of `requests` so far.
    #[must_use]
    pub fn has_another(&self, tried: u32, retries: u64, requests: u64) -> bool {
        let within = |share: f64| retries as f64 + 1.0 <= share * requests as f64;
        tried < self.attempts && self.budget.is_none_or(within)
    }

    /// The wait after so many tries; `chance` is uniform from 0 to 1.
    #[must_use]
    pub fn wait(&self, tried: u32, chance: f64) -> Option<Nanos> {
        let exponent = i32::try_from(tried).unwrap_or(i32::MAX).saturating_sub(1);
        let base_s = (self.first_backoff.seconds() * self.factor.powi(exponent)).min(self.cap.seconds());
        Nanos::from_seconds(base_s * (1.0 + self.jitter * (2.0 * chance - 1.0))).ok()
    }
}

/// A circuit breaker's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// It lets everything through.
    Closed,
    /// It lets nothing through.
    Open,
    /// It lets everything through and opens at the first failure.
    HalfOpen,
}

/// What whoever routes knows of a replica.
#[derive(Clone, Copy, Debug)]
pub struct Health {
    /// By the health checks and what stands for one.
    pub healthy: bool,
    /// Failures and successes of health checks in a row.
    failures: u32,
    successes: u32,
    breaker: BreakerState,
    /// Failures or successes in a row that the breaker counts.
    counted: u32,
}

impl Default for Health {
    fn default() -> Health {
        Health { healthy: true, failures: 0, successes: 0, breaker: BreakerState::Closed, counted: 0 }
    }
}

impl Health {
    /// Whether it may be sent work.
    #[must_use]
    pub fn takes_work(&self) -> bool {
        self.healthy && self.breaker != BreakerState::Open
    }

    /// A health check was answered.
    pub fn check_passed(&mut self, check: &HealthCheck) {
        self.failures = 0;
        if !self.healthy {
            self.successes += 1;
            self.healthy = self.successes >= check.successes;
        }
    }

    /// A health check was not.
    pub fn check_failed(&mut self, check: &HealthCheck) {
        self.successes = 0;
        self.failures = self.failures.saturating_add(1);
        if self.failures >= check.failures {
            self.healthy = false;
        }
    }

    /// It gets no work before it has passed health checks.
    pub fn doubted(&mut self) {
        (self.healthy, self.successes) = (false, 0);
    }

    /// A try at it failed. Whether its breaker opens: it becomes half open [`Breaker::open`] later.
    pub fn try_failed(&mut self, breaker: &Breaker) -> bool {
        let opens = match self.breaker {
            BreakerState::Closed => {
                self.counted += 1;
                self.counted >= breaker.failures
            }
            BreakerState::HalfOpen => true,
            BreakerState::Open => false,
        };
        if opens {
            (self.breaker, self.counted) = (BreakerState::Open, 0);
        }
        opens
    }

    /// It took a request in.
    pub fn try_succeeded(&mut self, breaker: &Breaker) {
        match self.breaker {
            BreakerState::Closed => self.counted = 0,
            BreakerState::Open => {}
            BreakerState::HalfOpen => {
                self.counted += 1;
                if self.counted >= breaker.successes {
                    self.reset_breaker();
                }
            }
        }
    }

    /// The breaker was open for its time. Whether it was still open.
    pub fn half_open(&mut self) -> bool {
        let was_open = self.breaker == BreakerState::Open;
        if was_open {
            self.breaker = BreakerState::HalfOpen;
        }
        was_open
    }

    /// A new process is unknown to its breaker.
    pub fn reset_breaker(&mut self) {
        (self.breaker, self.counted) = (BreakerState::Closed, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_in_a_row_take_out_and_bring_back() {
        let check = HealthCheck { interval: Nanos(1), timeout: Nanos(1), failures: 2, successes: 2 };
        let mut health = Health::default();
        health.check_failed(&check);
        health.check_passed(&check);
        health.check_failed(&check);
        assert!(health.takes_work(), "not in a row");
        health.check_failed(&check);
        assert!(!health.takes_work());
        health.check_passed(&check);
        assert!(!health.takes_work());
        health.check_passed(&check);
        assert!(health.takes_work());
    }

    #[test]
    fn a_breaker_opens_lets_try_and_opens_at_the_first_failure() {
        let breaker = Breaker { failures: 2, successes: 2, ..Breaker::default() };
        let mut health = Health::default();
        assert!(!health.try_failed(&breaker) && health.try_failed(&breaker) && !health.takes_work());
        assert!(!health.try_failed(&breaker), "it is open");
        assert!(health.half_open() && health.takes_work() && !health.half_open());
        assert!(health.try_failed(&breaker) && !health.takes_work());
        assert!(health.half_open());
        health.try_succeeded(&breaker);
        health.try_succeeded(&breaker);
        assert!(!health.try_failed(&breaker), "closed again, it counts from the beginning");
    }

    #[test]
    fn waits_grow_to_their_cap_and_tries_end() {
        let retries = Retries { attempts: 3, cap: Nanos(70_000_000), ..Retries::default() };
        let waits: Vec<f64> = (1..4).map(|tried| retries.wait(tried, 0.5).unwrap().millis()).collect();
        assert_eq!(waits, [50.0, 70.0, 70.0]);
        assert!(retries.has_another(2, 0, 0) && !retries.has_another(3, 0, 0));
        let budget = Retries { budget: Some(0.1), ..retries };
        assert!(budget.has_another(1, 0, 10) && !budget.has_another(1, 1, 10));
    }
}
