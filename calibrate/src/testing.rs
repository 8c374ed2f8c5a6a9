//! A small engine for tests.

use crate::hardware::architecture::Architecture;
use crate::hardware::gpu::Gpu;
use crate::hardware::memory::MemorySettings;
use crate::hardware::{Found, Precision};
use crate::physics::{PriorSpec, prior};
use scaleproof_sim::engine::cudagraph::CudagraphMode;
use scaleproof_sim::profile::Profile;

/// Llama-3.1-8B on one H100.
pub fn small_spec() -> PriorSpec {
    let (Found::Entry(architecture), Found::Entry(gpu)) =
        (Architecture::find("llama-3.1-8b").unwrap(), Gpu::find("h100").unwrap())
    else {
        panic!("not in the catalogue")
    };
    let memory = MemorySettings::usual(&gpu, 1, Precision::Bf16, Precision::Bf16);
    PriorSpec {
        architecture,
        gpu,
        memory,
        num_blocks: None,
        max_model_len: None,
        async_scheduling: true,
        prefix_caching: true,
        graphs: CudagraphMode::FullAndPiecewise,
    }
}

/// Its prior.
pub fn engine() -> Profile {
    prior(&small_spec()).unwrap().0
}
