//! The least of many values of which one changes at a time.

/// Values by place, each match between two of them played again only as far as its winner changes. Of equal values the
/// first place wins.
#[derive(Clone, Debug)]
pub struct Tournament<T> {
    /// The final at 1; those who meet in match `i` come from `2 i` and `2 i + 1`; the values stand from `places` on.
    winners: Vec<T>,
    places: usize,
}

impl<T: Copy + Ord> Tournament<T> {
    /// `count` places, all with `last`, the greatest value that there is.
    #[must_use]
    pub fn new(count: usize, last: T) -> Tournament<T> {
        let places = count.next_power_of_two();
        Tournament { winners: vec![last; 2 * places], places }
    }

    /// The value of a place.
    #[must_use]
    pub fn get(&self, place: usize) -> T {
        self.winners[self.places + place]
    }

    /// Sets the value of a place.
    pub fn set(&mut self, place: usize, value: T) {
        let mut at = self.places + place;
        self.winners[at] = value;
        while at > 1 {
            at /= 2;
            let winner = self.winners[2 * at].min(self.winners[2 * at + 1]);
            if self.winners[at] == winner {
                return;
            }
            self.winners[at] = winner;
        }
    }

    /// The least value.
    #[must_use]
    pub fn least(&self) -> T {
        self.winners[1]
    }

    /// The first place with the least value.
    #[must_use]
    pub fn first(&self) -> usize {
        self.first_below(1)
    }

    /// The first place at or after `from` with the least value, going round.
    #[must_use]
    pub fn first_from(&self, from: usize) -> usize {
        let mut at = self.places + from.min(self.places - 1);
        if from < self.places {
            while at > 0 {
                if self.winners[at] == self.least() {
                    return self.first_below(at);
                }
                // On to the places behind these: up from every second match, then to the one beside it.
                while at % 2 == 1 {
                    at /= 2;
                }
                at += usize::from(at > 0);
            }
        }
        self.first()
    }

    /// The first place of those who meet in match `at`, which the least value won.
    fn first_below(&self, mut at: usize) -> usize {
        let least = self.winners[at];
        while at < self.places {
            at *= 2;
            at += usize::from(self.winners[at] != least);
        }
        at - self.places
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// As a walk over all values finds it, whatever changed before.
        #[test]
        fn the_least_is_found_from_anywhere(
            count in 1_usize..40,
            changes in prop::collection::vec((0_usize..40, 0_u8..6), 0..120),
            from in 0_usize..50,
        ) {
            let mut values = vec![u8::MAX; count];
            let mut tournament = Tournament::new(count, u8::MAX);
            for (place, value) in changes {
                let place = place % count;
                values[place] = if value == 5 { u8::MAX } else { value };
                tournament.set(place, values[place]);
                prop_assert_eq!(tournament.get(place), values[place]);
                let least = *values.iter().min().unwrap();
                prop_assert_eq!(tournament.least(), least);
                let all: Vec<usize> = (0..count).filter(|&place| values[place] == least).collect();
                prop_assert_eq!(tournament.first(), all[0]);
                if least < u8::MAX {
                    let next = all.iter().copied().find(|&place| place >= from).unwrap_or(all[0]);
                    prop_assert_eq!(tournament.first_from(from), next);
                }
            }
        }
    }
}
