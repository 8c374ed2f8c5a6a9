//! CUDA graphs: which recorded graph a step replays, and how many tokens it is padded to.
//!
//! A graph is recorded for one number of tokens. A step of fewer tokens replays the next larger one, padded; a step
//! of more than the largest runs without a graph and without padding. A graph of the whole model fits batches in
//! which every row has one token; a piecewise one leaves attention out and fits any batch.

use serde::{Deserialize, Serialize};

/// What graphs an engine records (vLLM's `cudagraph_mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CudagraphMode {
    /// None.
    None,
    /// Piecewise ones, for all batches.
    Piecewise,
    /// Whole ones, for all batches.
    Full,
    /// Whole ones for decode batches, none for others.
    FullDecodeOnly,
    /// Whole ones for decode batches, piecewise ones for others.
    #[default]
    FullAndPiecewise,
}

/// How a step runs on the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Execution {
    /// One graph of the whole model.
    Full,
    /// Graphs of the parts between attention layers.
    Piecewise,
    /// Kernel by kernel.
    Eager,
}

/// The graphs of one engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cudagraphs {
    mode: CudagraphMode,
    max_num_seqs: u32,
    /// In ascending order.
    sizes: Vec<u32>,
}

impl Cudagraphs {
    /// The largest graph that vLLM records by default, in tokens.
    pub const CEILING: u32 = 512;

    /// Graphs of given sizes in tokens (`cudagraph_capture_sizes`); those above the token budget are not recorded.
    #[must_use]
    pub fn with_sizes(
        mode: CudagraphMode,
        max_num_seqs: u32,
        max_num_batched_tokens: u32,
        sizes: &[u32],
    ) -> Cudagraphs {
        let mut sizes: Vec<u32> =
            sizes.iter().copied().filter(|size| (1..=max_num_batched_tokens).contains(size)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        Cudagraphs { mode, max_num_seqs, sizes }
    }

    /// vLLM's default sizes without speculative decoding: 1, 2, 4, then by 8 to 256, then by 16, up to twice the
    /// seats, the ceiling and the token budget; and exactly the seats and the token budget where they are below.
    #[must_use]
    pub fn with_default_sizes(
        mode: CudagraphMode,
        max_num_seqs: u32,
        max_num_batched_tokens: u32,
        ceiling: u32,
    ) -> Cudagraphs {
        let wanted = max_num_seqs.saturating_mul(2).min(ceiling);
        let largest = wanted.min(max_num_batched_tokens);
        let mut sizes = vec![1, 2, 4];
        sizes.extend((8..256).step_by(8));
        sizes.extend((256..=largest).step_by(16));
        sizes.retain(|&size| size <= largest);
        if max_num_batched_tokens <= largest {
            sizes.push(max_num_batched_tokens);
        }
        if max_num_seqs <= wanted {
            sizes.push(max_num_seqs);
        }
        Cudagraphs::with_sizes(mode, max_num_seqs, max_num_batched_tokens, &sizes)
    }

    /// The sizes in tokens, ascending.
    #[must_use]
    pub fn sizes(&self) -> &[u32] {
        &self.sizes
    }

    /// How a batch of `rows` rows with `tokens` tokens in all runs, and on how many tokens. Every row has at least one token, so as many
    /// rows as tokens make a decode batch (a last prefill chunk of one token looks the same to the GPU).
    #[must_use]
    pub fn pad_counts(&self, tokens: u32, rows: u32) -> (Execution, u32) {
        let eager = (Execution::Eager, tokens);
        let next = self.sizes.partition_point(|&size| size < tokens);
        let Some(&padded) = self.sizes.get(next).filter(|_| tokens > 0) else { return eager };
        // Whole graphs for decode batches are recorded up to the seats only.
        let decode = rows == tokens && padded <= self.max_num_seqs;
        match self.mode {
            CudagraphMode::None => eager,
            CudagraphMode::Piecewise => (Execution::Piecewise, padded),
            CudagraphMode::Full => (Execution::Full, padded),
            CudagraphMode::FullDecodeOnly | CudagraphMode::FullAndPiecewise if decode => {
                (Execution::Full, padded)
            }
            CudagraphMode::FullDecodeOnly => eager,
            CudagraphMode::FullAndPiecewise => (Execution::Piecewise, padded),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An API server on an H100.
    fn h100(mode: CudagraphMode) -> Cudagraphs {
        Cudagraphs::with_default_sizes(mode, 1024, 8192, Cudagraphs::CEILING)
    }

    #[test]
    fn an_h100_server_records_51_graphs() {
        let graphs = h100(CudagraphMode::default());
        assert_eq!(graphs.sizes().len(), 51);
        assert_eq!(&graphs.sizes()[..5], &[1, 2, 4, 8, 16]);
        assert_eq!(&graphs.sizes()[32..36], &[240, 248, 256, 272]);
        assert_eq!(graphs.sizes().last(), Some(&512));
    }

    #[test]
    fn seats_and_budget_get_graphs_of_their_own() {
        let sizes = |seats, budget| {
            Cudagraphs::with_default_sizes(CudagraphMode::Full, seats, budget, Cudagraphs::CEILING).sizes
        };
        assert_eq!(sizes(5, 8192), [1, 2, 4, 5, 8]);
        assert_eq!(sizes(1, 8192), [1, 2]);
        assert_eq!(sizes(16, 21), [1, 2, 4, 8, 16, 21]);
        assert_eq!(sizes(3, 3), [1, 2, 3]);
        assert_eq!(sizes(2000, 300).last(), Some(&300));
        assert_eq!(sizes(300, 8192).iter().filter(|&&size| size > 256).count(), 17);
    }

    #[test]
    fn the_largest_graph_is_a_boundary() {
        let graphs = h100(CudagraphMode::FullAndPiecewise);
        assert_eq!(graphs.pad_counts(512, 512), (Execution::Full, 512));
        assert_eq!(graphs.pad_counts(513, 513), (Execution::Eager, 513));
        assert_eq!(graphs.pad_counts(512, 3), (Execution::Piecewise, 512));
        assert_eq!(graphs.pad_counts(513, 3), (Execution::Eager, 513));
        assert_eq!(graphs.pad_counts(497, 497), (Execution::Full, 512));
        assert_eq!(graphs.pad_counts(257, 2), (Execution::Piecewise, 272));
        assert_eq!(graphs.pad_counts(3, 3), (Execution::Full, 4));
        assert_eq!(graphs.pad_counts(0, 0), (Execution::Eager, 0));
    }

    #[test]
    fn the_modes_differ_in_what_they_replay() {
        let both = |mode| {
            let graphs = h100(mode);
            (graphs.pad_counts(9, 9), graphs.pad_counts(9, 2))
        };
        use Execution::{Eager, Full, Piecewise};
        assert_eq!(both(CudagraphMode::None), ((Eager, 9), (Eager, 9)));
        assert_eq!(both(CudagraphMode::Piecewise), ((Piecewise, 16), (Piecewise, 16)));
        assert_eq!(both(CudagraphMode::Full), ((Full, 16), (Full, 16)));
        assert_eq!(both(CudagraphMode::FullDecodeOnly), ((Full, 16), (Eager, 9)));
        assert_eq!(both(CudagraphMode::FullAndPiecewise), ((Full, 16), (Piecewise, 16)));
    }

    #[test]
    fn a_decode_graph_larger_than_the_seats_is_not_recorded() {
        let graphs = Cudagraphs::with_sizes(CudagraphMode::FullAndPiecewise, 32, 8192, &[64, 8, 8]);
        assert_eq!(graphs.pad_counts(8, 8), (Execution::Full, 8));
        assert_eq!(graphs.pad_counts(20, 20), (Execution::Piecewise, 64));
    }
}
