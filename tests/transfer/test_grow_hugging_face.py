"""Hugging Face models widened: fused and interleaved attention, grouped keys, experts, tied readouts, post-norms."""

from __future__ import annotations

import pytest
import torch

import deeplimits as dl
from deeplimits.errors import InputError

transformers = pytest.importorskip("transformers")

SIZE = 16
COMMON = {"vocab_size": 50, "num_hidden_layers": 2, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}


def sizes(width, keys=2, **more):
    heads = width // SIZE
    return {
        **COMMON, "hidden_size": width, "intermediate_size": 2 * width, "num_attention_heads": heads,
        "num_key_value_heads": heads // keys, **more,
    }  # fmt: skip


def bert(width):
    own = sizes(width)
    del own["num_key_value_heads"]
    return transformers.BertConfig(**own)


FAMILIES = {
    "gpt2": lambda w: transformers.GPT2Config(n_embd=w, n_head=w // SIZE, n_layer=2, n_positions=32, **COMMON),
    "llama": lambda w: transformers.LlamaConfig(**sizes(w, head_dim=SIZE)),
    "gpt_neox": lambda w: transformers.GPTNeoXConfig(**sizes(w)),
    "mixtral": lambda w: transformers.MixtralConfig(**sizes(w, num_local_experts=4)),
    "phi3": lambda w: transformers.Phi3Config(**sizes(w, keys=1)),
    "bert": bert,
}
FUSED = {"mixtral": {"gate_up": 2}, "phi3": {"gate_up": 2}}


def made(family, width, seed):
    torch.manual_seed(seed)
    auto = transformers.AutoModelForMaskedLM if family == "bert" else transformers.AutoModelForCausalLM
    return auto.from_config(FAMILIES[family](width)).eval()


@pytest.mark.parametrize("family", FAMILIES)
def test_outputs_stay(family):
    small, large = made(family, 32, 0), made(family, 64, 1)
    grown = dl.grow(small, large, parts=FUSED.get(family))
    assert grown.error is not None and grown.error <= (1e-6 if family == "mixtral" else 1e-12)  # experts in float32
    words = torch.arange(14).reshape(2, 7)
    with torch.no_grad():
        one, other = small(words).logits, large(words).logits
    torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-5)


def test_a_fused_matrix_is_asked_about():
    with pytest.raises(InputError, match=r"copies part at .*parts=\{name: number\}"):
        dl.grow(made("mixtral", 32, 0), made("mixtral", 64, 1))
