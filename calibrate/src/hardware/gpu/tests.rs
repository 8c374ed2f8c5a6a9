use super::*;

fn gpu(name: &str) -> Gpu {
    let Found::Entry(gpu) = Gpu::find(name).unwrap() else { panic!("{name} is no entry") };
    gpu
}

/// The figures that a reader knows by heart.
#[test]
fn the_catalogue_has_the_data_sheets_figures() {
    for (name, hbm_gib, rate_tb, bf16_tf, fp8_tf) in [
        ("a100-40g", 40, 1.555, 312.0, None),
        ("a100", 80, 2.039, 312.0, None),
        ("H100", 80, 3.35, 989.0, Some(1979.0)),
        ("h200", 141, 4.8, 989.0, Some(1979.0)),
        ("b200", 180, 8.0, 2250.0, Some(4500.0)),
        ("l40s", 48, 0.864, 362.05, Some(733.0)),
        ("rtx-pro-6000", 96, 1.597, 503.8, Some(1007.6)),
        ("rtx-4090", 24, 1.008, 165.2, Some(330.3)),
    ] {
        let gpu = gpu(name);
        assert_eq!(gpu.hbm_bytes, hbm_gib << 30, "{name}");
        let near = |found: Option<f64>, expected: Option<f64>| match (found, expected) {
            (Some(found), Some(expected)) => (found / expected - 1.0).abs() < 1e-9,
            (found, expected) => found.is_none() && expected.is_none(),
        };
        assert!(near(Some(gpu.hbm_bytes_per_s), Some(rate_tb * 1e12)), "{name}");
        assert!(near(gpu.peak_flops(Precision::Bf16), Some(bf16_tf * 1e12)), "{name}");
        assert!(near(gpu.peak_flops(Precision::Fp8), fp8_tf.map(|peak| peak * 1e12)), "{name}");
    }
}

/// Dense peaks double from one width to the next half; a sparse one among them would not.
#[test]
fn every_entry_is_consistent_and_sourced() {
    let all = Gpu::catalogue().unwrap();
    assert_eq!(all.len(), GPUS.len());
    for gpu in &all {
        let visible = gpu.visible_bytes as f64 / gpu.hbm_bytes as f64;
        assert!((0.9..1.0).contains(&visible), "{}: {visible}", gpu.name);
        let bf16 = gpu.peak_flops(Precision::Bf16).unwrap();
        for (precision, times) in [(Precision::Fp8, 2.0), (Precision::Fp4, 4.0)] {
            if let Some(peak) = gpu.peak_flops(precision) {
                assert!((peak / bf16 / times - 1.0).abs() < 0.02, "{}: {precision:?}", gpu.name);
            }
        }
        assert_eq!(gpu.sources.len(), 8, "{}", gpu.name);
        if gpu.link == Link::Pcie {
            assert!((gpu.link_bytes_per_s - gpu.pcie_bytes_per_s).abs() < 1.0, "{}", gpu.name);
        }
    }
    let mut names: Vec<&str> = all.iter().flat_map(Named::names).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn every_fault_of_a_file_is_told() {
    let text = GPUS[0].1;
    let fault = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        Gpu::parse("g.yaml", &text.replace(from, to)).unwrap_err().to_string()
    };
    assert!(
        fault("hbm_bytes: {value: 42949672960", "hbm_bytes: {value: 1").contains("visible_bytes: found 42")
    );
    assert!(
        fault("hbm_bytes: {value: 42949672960", "hbm_bytes: {value: 1e99")
            .contains("hbm_bytes.value: found 1e99")
    );
    assert!(fault("bf16: 312000000000000", "fp8: 1").contains("dense_flops.value.bf16: found nothing"));
    assert!(fault("bf16: 312000000000000", "bf16: -1").contains("bf16: found -1"));
    assert!(fault("bf16:", "bf17:").contains("did you mean bf16?"));
    assert!(fault("link: {value: nvlink", "link: {value: nvlnk").contains("did you mean nvlink?"));
    assert!(
        fault("sm_count: {value: 108, ", "sm_count: {value: 108, x: 1, ")
            .contains("sm_count.x: found an unknown field")
    );
    let unsourced = text.lines().filter(|line| !line.trim_start().starts_with("source:"));
    let unsourced: Vec<&str> = unsourced.collect();
    let fault = Gpu::parse("g.yaml", &unsourced.join("\n")).unwrap_err().to_string();
    assert!(fault.contains("dense_flops.source: found nothing; expected text"), "{fault}");
}

#[test]
fn a_name_that_is_none_is_answered_with_the_nearest() {
    let fault = Gpu::find("h101").unwrap_err().to_string();
    assert!(fault.starts_with("h101: found no such GPU; expected a name in the catalogue"), "{fault}");
    assert!(fault.ends_with("did you mean h100?"), "{fault}");
    assert_eq!(Gpu::find("mine/gpu.yaml").unwrap(), Found::File);
}
