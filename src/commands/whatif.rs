//! `scaleproof whatif`: a grid over anything in a scenario.
//!
//! A configuration's capacity does not depend on the peak it must serve, so it is looked for once, by bisection from
//! a guess, and decides the peaks well below and well above it. Peaks near it are simulated.

mod output;

use crate::args::WhatifArgs;
use crate::exit::{CommandError, Exit, Outcome};
use crate::input::{Loaded, Setting, Sources};
use crate::point::Point;
use crate::progress::{Progress, interrupted};
use crate::study::{pack_directory, refuse_outside, use_threads};
use rayon::prelude::*;
use scaleproof_pack::grid::{self, Axis, What};
use scaleproof_pack::refine::search_near;
use scaleproof_pack::report::OUTSIDE_VALIDITY;
use scaleproof_pack::schedule::Load;
use scaleproof_pack::whatif::{Configuration, Tested};

/// Runs the command.
pub fn run(args: &WhatifArgs) -> Outcome {
    use_threads(&args.common)?;
    if args.common.resume {
        return Err(CommandError::bad_input(
            "--resume: found it for a grid, which is made at once; expected a new or empty directory in --out",
        ));
    }
    let axes: Vec<Axis> = args
        .vary
        .iter()
        .map(|text| Axis::parse(text).map_err(CommandError::bad_input))
        .collect::<Result<_, _>>()?;
    let sources = Sources::read(&args.common.source)?;
    let base = sources.build(&[])?;
    let mut grid = Grid::new(args, &axes, &sources, &base)?;
    let claim = pack_directory(&args.common, "whatif")?;
    let directory = claim.path.clone();
    grid.explore()?;
    refuse_outside(args.common.strict, grid.outside()).inspect_err(|_| claim.discard())?;
    output::write(&grid, &directory)?;
    output::print(&grid, &directory, args.common.format)?;
    if interrupted() {
        return Err(CommandError::could_not_run(format!(
            "interrupted: found a request to stop; the cells finished until then are valid, in {}",
            directory.display()
        )));
    }
    Ok(Exit::Passed)
}

/// The grid, and what is known of it.
struct Grid<'a> {
    args: &'a WhatifArgs,
    sources: &'a Sources,
    base: &'a Loaded,
    /// The axes of the configurations.
    axes: Vec<&'a Axis>,
    /// The axis of the offered rate, with its values.
    rate: Option<(&'a Axis, Vec<f64>)>,
    /// The position of each axis's value, a configuration each.
    positions: Vec<Vec<usize>>,
    configurations: Vec<Configuration>,
}

/// Why a search ended early.
enum Stop {
    Interrupted,
    Failed(CommandError),
}

/// A rate near which a capacity probably is, and by which share it may be off.
struct Guess {
    rps: f64,
    apart: f64,
}

/// What a search simulated, and whether it came to its end.
struct Searched {
    tested: Vec<Tested>,
    finished: bool,
}

/// Refuses an axis that an option holds fast, or that a single run of each cell does not look at: its values would
/// all give the same numbers.
fn refuse_overridden(args: &WhatifArgs, axes: &[Axis]) -> Result<(), CommandError> {
    let fixed = [
        ("client.request_schedule_seed", args.common.source.seed.map(|_| "--seed says which")),
        ("experiment.cache", args.common.source.cache.first().map(|_| "--cache says which")),
        ("experiment.repeats", Some("each cell is one run")),
        ("experiment.rates_rps", Some("rates are varied as peak or rps")),
    ];
    for (field, why) in fixed {
        if let (Some(why), true) = (why, axes.iter().any(|axis| axis.name == field)) {
            return Err(CommandError::bad_input(format!(
                "--vary {field}: found an axis that changes nothing; expected one that does; {why}"
            )));
        }
    }
    Ok(())
}

impl<'a> Grid<'a> {
    /// Checks every cell before the first is simulated.
    fn new(
        args: &'a WhatifArgs,
        all: &'a [Axis],
        sources: &'a Sources,
        base: &'a Loaded,
    ) -> Result<Grid<'a>, CommandError> {
        for (i, axis) in all.iter().enumerate() {
            if all[..i].iter().any(|other| other.name == axis.name) {
                return Err(CommandError::bad_input(format!(
                    "--vary {}: found it twice; expected each thing once; put all its values in one list",
                    axis.name
                )));
            }
        }
        refuse_overridden(args, all)?;
        let (rates, axes): (Vec<&Axis>, Vec<&Axis>) = all.iter().partition(|axis| axis.what.is_rate());
        if rates.len() > 1 {
            return Err(CommandError::bad_input(
                "--vary: found peak and rps; expected one of them: a peak is compared with the capacity, an rps is \
                 only simulated",
            ));
        }
        grid::combinations(&all.iter().collect::<Vec<_>>()).map_err(CommandError::bad_input)?;
        let positions = grid::combinations(&axes).map_err(CommandError::bad_input)?;
        let rate = rates.first().map(|&axis| {
            let mut values = axis.numbers().unwrap_or_default();
            values.sort_by(f64::total_cmp);
            (axis, values)
        });
        let mut grid = Grid { args, sources, base, axes, rate, positions, configurations: Vec::new() };
        grid.configurations = (0..grid.positions.len())
            .into_par_iter()
            .map(|index| grid.configuration(index))
            .collect::<Result<Vec<_>, CommandError>>()?;
        Ok(grid)
    }

    fn configuration(&self, index: usize) -> Result<Configuration, CommandError> {
        let loaded = self.loaded(index)?;
        let replicas = self.replicas(index, &loaded);
        loaded.check_fleet(replicas)?;
        let settings = self.settings(index);
        Ok(Configuration {
            settings: settings.iter().map(|(axis, value)| axis.values[*value].plain()).collect(),
            replicas,
            gpus: replicas.saturating_mul(loaded.gpus_per_replica()),
            target_utilization: loaded.manifest.acceptance.target_utilization,
            capacity: None,
            tested: Vec::new(),
            cells: Vec::new(),
        })
    }

    fn settings(&self, index: usize) -> Vec<Setting<'a>> {
        self.axes.iter().copied().zip(self.positions[index].iter().copied()).collect()
    }

    fn loaded(&self, index: usize) -> Result<Loaded, CommandError> {
        self.sources.build(&self.settings(index))
    }

    fn replicas(&self, index: usize, loaded: &Loaded) -> u32 {
        let settings = self.settings(index);
        let varied = settings.iter().find(|(axis, _)| axis.what == What::Replicas);
        varied
            .and_then(|(axis, value)| grid::number(&axis.values[*value]))
            .map_or(loaded.manifest.engine.placement.replicas, |replicas| replicas as u32)
    }

    /// The rates of the rate's axis; none without one.
    fn rates(&self) -> &[f64] {
        self.rate.as_ref().map_or(&[], |(_, rates)| rates)
    }

    /// Whether capacities are looked for: not if the rates to simulate are given.
    fn wants_capacity(&self) -> bool {
        self.rate.as_ref().is_none_or(|(axis, _)| axis.what == What::Peak)
    }

    fn explore(&mut self) -> Result<(), CommandError> {
        let requests = self.base.manifest.client.initial_scheduled_requests;
        let tests = if self.wants_capacity() { 5 } else { self.rates().len() };
        let progress = Progress::start("whatif", requests * (self.configurations.len() * tests) as u64);
        if self.wants_capacity() {
            let last = self.configurations.len() - 1;
            // Two searches from afar, at once, show the others where to begin. Two whatever the machine: results
            // must not depend on its cores.
            let anchors = if last == 0 { vec![0] } else { vec![0, last] };
            self.search(&anchors, &progress)?;
            let others: Vec<usize> = (1..last).collect();
            self.search(&others, &progress)?;
        }
        self.simulate_undecided(&progress)?;
        let rates = self.rates().to_vec();
        self.configurations.iter_mut().for_each(|configuration| configuration.fill(&rates));
        Ok(())
    }

    /// Looks for the capacities of configurations, all at once.
    fn search(&mut self, indices: &[usize], progress: &Progress) -> Result<(), CommandError> {
        let found: Vec<Searched> = indices
            .par_iter()
            .with_max_len(1)
            .map(|&index| self.search_one(index, progress))
            .collect::<Result<_, _>>()?;
        for (&index, searched) in indices.iter().zip(found) {
            let configuration = &mut self.configurations[index];
            if searched.finished {
                configuration.capacity = Some(scaleproof_pack::refine::Bracket::of(&[]));
            }
            searched.tested.into_iter().for_each(|tested| configuration.push(tested));
        }
        Ok(())
    }

    fn search_one(&self, index: usize, progress: &Progress) -> Result<Searched, CommandError> {
        let mut tested: Vec<Tested> = Vec::new();
        let rates = self.rates();
        // A rate that a cell asks for anyway serves as well as one beside it.
        let choose = |wanted: f64, low: f64, high: f64| {
            let reach = if high.is_finite() && low > 0.0 {
                (high - low) / 4.0
            } else {
                wanted * self.args.within / 2.0
            };
            let inside = rates.iter().copied().filter(|&rate| rate > low && rate < high);
            let near = inside.min_by(|a, b| (a - wanted).abs().total_cmp(&(b - wanted).abs()));
            near.filter(|rate| (rate - wanted).abs() <= reach).unwrap_or(wanted)
        };
        let guess = self.guess(index)?;
        let search = search_near(guess.rps, guess.apart, self.args.within, choose, |rps| {
            let result =
                self.simulate(index, rps, progress).map_err(Stop::Failed)?.ok_or(Stop::Interrupted)?;
            let pass = result.pass;
            tested.push(result);
            Ok(pass)
        });
        match search {
            Ok(_) => Ok(Searched { tested, finished: true }),
            Err(Stop::Interrupted) => Ok(Searched { tested, finished: false }),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    /// Where to begin: by replicas, from what has been found, or else from the scenario's own rates.
    fn guess(&self, index: usize) -> Result<Guess, CommandError> {
        let replicas = f64::from(self.configurations[index].replicas);
        let known: Vec<(f64, f64)> = self
            .configurations
            .iter()
            .filter_map(|c| Some((f64::from(c.replicas), c.capacity_rps()? / f64::from(c.replicas))))
            .collect();
        let (Some(&(r0, c0)), Some(&(r1, c1))) = (known.first(), known.last()) else {
            let loaded = self.loaded(index)?;
            let rates = &loaded.scenario.experiment.rates_rps;
            let of_one = rates[(rates.len() - 1) / 2] / f64::from(loaded.manifest.engine.placement.replicas);
            return Ok(Guess { rps: of_one * replicas, apart: 0.25 });
        };
        let share = if r1 > r0 { (replicas - r0) / (r1 - r0) } else { 0.5 };
        Ok(Guess { rps: (c0 + (c1 - c0) * share) * replicas, apart: self.args.within })
    }

    /// Simulates the cells that no capacity decides, all at once; what comes out may leave others undecided.
    fn simulate_undecided(&mut self, progress: &Progress) -> Result<(), CommandError> {
        loop {
            let undecided = |(index, configuration): (usize, &Configuration)| {
                let untested = |rps: &f64| configuration.at(*rps).is_none();
                let rates: Vec<f64> = if self.args.every_cell || !self.wants_capacity() {
                    self.rates().iter().copied().filter(untested).collect()
                } else {
                    configuration.undecided(self.rates(), self.args.within / 2.0)
                };
                rates.into_iter().map(move |rps| (index, rps))
            };
            let wanted: Vec<(usize, f64)> =
                self.configurations.iter().enumerate().flat_map(undecided).collect();
            if wanted.is_empty() || interrupted() {
                return Ok(());
            }
            let found: Vec<Option<Tested>> = wanted
                .par_iter()
                .with_max_len(1)
                .map(|&(index, rps)| self.simulate(index, rps, progress))
                .collect::<Result<_, _>>()?;
            for ((index, _), tested) in wanted.into_iter().zip(found) {
                tested.into_iter().for_each(|tested| self.configurations[index].push(tested));
            }
        }
    }

    /// One rate on one configuration; None if the user asked to stop.
    fn simulate(&self, index: usize, rps: f64, progress: &Progress) -> Result<Option<Tested>, CommandError> {
        if interrupted() {
            return Ok(None);
        }
        let loaded = self.loaded(index)?;
        let point = Point {
            load: Load::Open { rps },
            run: 0,
            replicas: self.configurations[index].replicas,
            shared_prefixes: loaded.shared_prefixes(&self.args.common.source.cache)?,
        };
        let report = point.report(&loaded, progress).map_err(|error| CommandError {
            message: format!("{}at {rps} requests/s: {error}", self.label(index)),
            ..error
        })?;
        Ok(report.map(|report| Tested::of(rps, &report)))
    }

    /// The runs outside the profile's validity region, in words.
    fn outside(&self) -> impl Iterator<Item = (String, String)> {
        self.configurations.iter().enumerate().flat_map(move |(index, configuration)| {
            configuration.tested.iter().flat_map(move |tested| {
                let outside = tested.warnings.iter().filter_map(|w| w.strip_prefix(OUTSIDE_VALIDITY));
                outside.map(move |what| {
                    let which = format!("{}at {} requests/s", self.label(index), tested.offered_rps);
                    (which, what.to_owned())
                })
            })
        })
    }

    /// `replicas=4 engine.max_num_seqs=32 `, for messages.
    fn label(&self, index: usize) -> String {
        let settings = self.settings(index);
        settings
            .iter()
            .map(|(axis, value)| format!("{}={} ", axis.name, axis.values[*value].plain()))
            .collect()
    }
}
