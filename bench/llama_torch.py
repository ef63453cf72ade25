# SPDX-License-Identifier: Apache-2.0
"""Training steps of a tiny Llama (Hugging Face's, unmodified) with AdamW on a torch device."""

import shapes
import torch
import transformers


class Trainer:
    def __init__(self, device: str):
        torch.manual_seed(0)
        config = transformers.LlamaConfig(
            vocab_size=shapes.VOCABULARY,
            hidden_size=shapes.HIDDEN,
            intermediate_size=shapes.INNER,
            num_hidden_layers=shapes.LAYERS,
            num_attention_heads=shapes.HEADS,
            num_key_value_heads=shapes.KEY_HEADS,
            use_cache=False,
        )
        self.model = transformers.LlamaForCausalLM(config).to(device).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=shapes.RATE)
        self.ids = torch.randint(shapes.VOCABULARY, (shapes.BATCH, shapes.LENGTH)).to(device)

    def steps(self, count: int) -> list[float]:
        """Runs `count` steps; the losses, read once at the end."""
        losses = []
        for _ in range(count):
            loss = self.model(input_ids=self.ids, labels=self.ids).loss
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            losses.append(loss.detach())
        return torch.stack(losses).tolist()
