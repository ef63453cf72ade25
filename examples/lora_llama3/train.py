# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes a Llama 3 checkpoint with LoRA, on a TPU or a CPU, in plain PyTorch.

train.py --config tiny                    makes a small checkpoint first; needs nothing else
train.py --model DIR --text FILE          a real checkpoint folder and your own text
train.py --config tiny --device cpu       the same on the CPU, to compare
"""

import argparse
import json
import os
import pathlib
import sys
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # checkpoints are folders: nothing is downloaded

import data
import output
import torch
import transformers
from loop import train
from output import UserError
from peft import LoraConfig, PeftModel, get_peft_model

LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--model", type=pathlib.Path, help="checkpoint folder (safetensors)")
    source.add_argument("--config", choices=["tiny"], help="make a small checkpoint first")
    parser.add_argument("--text", type=pathlib.Path, help="text to fine-tune on (default: stdlib)")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out/lora_llama3"))
    parser.add_argument("--device", default="tpu", help="tpu, tpu:1, cpu ... (default: tpu)")
    parser.add_argument("--dtype", default="float32", choices=DTYPES, help="of the base weights")
    parser.add_argument("--steps", type=int, default=120, help="LoRA steps")
    parser.add_argument("--pretrain-steps", type=int, default=200, help="for --config tiny")
    parser.add_argument("--batch", type=int, default=16, help="rows per step")
    parser.add_argument("--length", type=int, default=64, help="tokens per row")
    parser.add_argument("--rate", type=float, default=5e-3, help="peak learning rate of LoRA")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--alpha", type=float, default=16.0)
    parser.add_argument("--dropout", type=float, default=0.0, help="LoRA dropout")
    parser.add_argument("--prompt", default="def ", help="start of the sample text")
    parser.add_argument("--sample-tokens", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compare", type=pathlib.Path, help="--out of another run: plot it too")
    arguments = parser.parse_args()
    for name in ("steps", "pretrain_steps", "batch", "length", "rank", "sample_tokens"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    return arguments


def open_device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
        return device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"device '{name}' cannot be used: {reason}", "make build, or --device cpu"
        ) from None


def load(folder: pathlib.Path, dtype: torch.dtype):
    """Model (on the CPU) and tokenizer of a checkpoint folder."""
    if not (folder / "config.json").is_file():
        found = "has no config.json" if folder.is_dir() else "does not exist"
        raise UserError(f"--model {folder} {found}", "the folder of a Hugging Face checkpoint")
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"--model {folder} cannot be loaded: {reason}", "a complete checkpoint folder"
        ) from None
    modules = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    if not modules.issuperset(LINEARS):
        raise UserError(
            f"--model {folder} is a {model.config.model_type}, without {LINEARS[0]} ... "
            f"{LINEARS[-1]}",
            "a Llama checkpoint",
        )
    return model, tokenizer


def sample(model, tokenizer, prompt: str, tokens: int) -> str:
    """`prompt` continued greedily by `tokens` tokens."""
    model.eval()
    ids = tokenizer(prompt, return_tensors="pt").input_ids.to(model.device)
    with torch.no_grad():
        made = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=tokens,
            do_sample=False,
            repetition_penalty=1.2,
            pad_token_id=tokenizer.eos_token_id,
        )
    return tokenizer.decode(made[0].tolist(), skip_special_tokens=True)


def logits(model, ids: torch.Tensor) -> torch.Tensor:
    model.eval()
    with torch.no_grad():
        return model(input_ids=ids).logits.float().cpu()


def check_adapters(folder, base_folder, dtype, ids: torch.Tensor, expected: torch.Tensor) -> float:
    """Loads base and adapters again; the largest difference of logits, which must be rounding."""
    base, _ = load(base_folder, dtype)
    again = PeftModel.from_pretrained(base, folder).to(ids.device)
    found = logits(again, ids)
    difference = (found - expected).abs().max().item()
    if difference > 1e-5 * expected.abs().max().item():
        raise UserError(
            f"the model with reloaded adapters gives other logits (by {difference:.3g})",
            "report this as a bug, with the command line",
        )
    return difference


def check_fallbacks(device: torch.device) -> None:
    """On the tpu device every op must have run there."""
    if device.type != "tpu":
        return
    fallbacks = torch.tpu.metrics()["fallbacks"]
    if fallbacks:
        raise UserError(
            f"ops ran on the CPU instead of {device}: {fallbacks}",
            "TORCH_TPU_FALLBACK=error to see where",
        )
    print(f"ops that fell back to the CPU: none ({torch.tpu.metrics()['dispatches']:,} native)")


def other_run(folder: pathlib.Path) -> dict:
    path = folder / "report" / "report.json"
    if not path.is_file():
        raise UserError(f"--compare: {path} not found", "the --out folder of another run")
    return json.loads(path.read_text())


def save_report(arguments, curves: dict[str, list[float]], samples: dict, other: dict) -> None:
    report = {
        "device": arguments.device,
        "dtype": arguments.dtype,
        "losses": curves,
        "samples": samples,
    }
    shown = dict(curves)
    if other:
        for name, losses in other["losses"].items():
            shown[f"{name} ({other['device']})"] = losses
            pairs = zip(losses, curves.get(name, []), strict=False)
            if difference := max((abs(a - b) for a, b in pairs), default=0.0):
                print(f"{name}: losses differ from {other['device']} by up to {difference:.2e}")
    with output.whole_folder(arguments.out / "report", needed_bytes=1_000_000) as part:
        (part / "report.json").write_text(json.dumps(report, indent=1))
        output.plot_losses(part / "loss.png", shown)


def run(arguments: argparse.Namespace) -> None:
    began = time.perf_counter()
    other = other_run(arguments.compare) if arguments.compare else {}
    device = open_device(arguments.device)
    dtype = DTYPES[arguments.dtype]
    text = data.read_text(arguments.text) if arguments.text else data.source_text()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.manual_seed(arguments.seed)
    curves, sizes = {}, {"batch": arguments.batch, "length": arguments.length}

    folder = arguments.model
    if arguments.config == "tiny":
        from tiny import make_checkpoint

        folder = arguments.out / "checkpoint"
        curves["pretrain"] = make_checkpoint(
            folder, device, arguments.pretrain_steps, seed=arguments.seed, **sizes
        )

    base, tokenizer = load(folder, dtype)
    tokens = data.tokenize(text, tokenizer, **sizes)
    torch.manual_seed(arguments.seed)
    # Adapters are drawn on the CPU, so that every device starts from the same numbers.
    lora = LoraConfig(
        r=arguments.rank,
        lora_alpha=arguments.alpha,
        lora_dropout=arguments.dropout,
        target_modules=LINEARS,
        task_type="CAUSAL_LM",
    )
    model = get_peft_model(base, lora).to(device)
    trained, total = model.get_nb_trainable_parameters()
    print(f"LoRA on {len(LINEARS)} linears per layer: {trained:,} of {total:,} parameters train")

    samples = {"before": sample(model, tokenizer, arguments.prompt, arguments.sample_tokens)}
    curves["LoRA"] = train(
        model,
        tokens=tokens,
        steps=arguments.steps,
        rate=arguments.rate,
        seed=arguments.seed + 1,
        title="LoRA",
        **sizes,
    )
    samples["after"] = sample(model, tokenizer, arguments.prompt, arguments.sample_tokens)

    adapters = arguments.out / "adapters"
    with output.whole_folder(adapters, needed_bytes=8 * trained + 1_000_000) as part:
        model.save_pretrained(part)
    ids = tokens[: arguments.length].view(1, -1).to(device)
    difference = check_adapters(adapters, folder, dtype, ids, logits(model, ids))
    check_fallbacks(device)
    save_report(arguments, curves, samples, other)

    for name, sampled in samples.items():
        print(f"--- sample {name} fine-tuning\n{sampled}")
    print("---")
    print(f"adapters saved and loaded again: logits differ by {difference:.1e}")
    for name, losses in curves.items():
        print(f"{name} loss {losses[0]:.3f} -> {sum(losses[-10:]) / len(losses[-10:]):.3f}")
    print(f"time: {time.perf_counter() - began:.0f} s on {device}")
    print(
        f"checkpoint: {folder}\nadapters:   {adapters}\nloss plot:  {arguments.out}/report/loss.png"
    )


def main() -> int:
    try:
        run(parse_arguments())
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except Exception as error:
        if output.out_of_disk(error):
            print(f"error: no space left on device ({error})\nTry: another --out", file=sys.stderr)
            return 1
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
