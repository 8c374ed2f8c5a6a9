//! nginx's `least_conn`: the fewest requests in flight, ties by its smooth weighted round robin.

use super::Router;
use crate::fleet::Fleet;
use crate::request::RouteRequest;
use scaleproof_pack::chance::Stream;

/// The fewest outstanding requests, ties as nginx breaks them: each of those that tie gains one, the greatest sum is chosen and
/// loses as many as there were; those that do not tie keep theirs. After uneven loads that is not in turn: a replica may be chosen
/// again that was chosen last, and is in a long prefill.
#[derive(Clone, Debug, Default)]
pub struct LeastConnections {
    sums: Vec<i64>,
}

impl Router for LeastConnections {
    fn choose(&mut self, _: &RouteRequest<'_>, fleet: &Fleet, _: &mut Stream) -> Option<u32> {
        let (least, _) = fleet.load_range()?;
        self.sums.resize(fleet.replicas() as usize, 0);
        let tied = || fleet.available().iter().copied().filter(|&replica| fleet.load(replica) == least);
        let first = tied().next()?;
        if tied().nth(1).is_none() {
            return Some(first);
        }
        let (mut best, mut count) = (first, 0);
        for replica in tied() {
            self.sums[replica as usize] += 1;
            count += 1;
            if self.sums[replica as usize] > self.sums[best as usize] {
                best = replica;
            }
        }
        self.sums[best as usize] -= count;
        Some(best)
    }
}
