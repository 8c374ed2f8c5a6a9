use super::*;

/// A config.json of a Llama, with what surrounds the shape in real ones.
const LLAMA: &str = r#"{
  "architectures": ["LlamaForCausalLM"],
  "attention_bias": false,
  "bos_token_id": 128000,
  "eos_token_id": [128001, 128008],
  "hidden_size": 4096,
  "intermediate_size": 14336,
  "max_position_embeddings": 131072,
  "mlp_bias": false,
  "model_type": "llama",
  "num_attention_heads": 32,
  "num_hidden_layers": 32,
  "num_key_value_heads": 8,
  "rms_norm_eps": 1e-05,
  "rope_scaling": {"factor": 8.0, "rope_type": "llama3"},
  "tie_word_embeddings": false,
  "torch_dtype": "bfloat16",
  "vocab_size": 128256
}
"#;

fn parse(text: &str) -> Result<Architecture, String> {
    Architecture::parse("config.json", text).map_err(|faults| faults.to_string())
}

/// The config with `fields` before its others, or instead of one of them.
fn with(fields: &str) -> Result<Architecture, String> {
    let name = fields.split('"').nth(1).unwrap();
    let kept = LLAMA.lines().filter(|line| !line.starts_with(&format!("  \"{name}\":")));
    let text: Vec<&str> = kept.collect();
    parse(&text.join("\n").replacen('{', &format!("{{\n  {fields},"), 1))
}

#[test]
fn a_config_is_the_shipped_model() {
    let read = parse(LLAMA).unwrap();
    let Ok(crate::hardware::Found::Entry(shipped)) = Architecture::find("llama-3.1-8b") else { panic!() };
    assert_eq!(read.parameters(), shipped.parameters());
    assert_eq!(
        Architecture {
            name: shipped.name.clone(),
            aliases: shipped.aliases.clone(),
            source: shipped.source.clone(),
            ..read
        },
        shipped
    );
}

#[test]
fn families_differ_where_they_do() {
    let read = with(r#""architectures": ["Qwen2ForCausalLM"]"#).unwrap();
    assert!(read.qkv_bias && read.family == Family::Qwen2);
    let read = with(r#""architectures": ["Qwen3ForCausalLM"], "head_dim": 64"#).unwrap();
    assert_eq!((read.head_dim, read.family), (64, Family::Qwen3));
    let read = with(r#""architectures": null"#).unwrap();
    assert_eq!(read.family, Family::Llama);
    let read = with(r#""_name_or_path": "Meta-Llama/X""#).unwrap();
    assert_eq!(read.name, "meta-llama/x");
    // Llama 2 7B's has no key and value heads of its own.
    let read = parse(&LLAMA.replace("  \"num_key_value_heads\": 8,\n", "")).unwrap();
    assert_eq!(read.kv_heads, 32);
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    for name in ["MixtralForCausalLM", "DeepseekV3ForCausalLM", "Gemma3ForConditionalGeneration"] {
        let fault = with(&format!(r#""architectures": ["{name}"]"#)).unwrap_err();
        assert_eq!(
            fault,
            format!(
                "config.json:2:21: architectures[0]: found the unsupported {name}; expected one of: LlamaForCausalLM, \
                 Qwen2ForCausalLM, Qwen3ForCausalLM, MistralForCausalLM; dense decoders of these families only: no \
                 mixture of experts, no latent attention, no images"
            )
        );
    }
    for (field, words) in [
        (r#""num_local_experts": 8"#, "num_local_experts: found a mixture of experts"),
        (r#""kv_lora_rank": 512"#, "kv_lora_rank: found multi-head latent attention"),
        (r#""sliding_window": 4096"#, "sliding_window: found a sliding window of 4096 tokens"),
        (r#""layer_types": ["sliding_attention"]"#, "layer_types: found layers without full attention"),
        (r#""attention_bias": true"#, "attention_bias: found true; expected false"),
        (r#""mlp_bias": true"#, "mlp_bias: found true; expected false"),
        (
            r#""quantization_config": {"quant_method": "awq"}"#,
            "quant_method: found \"awq\"; expected one of: fp8",
        ),
        (r#""torch_dtype": "float64""#, "torch_dtype: found \"float64\"; expected one of: bfloat16"),
        (r#""architectures": []"#, "architectures: found a list of 0"),
        (r#""num_hidden_layers": 0"#, "num_hidden_layers: found 0"),
        (r#""hidden_size": 1e99"#, "hidden_size: found 1e99"),
        (r#""hidden_size": "4096""#, "without quotes"),
    ] {
        let fault = with(field).unwrap_err();
        assert!(fault.starts_with("config.json:2:") && fault.contains(words), "{field}: {fault}");
    }
}

#[test]
fn a_window_that_bounds_nothing_is_no_matter() {
    for field in [
        r#""sliding_window": null"#,
        r#""sliding_window": 131072"#,
        r#""use_sliding_window": false, "sliding_window": 4096"#,
        r#""layer_types": ["full_attention", "full_attention"]"#,
    ] {
        with(field).unwrap();
    }
}

#[test]
fn a_missing_number_is_named() {
    for name in ["hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"]
    {
        let line = LLAMA.lines().find(|line| line.contains(&format!("\"{name}\""))).unwrap();
        let text = LLAMA.replace(line, "").replace("\"bfloat16\",\n\n}", "\"bfloat16\"\n}");
        let fault = parse(&text).unwrap_err();
        assert!(fault.contains(&format!("{name}: found nothing; expected a whole number")), "{fault}");
    }
}

#[test]
fn a_checkpoints_precision_is_read() {
    let precision = |field: &str| with(field).unwrap().precision;
    assert_eq!(precision(r#""quantization_config": {"quant_method": "fp8"}"#), Precision::Fp8);
    let group = |bits: u32, kind: &str| {
        format!(
            r#""quantization_config": {{"quant_method": "compressed-tensors", "config_groups":
               {{"group_0": {{"weights": {{"num_bits": {bits}, "type": "{kind}"}}}}}}}}"#
        )
    };
    assert_eq!(precision(&group(8, "float")), Precision::Fp8);
    assert_eq!(precision(&group(8, "int")), Precision::Int8);
    let fault = with(&group(4, "int")).unwrap_err();
    assert!(fault.contains("found weights of 4 bits, int; expected 8 bits"), "{fault}");
}
