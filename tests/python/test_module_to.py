# SPDX-License-Identifier: Apache-2.0
"""Module.to keeps the identity of parameters, so an optimizer built before it goes on working."""

import pytest
import torch


def make_model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)
    )


def step(model, optimizer, device):
    optimizer.zero_grad()
    x = torch.linspace(-1, 1, 24, device=device).reshape(6, 4)
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()


def test_compatible_types():
    cpu, tpu = torch.ones(2), torch.ones(2, device="tpu")
    for a in (cpu, tpu):
        for b in (cpu, tpu):
            assert torch._has_compatible_shallow_copy_type(a, b)
    sparse = torch.eye(2).to_sparse()
    assert not torch._has_compatible_shallow_copy_type(tpu, sparse)
    assert not torch._has_compatible_shallow_copy_type(sparse, tpu)


@pytest.mark.parametrize("move", ["to", "tpu"])
def test_parameters_keep_their_identity(move):
    model = make_model()
    before = dict(model.named_parameters())
    model = model.to("tpu") if move == "to" else model.tpu()
    for name, parameter in model.named_parameters():
        assert parameter is before[name]
        assert parameter.is_tpu and parameter.is_leaf and parameter.requires_grad
    assert all(b.is_tpu for b in model.buffers())


@pytest.mark.parametrize("make_optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_an_optimizer_built_before_the_move(make_optimizer):
    expected_model = make_model()
    expected_optimizer = make_optimizer(expected_model.parameters(), lr=0.05)
    model = make_model()
    optimizer = make_optimizer(model.parameters(), lr=0.05)
    model.to("tpu")
    for _ in range(5):
        expected = step(expected_model, expected_optimizer, "cpu")
        assert step(model, optimizer, "tpu") == pytest.approx(expected, rel=1e-4)
    for a, b in zip(model.parameters(), expected_model.parameters(), strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-5)


def test_gradients_move_too():
    model = torch.nn.Linear(3, 3)
    model(torch.ones(1, 3)).sum().backward()
    grads = [p.grad.clone() for p in model.parameters()]
    model.to("tpu")
    for p, g in zip(model.parameters(), grads, strict=True):
        assert p.grad.is_tpu and torch.equal(p.grad.cpu(), g)


def test_there_and_back():
    model = make_model()
    state = {k: v.clone() for k, v in model.state_dict().items()}
    identities = [id(p) for p in model.parameters()]
    model.to("tpu").to("cpu")
    assert [id(p) for p in model.parameters()] == identities
    for k, v in model.state_dict().items():
        assert v.device.type == "cpu" and torch.equal(v, state[k])


def test_dtype_and_device_at_once():
    model = make_model().to("tpu", torch.bfloat16)
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    assert model[0].num_batches_tracked.dtype == torch.int64
    assert model(torch.ones(3, 4, device="tpu", dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_tied_weights_stay_tied():
    a = torch.nn.Linear(4, 4, bias=False)
    b = torch.nn.Linear(4, 4, bias=False)
    b.weight = a.weight
    model = torch.nn.Sequential(a, b).to("tpu")
    assert model[0].weight is model[1].weight
    model(torch.ones(1, 4, device="tpu")).sum().backward()
    assert model[0].weight.grad is model[1].weight.grad


def test_to_empty_from_meta():
    with torch.device("meta"):
        model = torch.nn.Linear(3, 2)
    model = model.to_empty(device="tpu")
    torch.nn.init.ones_(model.weight)
    torch.nn.init.zeros_(model.bias)
    assert torch.equal(model(torch.ones(1, 3, device="tpu")).cpu(), torch.full((1, 2), 3.0))


def test_made_on_the_device():
    with torch.device("tpu"):
        model = torch.nn.Linear(3, 2)
    assert model.weight.is_tpu
    torch.set_default_device("tpu")
    try:
        assert torch.ones(2).is_tpu
    finally:
        torch.set_default_device(None)


def test_old_data_assignment():
    p = torch.nn.Parameter(torch.ones(3))
    identity = id(p)
    p.data = torch.full((2, 2), 5.0, device="tpu")
    assert id(p) == identity and p.is_tpu and p.shape == (2, 2)
    (p * 2).sum().backward()
    assert p.grad.is_tpu and p.grad.shape == (2, 2)
    p.grad = None
    p.data = p.data.cpu()
    assert p.device.type == "cpu" and p.tolist() == [[5, 5], [5, 5]]


@pytest.mark.parametrize("swap", [True, False])
def test_the_future_flags_of_torch(swap):
    model = torch.nn.Linear(3, 2)
    flag = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(swap)
    try:
        before = [id(p) for p in model.parameters()]
        model.to("tpu")
        assert [id(p) for p in model.parameters()] == before
        assert all(p.is_tpu for p in model.parameters())
    finally:
        torch.__future__.set_swap_module_params_on_conversion(flag)
