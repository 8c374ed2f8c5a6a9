//! A failure test: what one injected fault did to a fleet, from records, timeline and observed moments alone, so that a
//! simulated and a live test fill the same report.

mod moment;

pub use moment::{Moment, Phase, Sign, What};
