//! Decode attention in whole waves: a kernel whose work items each keep one multiprocessor busy takes as long as the fullest of
//! them.
//!
//! FlashAttention 3 makes an item of each row and key-value head, and splits long ones so that every multiprocessor gets
//! work (`prepare_varlen_num_blocks` of its scheduler, 2025):
//!
//! ```text
//! share  = ceil(1.1 x all blocks / multiprocessors)       blocks of keys; 1.1: the slack that the scheduler leaves
//! pieces = ceil(blocks of an item / share), at most 32 in a CUDA graph of vLLM; all as long, to the next block
//! ```
//! With few rows the pieces fit in one wave or two; from about one item a multiprocessor on nothing is split, and one row
//! more than a full wave takes another wave. A kernel that the memory's bandwidth bounds does not care, since idle
//! multiprocessors leave it to the others; one bound by its own work does.

/// Keys of a block.
const BLOCK: f64 = 128.0;
/// What the scheduler adds to an even share.
const SLACK: f64 = 1.1;
/// The most pieces of an item.
const PIECES_MAX: f64 = 32.0;

/// How many times longer decode attention takes than if every multiprocessor had the same work: at least 1. `rows` of
/// `context` tokens each, on a GPU whose multiprocessors the heads of `wave_rows` rows fill once.
#[must_use]
pub fn waste(rows: f64, context: f64, wave_rows: f64) -> f64 {
    let waves = rows / wave_rows;
    let blocks = (context / BLOCK).ceil().max(1.0);
    let even = waves * blocks;
    let share = (SLACK * even).ceil();
    let pieces = (blocks / share).ceil().clamp(1.0, PIECES_MAX);
    let longest = (waves * pieces).ceil() * (blocks / pieces).ceil();
    (longest / even).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 132 multiprocessors, 8 heads: 16.5 rows a wave.
    fn of(rows: u32, context: u32) -> f64 {
        waste(f64::from(rows), f64::from(context), 16.5)
    }

    #[test]
    fn a_full_wave_wastes_little_and_one_row_more_almost_all_of_another() {
        assert!(of(16, 6000) < 1.04 && of(33, 6000) < 1.01, "{} {}", of(16, 6000), of(33, 6000));
        assert!((of(17, 6000) - 2.0 / (17.0 / 16.5)).abs() < 1e-9);
        assert!(of(17, 6000) > of(24, 6000) && of(24, 6000) > of(32, 6000));
        assert!(of(500, 6000) < 1.05, "many waves even out");
    }

    #[test]
    fn a_few_rows_are_split_over_all_multiprocessors() {
        for rows in [1, 2, 4, 8] {
            assert!(of(rows, 6000) < 1.41, "{rows}: {}", of(rows, 6000));
        }
        assert!(of(8, 6000) < 1.06, "two pieces of each head, 128 items");
        // 9 rows in two pieces are 144 items, 12 more than there are multiprocessors.
        assert!(of(9, 6000) > 1.8, "{}", of(9, 6000));
        assert!(of(4, 100) > 4.0, "one block cannot be split");
    }

    #[test]
    fn it_is_never_less_than_even() {
        for rows in 1..200 {
            for context in [1, 127, 128, 129, 1000, 100_000] {
                assert!(of(rows, context).is_finite() && of(rows, context) >= 1.0, "{rows} {context}");
            }
        }
    }
}
