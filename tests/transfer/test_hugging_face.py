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


@pytest.mark.parametrize("family", ["Gemma", "Gemma2"])
def test_embeddings_times_the_root_of_the_width(family):
    """Gemma multiplies embeddings by sqrt(width): they start and move by as much less."""
    plan = dl.transfer(build(family), **SIZES)
    row = plan["model.embed_tokens.weight"]
    assert (row.width_factor, row.init_ratio, row.lr_mult) == pytest.approx((2**0.5, 2**-0.5, 2**-0.5))
    assert not any("not counted" in note for note in plan.notes)
    assert {other.width_factor for other in plan.rows if other != row} == {1.0}
    assert {row.width_factor for row in dl.transfer(build("Llama"), **SIZES).rows} == {1.0}


def test_tied_readout():
    plan = dl.transfer(build("GPT2", tied=True), **SIZES)
    assert plan["transformer.wte.weight"].lr_mult == plan["transformer.wte.weight"].init_ratio == 1
    assert plan["transformer.ln_f.weight"].lr_mult == plan["transformer.ln_f.weight"].init_ratio == 1 / 2


def test_a_tied_readout_whose_logits_are_capped():
    """Gemma 2 caps logits by a tanh: its last gain, 1 + w, carries 1/m of the readout before that.

    The table is multiplied by sqrt(m) where it is looked up, and is smaller for it: the gain makes good for that.
    """
    plan = dl.transfer(build("Gemma2", tied=True), **SIZES)
    row, c = plan["model.norm.weight"], 2**0.5 / 2
    assert (row.tied_width, row.decay_mult) == (2, 0)
    assert (row.init_mult, row.init_shift, row.lr_mult) == pytest.approx((c, c - 1, c))
    assert plan["model.embed_tokens.weight"].lr_mult == pytest.approx(2**-0.5)


def test_constant_initial_values_fall_with_width():
    """The library draws matrices with a constant 0.02; the plan makes hidden ones fall like 1/sqrt(fan-in)."""
    row = dl.transfer(build("Llama"), **SIZES)["model.layers.0.mlp.up_proj.weight"]
    assert row.init_mult == pytest.approx(2**-0.5)


def grown_heads(family):
    """Four heads at every width: their size grows."""

    def make(width, depth):
        own = settings(family, width, depth)
        own |= {key: 4 for key in ("num_attention_heads", "n_head") if key in own}
        own |= {"num_key_value_heads": 2} if "num_key_value_heads" in own else {}
        own |= {"head_dim": width // 4} if "head_dim" in own else {}
        return transformers.AutoModelForCausalLM.from_config(getattr(transformers, f"{family}Config")(**own))

    return make


# family: (what carries the factor of the logits in a layer, the factor: sqrt(8 / 32), or 8 / 32 for a constant scale)
HEADS = {
    "Llama": ({"self_attn.q_proj.weight"}, 1 / 2),
    "Qwen2": ({"self_attn.q_proj.weight", "self_attn.q_proj.bias"}, 1 / 2),
    "Olmo2": ({"self_attn.q_norm.weight"}, 1 / 2),
    "Qwen3": ({"self_attn.q_norm.weight"}, 1 / 2),
    "Gemma2": ({"self_attn.q_proj.weight"}, 1 / 4),
    "GPT2": ({"attn.scaling"}, 32**-0.5 / 2),
    "GPTNeoX": ({"attention.scaling"}, 32**-0.5 / 2),
}


@pytest.mark.parametrize("family", HEADS)
def test_heads_that_grow_in_size(family):
    carriers, factor = HEADS[family]
    plan = dl.transfer(
        grown_heads(family), base={"width": 32, "depth": 2}, target={"width": 128, "depth": 2}, rule="mup"
    )
    folded = {inner(row.name): row.logits_factor for row in plan.rows if row.logits_factor != 1}
    held = {inner(name): value for name, value in plan.scales.items()}
    assert {name: value for name, value in (folded | held).items()} == pytest.approx(dict.fromkeys(carriers, factor))
    assert "attention: 4 heads of 8 become 4 of 32" in plan.notes


def test_keys_that_more_queries_share():
    def make(width, depth):
        own = {**settings("Llama", width, depth), "num_key_value_heads": 2}
        return transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(**own))

    plan = dl.transfer(make, base={"width": 32, "depth": 2}, target={"width": 64, "depth": 2}, rule="mup")
    said = {inner(row.name) for row in plan.rows if "not claimed: 2 queries share a key" in row.reason}
    assert said == {"self_attn.k_proj.weight", "self_attn.v_proj.weight"}


def deepseek(width, depth):
    """The first layer dense, the others with experts: two kinds of blocks in one list; low-rank queries and keys."""
    own = settings("Llama", width, depth) | {"q_lora_rank": width, "kv_lora_rank": width, "v_head_dim": 8}
    own |= {"qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1}
    own |= {"num_key_value_heads": width // 8, "topk_group": 1, "moe_intermediate_size": width}
    own |= {"first_k_dense_replace": 1}
    return transformers.AutoModelForCausalLM.from_config(transformers.DeepseekV3Config(**own))


def test_kinds_of_blocks_in_one_list():
    """Both kinds add to the stream: 3 and 5 layers, not 2 and 4 beside one that stays."""
    plan = dl.transfer(deepseek, base={"width": 32, "depth": 3}, target={"width": 64, "depth": 5})
    assert {row.depth_ratio for row in plan.rows if ".layers." in row.name} == {5 / 3}
    ends = {row.name.split(".", 3)[3] for row in plan.rows if row.branch_output}
    sparse = {"mlp.experts.down_proj", "mlp.shared_experts.down_proj.weight"}
    assert ends == {"self_attn.o_proj.weight", "mlp.down_proj.weight"} | sparse


@pytest.mark.parametrize("family", ["Gemma3Text", "Cohere2", "SmolLM3"])
def test_blocks_that_differ_by_their_place(family):
    """Local and global attention, positions or none, by the layer's number: compared where they do the same."""

    def make(width, depth):
        own = settings("Llama", width, depth) | {"head_dim": 8}
        return transformers.AutoModelForCausalLM.from_config(getattr(transformers, f"{family}Config")(**own))

    plan = dl.transfer(make, base={"width": 32, "depth": 4}, target={"width": 64, "depth": 8})
    assert sum(row.branch_output for row in plan.rows) == 16
    assert {row.forward_alpha for row in plan.rows} == {0.0}


def test_post_norm_is_refused():
    with pytest.raises(dl.DeepLimitsError, match="not the identity at zero parameters: its stream passes a norm"):
        dl.transfer(build("Bert"), **SIZES)
