//! An architecture out of a Hugging Face config.json. JSON is YAML, so that faults have their lines here too.

use super::Precision;
use super::architecture::read::{ShapeNames, read_dtype, read_shape};
use super::architecture::{Architecture, Family};
use scaleproof_pack::document::Document;
use scaleproof_pack::fault::Faults;
use scaleproof_pack::fields::{Fields, Item};
use scaleproof_pack::yaml::Value;

/// The classes that are read, each with its family.
const CLASSES: [(&str, Family); 4] = [
    ("LlamaForCausalLM", Family::Llama),
    ("Qwen2ForCausalLM", Family::Qwen2),
    ("Qwen3ForCausalLM", Family::Qwen3),
    ("MistralForCausalLM", Family::Mistral),
];

/// Fields of what is no dense decoder with grouped-query attention, each with what it is.
const UNSUPPORTED: [(&str, &str); 7] = [
    ("num_local_experts", "a mixture of experts"),
    ("num_experts", "a mixture of experts"),
    ("n_routed_experts", "a mixture of experts"),
    ("kv_lora_rank", "multi-head latent attention"),
    ("text_config", "a model of more than text"),
    ("vision_config", "a model of more than text"),
    ("ssm_cfg", "a state-space model"),
];

const NAMES: ShapeNames = ShapeNames {
    layers: "num_hidden_layers",
    hidden: "hidden_size",
    heads: "num_attention_heads",
    kv_heads: "num_key_value_heads",
    intermediate: "intermediate_size",
    vocab: "vocab_size",
    kv_heads_optional: true,
};

/// Whether this is a config.json, not our own YAML.
pub(super) fn is_config(document: &Document) -> bool {
    document.get("architectures").is_some() || document.get("model_type").is_some()
}

/// Reads it. Fields that say nothing about the shape are left unread.
pub(super) fn read(file: &str, document: &Document) -> Result<Architecture, Faults> {
    document.read_some(|fields| read_config(file, fields))
}

fn read_config(file: &str, fields: &mut Fields<'_>) -> Option<Architecture> {
    // What another family's fields mean is not known: nothing more is read of it.
    let family = read_family(fields)?;
    refuse_what_is_not_dense(fields);
    let shape = read_shape(fields, &NAMES);
    refuse_sliding_window(fields, shape.as_ref().map(|shape| shape.max_position_embeddings));
    for name in ["attention_bias", "mlp_bias"] {
        let item = fields.opt(name);
        if item.bool() == Some(true) {
            item.fault("true", "false", "biases there are not supported");
        }
    }
    let tied_embeddings = fields.opt("tie_word_embeddings").bool().unwrap_or(false);
    let dtype_item = fields.opt("torch_dtype");
    let dtype_item = if dtype_item.is_present() { dtype_item } else { fields.opt("dtype") };
    let torch_dtype = if dtype_item.is_present() { read_dtype(&dtype_item)? } else { "bfloat16".to_owned() };
    let precision = read_quantization(&fields.opt("quantization_config"))?;
    let path = fields.opt("_name_or_path");
    let named = match path.value() {
        Some(Value::Str(name)) if !name.trim().is_empty() => name.to_lowercase(),
        _ => file.to_owned(),
    };
    let shape = shape?;
    Some(Architecture {
        name: named,
        aliases: Vec::new(),
        family,
        layers: shape.layers,
        hidden: shape.hidden,
        heads: shape.heads,
        kv_heads: shape.kv_heads,
        head_dim: shape.head_dim,
        intermediate: shape.intermediate,
        vocab: shape.vocab,
        tied_embeddings,
        qkv_bias: family == Family::Qwen2,
        max_position_embeddings: shape.max_position_embeddings,
        torch_dtype,
        precision,
        source: file.to_owned(),
    })
}

/// The family by `architectures[0]`, or by `model_type` where there is none.
fn read_family(fields: &mut Fields<'_>) -> Option<Family> {
    let classes = fields.opt("architectures");
    let model_type = fields.opt("model_type");
    if classes.is_present() {
        family(classes.list(1..=100)?.first()?, &CLASSES)
    } else {
        family(&model_type, &Family::WORDS)
    }
}

fn family(item: &Item<'_>, known: &[(&str, Family)]) -> Option<Family> {
    let name = item.string()?;
    let found = known.iter().find(|(word, _)| *word == name).map(|(_, family)| *family);
    if found.is_none() {
        let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
        let expected = format!("one of: {}", words.join(", "));
        item.fault(
            format!("the unsupported {name}"),
            &expected,
            "dense decoders of these families only: no mixture of experts, no latent attention, no images",
        );
    }
    found
}

fn refuse_what_is_not_dense(fields: &mut Fields<'_>) {
    for (name, what) in UNSUPPORTED {
        let item = fields.opt(name);
        if item.is_present() {
            item.fault(what, "a dense decoder", "this is not supported");
        }
    }
}

/// A window shorter than the context would bound the KV cache of a layer, which is not modelled.
fn refuse_sliding_window(fields: &mut Fields<'_>, max_position_embeddings: Option<u32>) {
    let layer_types = fields.opt("layer_types");
    let used = fields.opt("use_sliding_window").bool();
    let window = fields.opt("sliding_window");
    let slides = |item: &Item<'_>| matches!(item.value(), Some(Value::Str(word)) if word != "full_attention");
    if layer_types.is_present() && layer_types.list(0..=4096).is_some_and(|layers| layers.iter().any(slides))
    {
        layer_types.fault(
            "layers without full attention",
            "full_attention only",
            "a sliding window is not supported",
        );
    } else if used != Some(false)
        && let (Some(tokens), Some(longest)) = (window.u32(1..=u32::MAX), max_position_embeddings)
        && tokens < longest
    {
        window.fault(
            format!("a sliding window of {tokens} tokens"),
            &format!("none, or one of at least max_position_embeddings, {longest}"),
            "a sliding window is not supported",
        );
    }
}

/// The layers' precision: that of an FP8 or INT8 checkpoint, else 16 bits.
fn read_quantization(item: &Item<'_>) -> Option<Precision> {
    if !item.is_present() {
        return Some(Precision::Bf16);
    }
    let mut fields = item.fields()?;
    let method_item = fields.req("quant_method");
    let method = method_item.string()?;
    match method.as_str() {
        "fp8" | "fbgemm_fp8" => Some(Precision::Fp8),
        "compressed-tensors" => read_compressed(&fields.req("config_groups")),
        other => {
            let expected = "one of: fp8, fbgemm_fp8, compressed-tensors";
            method_item.fault(format!("{other:?}"), expected, "other quantizations are not supported");
            None
        }
    }
}

fn read_compressed(groups: &Item<'_>) -> Option<Precision> {
    let all = groups.fields()?.all();
    let Some((_, group)) = all.first() else {
        groups.fault("no group", "a group with weights", "");
        return None;
    };
    let weights = group.fields()?.req("weights");
    let mut fields = weights.fields()?;
    let (bits, kind) = (fields.req("num_bits").u32(1..=64)?, fields.req("type").string()?);
    match (bits, kind.as_str()) {
        (8, "float") => Some(Precision::Fp8),
        (8, "int") => Some(Precision::Int8),
        _ => {
            let hint = "other quantizations are not supported";
            weights.fault(format!("weights of {bits} bits, {kind}"), "8 bits, float or int", hint);
            None
        }
    }
}

#[cfg(test)]
mod tests;
