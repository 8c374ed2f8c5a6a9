use super::*;

fn model(name: &str) -> Architecture {
    let Found::Entry(model) = Architecture::find(name).unwrap() else { panic!("{name} is no entry") };
    model
}

/// The totals that the models' pages on Hugging Face count in their files.
#[test]
fn parameters_are_those_of_the_published_checkpoints() {
    for (name, parameters) in [
        ("llama-3.1-8b", 8_030_261_248),
        ("llama-3.1-70b", 70_553_706_496),
        ("llama-2-70b", 68_976_648_192),
        ("llama-3.2-1b", 1_235_814_400),
        ("mistral-7b-v0.3", 7_248_023_552),
        ("qwen2.5-7b", 7_615_616_512),
        ("qwen2.5-72b", 72_706_203_648),
        ("qwen3-32b", 32_762_123_264),
    ] {
        assert_eq!(model(name).parameters(), parameters, "{name}");
    }
    assert_eq!(Architecture::catalogue().unwrap().len(), 8);
}

#[test]
fn names_are_found_in_any_case_and_by_alias() {
    assert_eq!(model("Llama-3.3-70B").name, "llama-3.1-70b");
    let fault = Architecture::find("llama-3.1-8bb").unwrap_err().to_string();
    assert!(fault.contains("did you mean llama-3.1-8b?"), "{fault}");
    for path in ["./x", "config.json", "x.YAML", "a/b"] {
        assert_eq!(Architecture::find(path).unwrap(), Found::File, "{path}");
    }
}

#[test]
fn no_two_entries_share_a_name() {
    let all = Architecture::catalogue().unwrap();
    let mut names: Vec<&str> = all.iter().flat_map(Named::names).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn matrix_products_are_divided_over_the_gpus() {
    let shapes = |tp| {
        let gemms = model("llama-3.1-70b").gemms(tp).unwrap();
        gemms.layer.map(|gemm| (gemm.name, gemm.n, gemm.k))
    };
    assert_eq!(
        shapes(1),
        [("qkv", 10_240, 8192), ("o", 8192, 8192), ("gate_up", 57_344, 8192), ("down", 8192, 28_672)]
    );
    assert_eq!(
        shapes(2),
        [("qkv", 5120, 8192), ("o", 8192, 4096), ("gate_up", 28_672, 8192), ("down", 8192, 14_336)]
    );
    // Sixteen GPUs share eight key and value heads: each holds one.
    assert_eq!(shapes(16)[0], ("qkv", (4 + 2) * 128, 8192));
    assert_eq!(
        model("llama-3.1-70b").gemms(2).unwrap().lm_head,
        Gemm { name: "lm_head", n: 64_128, k: 8192 }
    );
}

#[test]
fn a_degree_that_does_not_divide_the_model_is_refused() {
    let text = model("llama-3.1-70b").gemms(3).unwrap_err().to_string();
    assert_eq!(
        text,
        "tensor parallel degree: found 3; expected a divisor of the 64 query heads; possible are 1, 2, 4, 8, 16, 32, 64"
    );
    // 28 heads, of which four GPUs hold seven each.
    let model = model("qwen2.5-7b");
    assert!(model.check_tp(4).is_ok());
    assert_eq!(model.check_tp(7).unwrap_err().what, "key and value heads (or a multiple of them)");
    assert!(model.check_tp(0).is_err());
    assert!(model.weight_bytes(Precision::Bf16, 8).is_err());
}

#[test]
fn kv_bytes_are_those_of_the_heads_that_a_gpu_holds() {
    let model = model("llama-3.1-70b");
    assert_eq!(model.kv_bytes_per_token(Precision::Bf16, 1), 2 * 80 * 8 * 128 * 2);
    assert_eq!(model.kv_bytes_per_token(Precision::Fp8, 2), 80 * 8 * 128);
    assert_eq!(model.kv_bytes_per_token(Precision::Fp8, 8), model.kv_bytes_per_token(Precision::Fp8, 16));
}

#[test]
fn weights_of_all_gpus_are_those_of_one_but_for_what_each_repeats() {
    let model = model("llama-3.1-8b");
    let one = model.weight_bytes(Precision::Bf16, 1).unwrap();
    assert_eq!(one.total(), 2 * model.parameters() + one.rotary);
    assert_eq!((one.rotary, one.scales), (2 * 131_072 * 128, 0));
    let four = model.weight_bytes(Precision::Bf16, 4).unwrap();
    assert_eq!(4 * (four.matrices + four.embedding + four.lm_head), one.total() - one.small - one.rotary);
    assert_eq!(four.small, one.small);
    let fp8 = model.weight_bytes(Precision::Fp8, 1).unwrap();
    assert_eq!((2 * fp8.matrices, fp8.embedding), (one.matrices, one.embedding));
    assert_eq!(fp8.scales, 4 * 32 * (6144 + 4096 + 28_672 + 4096));
    assert_eq!(Precision::Fp4.bytes(16), 9);
}

#[test]
fn arithmetic_per_token_follows_from_the_shape() {
    let model = model("llama-3.1-70b");
    let layer = 10_240 * 8192 + 8192 * 8192 + 57_344 * 8192 + 8192 * 28_672u64;
    assert!((model.flops_per_token() - 2.0 * 80.0 * layer as f64).abs() < 1.0);
    assert!((model.attention_flops_per_pair() - 4.0 * 80.0 * 8192.0).abs() < 1e-6);
    assert!((model.lm_head_flops_per_row() - 2.0 * 128_256.0 * 8192.0).abs() < 1e-6);
}

const OWN: &str = "\
architecture: mine
family: llama
layers: 2
hidden: 64
heads: 4
kv_heads: 2
intermediate: 128
vocab: 1000
tied_embeddings: true
qkv_bias: false
max_position_embeddings: 2048
torch_dtype: bfloat16
source: by hand
";

#[test]
fn our_own_yaml_needs_every_field_and_knows_no_other() {
    let mine = Architecture::parse("mine.yaml", OWN).unwrap();
    assert_eq!((mine.head_dim, mine.precision), (16, Precision::Bf16));
    for line in OWN.lines() {
        let text = OWN.replace(&format!("{line}\n"), "");
        let fault = Architecture::parse("mine.yaml", &text).unwrap_err().to_string();
        let field = line.split(':').next().unwrap();
        assert!(fault.contains(field), "without {field}: {fault}");
    }
    let fault = |from: &str, to: &str| {
        Architecture::parse("mine.yaml", &OWN.replace(from, to)).unwrap_err().to_string()
    };
    assert_eq!(
        fault("heads: 4\n", "heads: 5\n"),
        "mine.yaml:4:9: hidden: found 64; expected a multiple of the 5 heads; or give head_dim"
    );
    assert!(
        fault("kv_heads: 2", "kv_heads: 3")
            .starts_with("mine.yaml:6:11: kv_heads: found 3; expected a divisor")
    );
    assert!(fault("layers: 2", "layers: 0").contains("layers: found 0; expected a whole number from 1"));
    assert!(fault("layers: 2", "layers: 99999999999").contains("layers: found 99999999999"));
    assert!(fault("source", "sauce").contains("did you mean source?"));
    assert!(fault("architecture: mine", "architecture: Mine").contains("a name in lower case"));
}

/// The largest that is read does not leave 64 bits.
#[test]
fn the_largest_shape_is_counted_without_overflow() {
    let mut text = OWN.to_owned();
    for (from, to) in [
        ("layers: 2", "layers: 4096"),
        ("hidden: 64", "hidden: 1048576"),
        ("\nheads: 4", "\nheads: 4096"),
        ("kv_heads: 2", "kv_heads: 4096\nhead_dim: 8192"),
        ("intermediate: 128", "intermediate: 1048576"),
        ("vocab: 1000", "vocab: 16777216"),
    ] {
        text = text.replace(from, to);
    }
    let largest = Architecture::parse("large.yaml", &text).unwrap();
    assert!(largest.parameters() > 1 << 58);
    assert!(largest.weight_bytes(Precision::Bf16, 1).unwrap().total() > largest.parameters());
    assert!(largest.kv_bytes_per_token(Precision::Bf16, 1) > 1 << 35);
}
