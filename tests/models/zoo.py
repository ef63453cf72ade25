# SPDX-License-Identifier: Apache-2.0
"""Tiny models with random weights, and a batch for each; nothing is downloaded.

Dropout is off everywhere, so that the CPU is an oracle.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import transformers
from torch import nn

VOCABULARY = 96
TEXT = dict(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4)


class BasicBlock(nn.Module):
    """ResNet's block of two 3x3 convolutions, as in torchvision."""

    def __init__(self, inner: int, outer: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outer)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Sequential()
        if stride != 1 or inner != outer:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer)
            )

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, classes: int = 10):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 7, 2, 3, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        )
        self.blocks = nn.Sequential(BasicBlock(8, 8, 1), BasicBlock(8, 16, 2))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(16, classes)

    def forward(self, x):
        return self.fc(torch.flatten(self.pool(self.blocks(self.stem(x))), 1))


class LastOfLSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 16)
        self.lstm = nn.LSTM(16, 24, num_layers=2, batch_first=True)
        self.fc = nn.Linear(24, 10)

    def forward(self, ids):
        return self.fc(self.lstm(self.embedding(ids))[0][:, -1])


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(20, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 32), nn.SiLU()
        )
        self.fc = nn.Linear(32, 10)

    def forward(self, x):
        return self.fc(self.layers(x))


@dataclass
class Entry:
    make: Callable[[], nn.Module]
    # Inputs on the CPU for a step, drawn from the generator; "labels" is the target.
    batch: Callable[[torch.Generator], dict[str, torch.Tensor]]
    generates: bool = False


def _ids(generator, rows=2, length=12):
    ids = torch.randint(3, VOCABULARY, (rows, length), generator=generator)
    return {"input_ids": ids, "labels": ids}


def _masked_ids(generator):
    batch = _ids(generator)
    mask = torch.ones_like(batch["input_ids"])
    mask[1, 8:] = 0  # a padded row
    labels = batch["labels"].masked_fill(mask == 0, -100)
    return {"input_ids": batch["input_ids"], "attention_mask": mask, "labels": labels}


def _classes(*shape):
    def batch(generator):
        x = torch.randn(4, *shape, generator=generator)
        return {"x": x, "labels": torch.randint(10, (4,), generator=generator)}

    return batch


def _pixels(generator):
    batch = _classes(3, 16, 16)(generator)
    return {"pixel_values": batch["x"], "labels": batch["labels"]}


def _token_classes(generator):
    ids = torch.randint(VOCABULARY, (4, 7), generator=generator)
    return {"ids": ids, "labels": torch.randint(10, (4,), generator=generator)}


def _llama():
    config = transformers.LlamaConfig(
        **TEXT, intermediate_size=48, num_key_value_heads=2, max_position_embeddings=64
    )
    return transformers.LlamaForCausalLM(config)


def _qwen3():
    config = transformers.Qwen3Config(
        **TEXT,
        intermediate_size=48,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=64,
        bos_token_id=1,
        eos_token_id=2,
    )
    return transformers.Qwen3ForCausalLM(config)


def _qwen3_moe():
    config = transformers.Qwen3MoeConfig(
        **TEXT,
        intermediate_size=48,
        moe_intermediate_size=16,
        num_experts=4,
        num_experts_per_tok=2,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=64,
        bos_token_id=1,
        eos_token_id=2,
    )
    return transformers.Qwen3MoeForCausalLM(config)


def _gpt2():
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=64,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return transformers.GPT2LMHeadModel(config)


def _bert():
    config = transformers.BertConfig(
        **TEXT,
        intermediate_size=48,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return transformers.BertForMaskedLM(config)


def _vit():
    config = transformers.ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        image_size=16,
        patch_size=4,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=10,
    )
    return transformers.ViTForImageClassification(config)


ZOO = {
    "llama3": Entry(_llama, _ids, generates=True),
    "qwen3": Entry(_qwen3, _ids, generates=True),
    "qwen3_moe": Entry(_qwen3_moe, _ids, generates=True),
    "gpt2": Entry(_gpt2, _masked_ids, generates=True),
    "bert": Entry(_bert, _masked_ids),
    "vit": Entry(_vit, _pixels),
    "resnet": Entry(ResNet, _classes(3, 32, 32)),
    "lstm": Entry(LastOfLSTM, _token_classes),
    "mlp": Entry(MLP, _classes(20)),
}


def make(name: str, seed: int = 0) -> nn.Module:
    """The model on the CPU, in training mode, the same weights for a given seed."""
    torch.manual_seed(seed)
    return ZOO[name].make().train()


def loss(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Scalar loss: the model's own for transformers, else cross entropy."""
    if isinstance(model, transformers.PreTrainedModel):
        return model(**batch).loss
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    return nn.functional.cross_entropy(model(**inputs), batch["labels"])
