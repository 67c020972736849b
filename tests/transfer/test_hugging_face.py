"""Models of the transformers library, from tiny random configurations: roles, residual branches, readouts."""

from __future__ import annotations

import pytest

import deeplimits as dl

transformers = pytest.importorskip("transformers")

SIZES = {"base": {"width": 32, "depth": 2}, "target": {"width": 64, "depth": 4}}
LLAMA = {"mlp.down_proj.weight", "self_attn.o_proj.weight"}
# family: (what ends the branches, output-like matrices beside the readout)
FAMILIES = {
    "GPT2": ({f"{part}.c_proj.{kind}" for part in ("attn", "mlp") for kind in ("weight", "bias")}, set()),
    "Llama": (LLAMA, set()),
    "GPTNeoX": ({f"{n}.{k}" for n in ("attention.dense", "mlp.dense_4h_to_h") for k in ("weight", "bias")}, set()),
    "Mixtral": ({"mlp.experts.down_proj", "self_attn.o_proj.weight"}, {"mlp.gate.weight"}),
    "Gemma2": ({"post_attention_layernorm.weight", "post_feedforward_layernorm.weight"}, set()),
    "Olmo2": ({"post_attention_layernorm.weight", "post_feedforward_layernorm.weight"}, set()),
    "Mistral": (LLAMA, set()),
    "Qwen2": (LLAMA, set()),
    "Qwen3": (LLAMA, set()),
    "Granite": (LLAMA, set()),
    "Phi": ({f"{n}.{k}" for n in ("self_attn.dense", "mlp.fc2") for k in ("weight", "bias")}, set()),
    "OPT": ({f"{n}.{k}" for n in ("self_attn.out_proj", "fc2") for k in ("weight", "bias")}, set()),
    "StableLm": (LLAMA, set()),
    "Starcoder2": ({f"{n}.{k}" for n in ("self_attn.o_proj", "mlp.c_proj") for k in ("weight", "bias")}, set()),
}
EMBEDDINGS = {"wte.weight", "wpe.weight", "embed_in.weight", "embed_tokens.weight", "embed_positions.weight"}


def settings(family, width, depth):
    heads = max(width // 8, 2)
    common = {"vocab_size": 64, "hidden_size": width, "num_hidden_layers": depth, "num_attention_heads": heads}
    common |= {"max_position_embeddings": 32, "tie_word_embeddings": False}
    ids = {"bos_token_id": 1, "eos_token_id": 2}
    if family == "GPT2":
        return {"vocab_size": 64, "n_embd": width, "n_layer": depth, "n_head": heads, "n_positions": 32, **ids}
    if family == "OPT":
        return common | ids | {"ffn_dim": 2 * width, "word_embed_proj_dim": width, "pad_token_id": 0}
    common |= ids | {"pad_token_id": 0, "intermediate_size": 2 * width}
    if family in ("GPTNeoX", "Bert"):
        return common
    common["num_key_value_heads"] = heads if family == "Phi" else heads // 2
    extra = {"Mixtral": {"num_local_experts": 4}, "Gemma2": {"head_dim": 8, "query_pre_attn_scalar": 8}}
    extra |= {"Qwen3": {"head_dim": 8}}
    return common | extra.get(family, {})


def build(family, tied=False):
    def make(width, depth):
        config = getattr(transformers, f"{family}Config")(**settings(family, width, depth))
        config.tie_word_embeddings = tied
        if family == "Bert":
            config.is_decoder = True
            return transformers.BertLMHeadModel(config)
        return transformers.AutoModelForCausalLM.from_config(config)

    return make


def inner(name):
    """The name within its block."""
    parts = name.split(".")
    return ".".join(parts[next((i for i, part in enumerate(parts) if part.isdigit()), -1) + 1 :])


@pytest.mark.parametrize("family", FAMILIES)
def test_families(family):
    ends, outputs = FAMILIES[family]
    plan = dl.transfer(build(family), **SIZES)
    assert {inner(row.name) for row in plan.rows if row.branch_output} == ends
    assert sum(row.branch_output for row in plan.rows) == 4 * len(ends)
    assert {inner(row.name) for row in plan.rows if row.role == "output"} == {"lm_head.weight"} | outputs
    inputs = [row.name for row in plan.rows if row.role == "input"]
    assert inputs and all(name.endswith(tuple(EMBEDDINGS)) for name in inputs)
    assert {row.lr_mult for row in plan.rows if row.role == "hidden" and not row.branch_output} == {1 / 2}
    assert "attention: 4 heads of 8 become 8 of 8" in plan.notes and {row.logits_factor for row in plan.rows} == {1}


def test_gains_of_one_plus_w():
    """Gemma reads a gain as 1 + w: the branch's 1/2 takes w from 0 to -1/2, and its learning rate halves."""
    plan = dl.transfer(build("Gemma2"), **SIZES)
    row = plan["model.layers.1.post_attention_layernorm.weight"]
    assert (row.init_mult, row.init_shift, row.lr_mult) == (0.5, -0.5, 0.5)
    model = build("Gemma2")(64, 4)
    plan.apply(model, initial=True)
    gain = model.model.layers[1].post_attention_layernorm.weight
    assert gain.detach().unique().tolist() == [-0.5]


def test_tied_readout():
    plan = dl.transfer(build("GPT2", tied=True), **SIZES)
    assert plan["transformer.wte.weight"].lr_mult == plan["transformer.wte.weight"].init_ratio == 1
    assert plan["transformer.ln_f.weight"].lr_mult == plan["transformer.ln_f.weight"].init_ratio == 1 / 2


def test_constant_initial_values_fall_with_width():
    """The library draws matrices with a constant 0.02; the plan makes hidden ones fall like 1/sqrt(fan-in)."""
    row = dl.transfer(build("Llama"), **SIZES)["model.layers.0.mlp.up_proj.weight"]
    assert row.init_mult == pytest.approx(2**-0.5)


def test_post_norm_is_refused():
    with pytest.raises(dl.DeepLimitsError, match="not the identity at zero parameters: its stream passes a norm"):
        dl.transfer(build("Bert"), **SIZES)
