//! The cells of a grid over a scenario: what was simulated in each, what follows from its capacity, and what is not
//! known.

use crate::refine::Bracket;
use crate::report::{ClassReport, Report};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;

/// A configuration: one value of each axis but the offered rate's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Configuration {
    /// The values, in the order of the axes.
    pub settings: Vec<String>,
    /// Replicas.
    pub replicas: u32,
    /// GPUs in all.
    pub gpus: u32,
    /// Share of its capacity at which it may run.
    pub target_utilization: f64,
    /// Where its capacity lies; null if it was not looked for, or not found before the user asked to stop.
    pub capacity: Option<Bracket>,
    /// The simulated rates, rising.
    pub tested: Vec<Tested>,
    /// A cell for each value of the rate's axis; none without one.
    pub cells: Vec<Cell>,
}

/// One simulated rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tested {
    /// The offered rate.
    pub offered_rps: f64,
    /// Hash of its schedule.
    pub schedule_hash: Option<String>,
    /// Whether every gate passes.
    pub pass: bool,
    /// Whether it fails only because the run was too short ([`Report::too_short_to_judge`]).
    pub too_short: bool,
    /// Whether the run left the profile's validity region.
    pub outside_validity: bool,
    /// The gates that fail.
    pub failing_gates: Vec<String>,
    /// Passing successes per second.
    pub observed_goodput_rps: Option<f64>,
    /// Failed / attempted.
    pub error_rate: Option<f64>,
    /// The classes by name.
    pub classes: BTreeMap<String, Tail>,
    /// What a reader should know.
    pub warnings: Vec<String>,
}

/// The tails of a class, also as shares of its cutoffs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tail {
    /// passing / successful.
    pub attainment: Option<f64>,
    /// 95th percentile of TTFT.
    pub p95_ttft_ms: Option<f64>,
    /// 95th percentile of TPOT.
    pub p95_tpot_ms: Option<f64>,
    /// P95 TTFT over its cutoff.
    pub p95_ttft_over_cutoff: Option<f64>,
    /// P95 TPOT over its cutoff.
    pub p95_tpot_over_cutoff: Option<f64>,
}

/// What a cell's verdict rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// This very rate was simulated on this very configuration.
    Simulated,
    /// The rate is well below one that passes or well above one that fails.
    Inferred,
    /// Not reached before the user asked to stop.
    Unfinished,
}

impl Basis {
    /// The word in files.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Basis::Simulated => "simulated",
            Basis::Inferred => "inferred",
            Basis::Unfinished => "unfinished",
        }
    }
}

/// A configuration at one offered rate. Null where there is no capacity to compare with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// The offered rate.
    pub offered_rps: f64,
    /// What the verdict rests on.
    pub basis: Basis,
    /// Whether every gate passes.
    pub pass: Option<bool>,
    /// Rate / capacity.
    pub utilization: Option<f64>,
    /// Capacity - rate.
    pub headroom_rps: Option<f64>,
    /// Whether the rate is within the target utilization.
    pub within_target: Option<bool>,
    /// Whether a run that the verdict rests on left the profile's validity region.
    pub outside_validity: bool,
}

impl Tested {
    /// What a grid keeps of a report.
    #[must_use]
    pub fn of(offered_rps: f64, report: &Report) -> Tested {
        let tail = |class: &ClassReport| Tail {
            attainment: class.attainment,
            p95_ttft_ms: class.latency.p95_ttft_ms,
            p95_tpot_ms: class.p95_tpot_ms,
            p95_ttft_over_cutoff: class.latency.p95_ttft_ms.map(|ms| ms / class.request_ttft_cutoff_ms),
            p95_tpot_over_cutoff: class.p95_tpot_ms.map(|ms| ms / class.request_tpot_cutoff_ms),
        };
        Tested {
            offered_rps,
            schedule_hash: report.facts.schedule_hash.clone(),
            pass: report.capacity_gate_pass,
            too_short: report.too_short_to_judge(),
            outside_validity: report.leaves_validity(),
            failing_gates: report.failing_gates().map(str::to_owned).collect(),
            observed_goodput_rps: report.observed_goodput_rps,
            error_rate: report.error_rate,
            classes: report.classes.iter().map(|(name, class)| (name.clone(), tail(class))).collect(),
            warnings: report.warnings.clone(),
        }
    }

    /// The greatest over the classes.
    #[must_use]
    pub fn worst(&self, of: impl Fn(&Tail) -> Option<f64>) -> Option<f64> {
        self.classes.values().filter_map(of).max_by(f64::total_cmp)
    }
}

impl Configuration {
    /// The highest rate found to pass; None if none does.
    #[must_use]
    pub fn capacity_rps(&self) -> Option<f64> {
        self.capacity.map(|bracket| bracket.passing_rps).filter(|&rps| rps > 0.0)
    }

    /// What was simulated at a rate.
    #[must_use]
    pub fn at(&self, rps: f64) -> Option<&Tested> {
        self.tested.iter().find(|tested| tested.offered_rps.total_cmp(&rps).is_eq())
    }

    /// Takes a simulated rate, and moves the capacity that is known by it.
    pub fn push(&mut self, tested: Tested) {
        self.tested.push(tested);
        self.tested.sort_by(|a, b| a.offered_rps.total_cmp(&b.offered_rps));
        if self.capacity.is_some() {
            let rates: Vec<(f64, bool)> = self.tested.iter().map(|t| (t.offered_rps, t.pass)).collect();
            self.capacity = Some(Bracket::of(&rates));
        }
    }

    /// Of `rates`, those that must be simulated because the capacity does not decide them: not simulated yet, and
    /// neither a share `margin` below the highest rate that passes nor as much above one that fails.
    #[must_use]
    pub fn undecided(&self, rates: &[f64], margin: f64) -> Vec<f64> {
        let Some(Bracket { passing_rps, failing_rps }) = self.capacity else { return Vec::new() };
        let decided = |rps: f64| {
            rps <= passing_rps * (1.0 - margin)
                || failing_rps.is_some_and(|failing| rps >= failing * (1.0 + margin))
        };
        rates.iter().copied().filter(|&rps| !decided(rps) && self.at(rps).is_none()).collect()
    }

    /// Whether a run at an end of the capacity's bracket left the profile's validity region.
    #[must_use]
    pub fn capacity_outside_validity(&self) -> bool {
        let ends = self.capacity.iter().flat_map(|bracket| [Some(bracket.passing_rps), bracket.failing_rps]);
        ends.flatten().filter_map(|rps| self.at(rps)).any(|tested| tested.outside_validity)
    }

    /// Fills its cells.
    pub fn fill(&mut self, rates: &[f64]) {
        self.cells = rates.iter().map(|&rps| self.cell(rps)).collect();
    }

    fn cell(&self, offered_rps: f64) -> Cell {
        let capacity = self.capacity_rps();
        let (basis, pass) = match (self.at(offered_rps), self.capacity) {
            (Some(tested), _) => (Basis::Simulated, Some(tested.pass)),
            (None, Some(bracket)) => (Basis::Inferred, Some(offered_rps <= bracket.passing_rps)),
            (None, None) => (Basis::Unfinished, None),
        };
        Cell {
            offered_rps,
            basis,
            pass,
            utilization: capacity.map(|capacity| offered_rps / capacity),
            headroom_rps: capacity.map(|capacity| capacity - offered_rps),
            within_target: capacity.map(|capacity| offered_rps <= capacity * self.target_utilization),
            outside_validity: self
                .at(offered_rps)
                .map_or_else(|| self.capacity_outside_validity(), |tested| tested.outside_validity),
        }
    }

    /// The rate that bounds the capacity, if it fails only because its run was too short to judge it.
    #[must_use]
    pub fn unjudged_rps(&self) -> Option<f64> {
        let failing = self.capacity?.failing_rps?;
        self.at(failing).filter(|tested| tested.too_short).map(|_| failing)
    }

    /// Simulated rates that fail although a higher one passes.
    pub fn odd_rates(&self) -> impl Iterator<Item = f64> {
        let highest = self.tested.iter().filter(|t| t.pass).map(|t| t.offered_rps).fold(0.0, f64::max);
        self.tested.iter().filter(move |t| !t.pass && t.offered_rps < highest).map(|t| t.offered_rps)
    }
}

/// The smallest fleet of a grid for one offered rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SmallestFleet {
    /// The values of the other axes, in their order.
    pub settings: Vec<String>,
    /// The offered rate.
    pub offered_rps: f64,
    /// The fewest replicas of the grid that pass every gate; null if none does.
    pub replicas: Option<u32>,
    /// The fewest with the rate within the target utilization; null if none has, or no capacity is known.
    pub replicas_within_target: Option<u32>,
}

/// The smallest fleets of a grid whose axis number `replicas_axis` is the replicas: for each combination of the other
/// axes, each rate.
#[must_use]
pub fn smallest_fleets(configurations: &[Configuration], replicas_axis: usize) -> Vec<SmallestFleet> {
    let others = |configuration: &Configuration| {
        let mut settings = configuration.settings.clone();
        settings.remove(replicas_axis);
        settings
    };
    let mut combinations: Vec<Vec<String>> = Vec::new();
    for settings in configurations.iter().map(others) {
        if !combinations.contains(&settings) {
            combinations.push(settings);
        }
    }
    let rates = configurations.first().map_or(&[][..], |configuration| &configuration.cells);
    let of = |settings: &Vec<String>| -> Vec<SmallestFleet> {
        let fleets: Vec<&Configuration> = configurations.iter().filter(|c| others(c) == *settings).collect();
        let fewest = |cell: usize, holds: fn(&Cell) -> Option<bool>| {
            let holding = fleets.iter().filter(|fleet| holds(&fleet.cells[cell]) == Some(true));
            holding.map(|fleet| fleet.replicas).min()
        };
        let smallest = |(index, cell): (usize, &Cell)| SmallestFleet {
            settings: settings.clone(),
            offered_rps: cell.offered_rps,
            replicas: fewest(index, |cell| cell.pass),
            replicas_within_target: fewest(index, |cell| cell.within_target),
        };
        rates.iter().enumerate().map(smallest).collect()
    };
    combinations.iter().flat_map(of).collect()
}

const LEADING: [&str; 13] = [
    "replicas_used",
    "gpus",
    "offered_rps",
    "basis",
    "pass",
    "failing_gates",
    "capacity_rps",
    "capacity_fails_at_rps",
    "utilization",
    "headroom_rps",
    "within_target",
    "observed_goodput_rps",
    "error_rate",
];
const BY_CLASS: [&str; 3] = ["attainment", "p95_ttft_ms", "p95_tpot_ms"];

/// Writes summary.csv: a row a cell, or a row a configuration at its capacity where no rate was varied. Empty
/// fields are unknown or undefined.
///
/// # Errors
/// Those of `out`.
pub fn write_summary<W: io::Write>(
    out: W,
    axes: &[&str],
    classes: &[&str],
    configurations: &[Configuration],
) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    let by_class = classes.iter().flat_map(|class| BY_CLASS.map(|column| format!("{class}_{column}")));
    csv.write_record(axes.iter().chain(&LEADING).map(|name| (*name).to_owned()).chain(by_class))?;
    for configuration in configurations {
        let at_capacity = configuration.capacity_rps().map(|rps| configuration.cell(rps));
        let nothing = Cell {
            offered_rps: f64::NAN,
            basis: if configuration.capacity.is_some() { Basis::Simulated } else { Basis::Unfinished },
            pass: configuration.capacity.map(|_| false),
            utilization: None,
            headroom_rps: None,
            within_target: None,
            outside_validity: false,
        };
        let whole = [at_capacity.unwrap_or(nothing)];
        let cells = if configuration.cells.is_empty() { &whole[..] } else { &configuration.cells };
        for cell in cells {
            csv.write_record(configuration.row(cell, classes))?;
        }
    }
    csv.flush()
}

impl Configuration {
    fn row(&self, cell: &Cell, classes: &[&str]) -> Vec<String> {
        let tested = self.at(cell.offered_rps);
        let mut row = self.settings.clone();
        row.extend([
            self.replicas.to_string(),
            self.gpus.to_string(),
            optional(Some(cell.offered_rps).filter(|rps| rps.is_finite())),
            cell.basis.word().to_owned(),
            optional(cell.pass),
            tested.map_or_else(String::new, |tested| tested.failing_gates.join(" ")),
            optional(self.capacity_rps()),
            optional(self.capacity.and_then(|bracket| bracket.failing_rps)),
            optional(cell.utilization),
            optional(cell.headroom_rps),
            optional(cell.within_target),
            optional(tested.and_then(|tested| tested.observed_goodput_rps)),
            optional(tested.and_then(|tested| tested.error_rate)),
        ]);
        for class in classes {
            let tail = tested.and_then(|tested| tested.classes.get(*class));
            row.push(optional(tail.and_then(|tail| tail.attainment)));
            row.push(optional(tail.and_then(|tail| tail.p95_ttft_ms)));
            row.push(optional(tail.and_then(|tail| tail.p95_tpot_ms)));
        }
        row
    }
}

fn optional<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A configuration of which these rates were simulated.
    pub(crate) fn configuration(tested: &[(f64, bool)]) -> Configuration {
        let tail = Tail {
            attainment: Some(0.97),
            p95_ttft_ms: Some(400.0),
            p95_tpot_ms: Some(38.0),
            p95_ttft_over_cutoff: Some(0.8),
            p95_tpot_over_cutoff: Some(0.95),
        };
        let of = |&(offered_rps, pass): &(f64, bool)| Tested {
            outside_validity: false,
            offered_rps,
            schedule_hash: None,
            pass,
            too_short: false,
            failing_gates: Vec::new(),
            observed_goodput_rps: Some(offered_rps),
            error_rate: Some(0.0),
            classes: BTreeMap::from([("chat".to_owned(), tail.clone())]),
            warnings: Vec::new(),
        };
        Configuration {
            settings: vec!["4".to_owned()],
            replicas: 4,
            gpus: 8,
            target_utilization: 0.75,
            capacity: Some(Bracket::of(tested)),
            tested: tested.iter().map(of).collect(),
            cells: Vec::new(),
        }
    }

    #[test]
    fn cells_near_the_capacity_are_simulated_and_the_others_follow() {
        let mut found = configuration(&[(24.0, true), (25.0, false)]);
        let rates: Vec<f64> = (20..=30).map(f64::from).collect();
        assert_eq!(found.undecided(&rates, 0.05), [23.0, 26.0]);
        found.push(configuration(&[(23.0, true)]).tested.remove(0));
        found.push(configuration(&[(26.0, false)]).tested.remove(0));
        assert!(found.undecided(&rates, 0.05).is_empty());
        found.fill(&rates);
        let passing = found.cells.iter().filter(|cell| cell.pass == Some(true)).count();
        let simulated = found.cells.iter().filter(|cell| cell.basis == Basis::Simulated).count();
        assert_eq!((passing, simulated), (5, 4));
        assert!((found.cells[0].headroom_rps.unwrap() - 4.0).abs() < 1e-12);
        assert_eq!(found.cells[0].within_target, Some(false), "20 of 24 is above 75 %");
    }

    #[test]
    fn a_higher_rate_that_passes_moves_the_capacity_and_leaves_a_mark() {
        let mut found = configuration(&[(24.0, true), (25.0, false)]);
        found.push(configuration(&[(26.0, true)]).tested.remove(0));
        assert_eq!(found.capacity_rps(), Some(26.0));
        assert_eq!(found.odd_rates().collect::<Vec<_>>(), [25.0]);
        assert_eq!(found.undecided(&[27.0, 60.0], 0.05), [27.0, 60.0], "nothing above it is known to fail");
    }

    #[test]
    fn the_smallest_fleet_is_named_for_each_rate_and_each_other_setting() {
        let fleet = |replicas: u32, other: &str, passing: f64| {
            let settings = vec![replicas.to_string(), other.to_owned()];
            let tested = [(passing, true), (passing + 1.0, false)];
            let mut fleet = Configuration { settings, replicas, ..configuration(&tested) };
            fleet.fill(&[12.0, 20.0, 99.0]);
            fleet
        };
        let grid = [fleet(5, "a", 30.0), fleet(4, "a", 24.0), fleet(4, "b", 10.0), fleet(5, "b", 20.0)];
        let found = smallest_fleets(&grid, 0);
        let found: Vec<_> = found
            .iter()
            .map(|f| (f.settings[0].as_str(), f.offered_rps, f.replicas, f.replicas_within_target))
            .collect();
        let (four, five) = (Some(4), Some(5));
        let expected = [
            ("a", 12.0, four, four),
            ("a", 20.0, four, five),
            ("a", 99.0, None, None),
            ("b", 12.0, five, five),
            ("b", 20.0, five, None),
            ("b", 99.0, None, None),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_rate_that_was_too_short_to_judge_is_no_ceiling() {
        let mut found = configuration(&[(24.0, true), (25.0, false)]);
        assert_eq!(found.unjudged_rps(), None);
        found.tested[1].too_short = true;
        assert_eq!(found.unjudged_rps(), Some(25.0));
    }

    #[test]
    fn without_a_capacity_only_simulated_cells_have_a_verdict() {
        let mut found = Configuration { capacity: None, ..configuration(&[(24.0, true)]) };
        found.fill(&[24.0, 25.0]);
        assert_eq!((found.cells[0].pass, found.cells[1].pass), (Some(true), None));
        assert_eq!(found.cells[1].basis, Basis::Unfinished);
        assert_eq!(found.cells[0].utilization, None);
    }
}
