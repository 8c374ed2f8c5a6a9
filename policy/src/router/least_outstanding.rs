//! The fewest outstanding requests.

use super::Router;
use crate::fleet::Fleet;
use crate::request::RouteRequest;
use scaleproof_pack::chance::Stream;

/// The fewest outstanding requests. Ties go to the next replica after the last choice, so that an idle fleet is
/// used evenly.
#[derive(Clone, Debug, Default)]
pub struct LeastOutstanding {
    from: u32,
}

impl Router for LeastOutstanding {
    fn choose(&mut self, _: &RouteRequest<'_>, fleet: &Fleet, _: &mut Stream) -> Option<u32> {
        let chosen = fleet.least_loaded(self.from)?;
        self.from = chosen + 1;
        Some(chosen)
    }
}
