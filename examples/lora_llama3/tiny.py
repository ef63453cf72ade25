# SPDX-License-Identifier: Apache-2.0
"""A small Llama 3 with its own tokenizer, saved as a Hugging Face checkpoint folder."""

import pathlib

import torch
from data import reference_text, tokenize
from loop import train
from output import whole_folder
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCABULARY = 512


def make_tokenizer(text: str) -> PreTrainedTokenizerFast:
    """A byte-level byte-pair tokenizer trained on `text`, with Llama 3's special tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|begin_of_text|>", "<|end_of_text|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=special[0], eos_token=special[1], pad_token=special[1]
    )


def make_model() -> LlamaForCausalLM:
    """Llama 3's architecture (grouped queries, SwiGLU, RMS norm, RoPE) with 1 M parameters."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=128,
            intermediate_size=448,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=1024,
            rope_parameters={"rope_theta": 500000.0, "rope_type": "default"},
            rms_norm_eps=1e-5,
            initializer_range=0.06,
            tie_word_embeddings=True,
            bos_token_id=0,
            eos_token_id=1,
            pad_token_id=1,
        )
    )


def make_checkpoint(
    folder: pathlib.Path, device: torch.device, steps: int, batch: int, length: int, seed: int
) -> list[float]:
    """Trains tokenizer and model on the Python reference, saves both to `folder`; the losses."""
    text = reference_text()
    tokenizer = make_tokenizer(text)
    model = make_model().to(device)
    losses = train(
        model,
        tokens=tokenize(text, tokenizer, batch, length),
        steps=steps,
        batch=batch,
        length=length,
        rate=4e-3,
        seed=seed,
        title="pretrain",
    )
    weights = sum(p.nbytes for p in model.parameters())
    with whole_folder(folder, needed_bytes=2 * weights + 1_000_000) as part:
        model.to("cpu").save_pretrained(part)
        tokenizer.save_pretrained(part)
    return losses
