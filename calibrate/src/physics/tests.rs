use super::*;

fn spec(gpu: &str, model: &str, tp: u32, precision: Precision) -> PriorSpec {
    let (Found::Entry(gpu), Found::Entry(architecture)) =
        (Gpu::find(gpu).unwrap(), Architecture::find(model).unwrap())
    else {
        panic!("not in the catalogue")
    };
    PriorSpec {
        architecture,
        memory: MemorySettings::usual(&gpu, tp, precision, Precision::Bf16),
        gpu,
        num_blocks: None,
        max_model_len: Some(4096),
        async_scheduling: true,
        prefix_caching: true,
        graphs: CudagraphMode::FullAndPiecewise,
    }
}

/// Every GPU of the catalogue, in each precision, at every degree that divides the model: the prior's steps are
/// above the bound, what is written reads back, and the longest step grows with the tokens.
#[test]
fn every_gpu_has_a_prior_that_no_physics_forbids() {
    let mut made = 0;
    for gpu in Gpu::catalogue().unwrap() {
        for (precision, tp) in [(Precision::Bf16, 1), (Precision::Bf16, 8), (Precision::Fp8, 2)] {
            let spec = spec(&gpu.name, "llama-3.1-8b", tp, precision);
            let name = format!("{} {} TP{tp}", gpu.name, precision.word());
            let (profile, _) = prior(&spec).unwrap_or_else(|error| panic!("{name}: {error}"));
            profile.check_bound().unwrap_or_else(|error| panic!("{name}: {error}"));
            check_hardware(&profile).unwrap_or_else(|error| panic!("{name}: {error}"));
            let mut faster = profile.clone();
            faster.step_time.hardware.as_mut().unwrap().hbm_bytes_per_s *= 2.0;
            assert!(check_hardware(&faster).unwrap_err().contains("hardware.hbm_bytes_per_s"));
            let mut lighter = profile.clone();
            lighter.step_time.hardware.as_mut().unwrap().kv_bytes_per_token = 1.0;
            assert!(check_hardware(&lighter).unwrap_err().contains("hardware.kv_bytes_per_token"));
            let read = Profile::parse("prior.yaml", &profile.to_yaml(&[])).unwrap();
            assert_eq!(read, profile, "{name}");
            let knots = &profile.step_time.eager.batch_token_knots;
            assert!(knots[knots.len() - 1].1 > 4.0 * knots[0].1, "{name}: {knots:?}");
            made += 1;
        }
    }
    assert_eq!(made, 24);
}

/// More GPUs make no step slower, on the GPUs that were measured as on a faster one; nor does FP8, from batches on that are
/// more than launches and half-filled tiles.
#[test]
fn costs_of_launches_are_plausible_at_any_degree() {
    let knots = |gpu, tp, precision| {
        // Blocks are given, so that it does not matter whether the weights leave room for them.
        let spec = PriorSpec { num_blocks: Some(300), ..spec(gpu, "llama-3.1-70b", tp, precision) };
        let (profile, _) = prior(&spec).unwrap();
        profile.check_bound().unwrap();
        profile.step_time.eager
    };
    for gpu in ["h200", "b200"] {
        for precision in [Precision::Bf16, Precision::Fp8] {
            let by_degree = [1, 2, 4, 8].map(|tp| knots(gpu, tp, precision));
            for (fewer, more) in by_degree.iter().zip(&by_degree[1..]) {
                let slower =
                    fewer.batch_token_knots.iter().zip(&more.batch_token_knots).find(|(a, b)| b.1 >= a.1);
                assert!(slower.is_none(), "{gpu} {}: {slower:?}", precision.word());
            }
        }
    }
    for tp in [1, 2, 4, 8] {
        let (bf16, fp8) = (knots("b200", tp, Precision::Bf16), knots("b200", tp, Precision::Fp8));
        for &(tokens, fp8_us) in &fp8.batch_token_knots {
            let known = bf16.batch_token_knots.iter().find(|(known, _)| known.total_cmp(&tokens).is_eq());
            let Some(&(_, bf16_us)) = known.filter(|_| tokens >= 512.0) else { continue };
            assert!(fp8_us < bf16_us, "TP{tp}, {tokens} tokens: {fp8_us} in FP8, {bf16_us} in BF16");
        }
    }
}

#[test]
fn a_context_of_one_token_is_refused_by_what_it_is() {
    let spec = PriorSpec { max_model_len: Some(1), ..spec("h100", "llama-3.1-8b", 1, Precision::Bf16) };
    let error = prior(&spec).unwrap_err().to_string();
    assert!(error.starts_with("max_model_len: found 1; expected at least 2"), "{error}");
}

#[test]
fn a_gpu_has_its_own_kernels_where_they_were_measured() {
    let gpu = |name: &str| Gpu::catalogue().unwrap().into_iter().find(|gpu| gpu.name == name).unwrap();
    let of = |name, precision| {
        let (kernels, measured) = Kernels::of(&gpu(name), precision).unwrap();
        (kernels.name, measured)
    };
    assert_eq!(of("h200", Precision::Fp8), ("hopper".to_owned(), true));
    assert_eq!(of("rtx-pro-6000", Precision::Bf16), ("rtx-pro-6000".to_owned(), true));
    assert_eq!(of("rtx-pro-6000", Precision::Fp8), ("rtx-pro-6000".to_owned(), false));
    assert_eq!(of("a100-80g", Precision::Bf16), ("hopper".to_owned(), false));
}
