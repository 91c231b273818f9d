"""The deep baselines: the contract, what they share, and each loss against its equation in plain loops."""

from math import exp, log, sqrt

import numpy as np
import pytest
import torch
from torch import nn

from nptad.bench.checks import CHECKS, run_check
from nptad.bench.methods import drl, drocc, goad, icl, mcm, neutral_ad
from nptad.bench.methods.deep import mlp
from nptad.bench.methods.drl import DRL
from nptad.bench.methods.drocc import DROCC
from nptad.bench.methods.goad import GOAD
from nptad.bench.methods.icl import ICL
from nptad.bench.methods.mcm import MCM
from nptad.bench.methods.neutral_ad import NeuTraLAD
from nptad.errors import InputError, TrainingError

# Small enough for many fits, large enough to see an outlier.
SMALL = {
    DROCC: {"max_steps": 60, "n_ascents": 5},
    GOAD: {"n_maps": 32, "mapped": 8},
    NeuTraLAD: {"max_steps": 80},
    ICL: {"max_steps": 20, "embedding": 32},
    MCM: {"n_epochs": 20, "n_masks": 4, "hidden": 32, "latent": 16},
    DRL: {"n_epochs": 30, "hidden": 32, "embedding": 16},
}
METHODS = list(SMALL)


@pytest.fixture(autouse=True)
def seeded():
    """The same random inputs in every run, and torch's generator as it was before."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def small(method, **parameters):
    return method(**{"random_state": 0, **SMALL[method], **parameters})


def table(n_rows=120, n_columns=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n_rows, n_columns))


# A mini-batch is drawn by position, so the order of the training rows matters.
@pytest.mark.parametrize("check", [name for name in CHECKS if name != "training_order"])
@pytest.mark.parametrize("method", METHODS)
def test_contract(method, check):
    run_check(check, lambda: small(method))


@pytest.mark.parametrize("method", METHODS)
class TestShared:
    def test_rows_have_the_same_bits_in_any_company(self, method):
        detector, rows = small(method).fit(table()), table(300, seed=1)
        together = detector.score(rows)
        order = np.random.default_rng(2).permutation(300)
        assert np.array_equal(detector.score(rows[order]), together[order])
        assert np.array_equal(detector.score(rows[270:273]), together[270:273])

    def test_randomness_comes_from_random_state_only(self, method):
        state = torch.random.get_rng_state()
        first = small(method).fit(table()).score(table(seed=1))
        assert torch.equal(torch.random.get_rng_state(), state)
        torch.manual_seed(7)
        assert np.array_equal(small(method).fit(table()).score(table(seed=1)), first)
        torch.random.set_rng_state(state)
        assert not np.array_equal(small(method, random_state=1).fit(table()).score(table(seed=1)), first)
        drawn = [small(method, random_state=np.random.default_rng(3)).fit(table()).score(table(seed=1)) for _ in "ab"]
        assert np.array_equal(*drawn)

    def test_parameters_are_checked(self, method):
        for wrong in ({"n_epochs": 0}, {"batch_size": 2.5}, {"learning_rate": -1.0}, {"learning_rate": float("nan")}):
            with pytest.raises(InputError, match=next(iter(wrong))):
                small(method, **wrong).fit(table())
        with pytest.raises(InputError, match="device 'abacus'"):
            small(method, device="abacus").fit(table())
        with pytest.raises(TypeError):
            method(3)

    def test_progress_bar(self, method, capsys, monkeypatch):
        monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes standard error for a terminal
        small(method, verbose=True).fit(table())
        assert method.__name__ in capsys.readouterr().err

    def test_one_hot_columns_and_few_batches(self, method):
        categories = np.eye(3)[np.random.default_rng(0).integers(0, 3, size=150)]
        rows = np.hstack([table(150), categories])
        scores = small(method, batch_size=40, max_steps=7).fit(rows).score(rows)
        assert np.isfinite(scores).all()
        assert len(np.unique(scores)) > 100

    def test_wide_table(self, method):
        rows = table(30, 45)
        assert np.isfinite(small(method).fit(rows).score(rows)).all()


def test_steps_and_batches():
    class Recorder(DROCC):
        _min_steps = 1

        def _loss(self, network, rows, progress, generator):
            seen.append((rows, progress))
            return super()._loss(network, rows, progress, generator)

    x = table(100)
    seen = []
    Recorder(n_epochs=3, batch_size=30, random_state=0).fit(x)
    assert [len(rows) for rows, _ in seen] == [30] * 9
    assert [progress for _, progress in seen] == [step / 9 for step in range(9)]
    for start in (0, 3, 6):
        assert len(torch.unique(torch.cat([rows for rows, _ in seen[start : start + 3]]), dim=0)) == 90
    seen = []
    Recorder(n_epochs=3, batch_size=30, max_steps=4, random_state=0).fit(x)
    assert [progress for _, progress in seen] == [0, 0.25, 0.5, 0.75]
    seen = []
    Recorder(n_epochs=3, batch_size=1000, random_state=0).fit(x)
    assert [len(rows) for rows, _ in seen] == [100] * 3
    seen = []
    Recorder._min_steps = 5
    Recorder(n_epochs=3, batch_size=1000, random_state=0).fit(x)
    assert [progress for _, progress in seen] == [step / 5 for step in range(5)]


def test_learning_rate_decays(monkeypatch):
    rates = []
    step = torch.optim.Adam.step
    monkeypatch.setattr(
        torch.optim.Adam, "step", lambda self: (rates.append(self.param_groups[0]["lr"]), step(self))[1]
    )
    small(MCM, n_epochs=4, learning_rate=0.01, decay=0.5, batch_size=200).fit(table())
    np.testing.assert_allclose(rates, [0.01, 0.005, 0.0025, 0.00125])


def test_training_stops_below_the_stop_loss():
    class Counter(ICL):
        def _loss(self, *arguments):
            counts.append(1)
            return super()._loss(*arguments)

    counts = []
    parameters = {**SMALL[ICL], "batch_size": 60, "random_state": 0}
    Counter(**parameters, stop_loss=1e9).fit(table())
    assert len(counts) == 2 * 3  # the two batches of an epoch, for each of three networks


def test_infinite_loss_is_reported():
    with pytest.raises(TrainingError, match="smaller learning_rate"):
        small(MCM, learning_rate=1e20).fit(table())


def test_mlp():
    network = mlp([2, 4, 3], nn.Tanh, bias=False)
    first, _, last = network
    rows = torch.randn(5, 2)
    torch.testing.assert_close(network(rows), torch.tanh(rows @ first.weight.T) @ last.weight.T)


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def squared(a, b):
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


class TestDROCC:
    def test_gradient_of_the_logit(self):
        network, rows = mlp([4, 16, 1]), torch.randn(9, 4, requires_grad=True)
        (expected,) = torch.autograd.grad(network(rows).sum(), rows)
        torch.testing.assert_close(drocc.logit_gradients(network, rows), expected)

    def test_projection(self):
        shift = torch.tensor([[0.3, 0.4], [3.0, 0.0], [0.0, -50.0]])
        expected = torch.tensor([[1.2, 1.6], [3.0, 0.0], [0.0, -4.0]])
        torch.testing.assert_close(drocc.to_shell(shift, 2.0, 4.0), expected)
        assert drocc.to_shell(torch.zeros(1, 2), 2.0, 4.0).isfinite().all()

    def test_loss(self):
        detector, rows, network = small(DROCC, warm_up=0.5, adversarial_weight=3.0), torch.randn(8, 4), mlp([4, 16, 1])
        plain = np.mean([log(1 + exp(-f)) for f in network(rows).flatten().tolist()])
        assert detector._loss(network, rows, 0.4, torch.Generator()).item() == pytest.approx(plain, rel=1e-5)
        shift = torch.randn(rows.shape, generator=torch.Generator().manual_seed(5))
        for _ in range(detector.n_ascents):
            moved = (rows + shift).detach().requires_grad_()
            (gradient,) = torch.autograd.grad(nn.functional.softplus(network(moved)).sum(), moved)
            shift = shift + detector.ascent_step * gradient / gradient.norm(dim=1, keepdim=True)
            for i, norm in enumerate(shift.norm(dim=1).tolist()):
                shift[i] *= min(max(norm, detector.radius), 2 * detector.radius) / norm
        worst = np.mean([log(1 + exp(f)) for f in network(rows + shift).flatten().tolist()])
        actual = detector._loss(network, rows, 0.5, torch.Generator().manual_seed(5)).item()
        assert actual == pytest.approx(plain + 3 * worst, rel=1e-5)


class TestGOAD:
    def test_triplet_centre_loss(self):
        features, centres = torch.randn(3, 4, 2), torch.randn(4, 2)
        actual = goad.triplet_centre_losses(features, centres, 0.7)
        for row in range(3):
            for m in range(4):
                to = [squared(features[row, m].tolist(), centre) for centre in centres.tolist()]
                expected = max(0.0, to[m] + 0.7 - min(to[:m] + to[m + 1 :]))
                assert actual[row, m].item() == pytest.approx(expected, abs=1e-5)

    def test_probabilities(self):
        features, centres = torch.randn(3, 4, 2), torch.randn(4, 2)
        actual = goad.log_probabilities(features, centres)
        for row in range(3):
            for m in range(4):
                near = [exp(-squared(features[row, m].tolist(), centre)) for centre in centres.tolist()]
                assert actual[row, m].item() == pytest.approx(log(near[m] / sum(near)), abs=1e-5)

    def test_maps_and_centres(self):
        x = table(70, 3)
        detector = small(GOAD).fit(x)
        (network,) = detector._networks
        rows = detector._to_tensor(x)
        matrices = network.matrices.view(3, 32, 8)
        mapped = torch.stack([rows @ matrices[:, m] for m in range(32)], dim=1)
        torch.testing.assert_close(network.features(mapped), network(rows))
        torch.testing.assert_close(network.centres, network(rows).mean(0), rtol=1e-4, atol=1e-5)


class TestNeuTraLAD:
    @pytest.mark.parametrize(("n_rows", "batch_size"), [(1, 128), (5, 1)])
    def test_one_row_cannot_be_normalised(self, n_rows, batch_size):
        with pytest.raises(InputError, match=r"^NeuTraL-AD normalises over a batch; .*\.$"):
            NeuTraLAD(batch_size=batch_size).fit(np.random.default_rng(0).normal(size=(n_rows, 3)))

    def test_deterministic_contrastive_loss(self):
        encoded = torch.randn(3, 5, 4)
        actual = neutral_ad.contrastive_losses(encoded, 0.5)
        for row in range(3):
            original, *views = encoded[row].tolist()
            expected = 0.0
            for k, view in enumerate(views):
                to_row = exp(cosine(view, original) / 0.5)
                to_others = sum(exp(cosine(view, other) / 0.5) for j, other in enumerate(views) if j != k)
                expected -= log(to_row / (to_row + to_others))
            assert actual[row].item() == pytest.approx(expected, rel=1e-4)

    def test_views(self):
        network, rows = neutral_ad.ViewEncoder(4, 3, 7, [8, 2]).eval(), torch.rand(6, 4)
        encoded = network(rows)
        torch.testing.assert_close(encoded[:, 0], network.encoder(rows))
        for k in range(3):
            view = rows + (rows @ network.first[:, 7 * k : 7 * k + 7]).relu() @ network.second[k].T
            torch.testing.assert_close(encoded[:, 1 + k], network.encoder(view))

    def test_views_that_multiply_lie_between_zero_and_the_row(self):
        network, rows = neutral_ad.ViewEncoder(4, 3, 7, [8, 2], normalised=False, multiplied=True), torch.randn(6, 4)
        seen = []
        network.encoder.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].unflatten(0, (4, 6))))
        network(rows)
        shares = seen[0][1:] / rows
        assert ((shares > 0) & (shares < 1)).all()

    def test_without_normalisation_one_row_is_enough(self):
        detector = NeuTraLAD(normalised=False, max_steps=2).fit(np.ones((1, 3)))
        assert np.isfinite(detector.score(np.eye(3))).all()
        assert not any(isinstance(layer, nn.BatchNorm1d) for layer in detector._networks[0].modules())

    @pytest.mark.parametrize("ordinary", ["mean", "least"])
    def test_the_most_ordinary_row_is_normal(self, ordinary):
        """In the middle of the columns, or at the lower end of each, where many rows are alike."""
        x, new = 20 + table(300), 20 + table(300, seed=1)
        row = x.mean(0) if ordinary == "mean" else x.min(0)
        if ordinary == "least":
            x[:100] = row
        detector = NeuTraLAD(random_state=0).fit(x)
        assert detector.score(row[None])[0] < np.quantile(detector.score(new), 0.9)


class TestICL:
    def test_contrastive_loss(self):
        rests, windows = torch.randn(2, 4, 3), torch.randn(2, 4, 3)
        actual = icl.contrastive_losses(rests, windows, 0.3)
        for row in range(2):
            for j, rest in enumerate(rests[row].tolist()):
                near = [exp(cosine(rest, window) / 0.3) for window in windows[row].tolist()]
                assert actual[row, j].item() == pytest.approx(-log(near[j] / sum(near)), rel=1e-4, abs=1e-5)

    def test_gradient_of_the_contrastive_loss(self):
        rests, windows = (torch.randn(2, 4, 3, dtype=torch.double, requires_grad=True) for _ in range(2))
        assert torch.autograd.gradcheck(lambda a, b: icl.contrastive_losses(a, b, 0.3), (rests, windows))

    def test_no_gradient_of_an_embedding_without_length(self):
        rests = torch.zeros(1, 4, 3, requires_grad=True)
        icl.contrastive_losses(rests, torch.zeros(1, 4, 3), 0.3).sum().backward()
        assert rests.grad.tolist() == torch.zeros(1, 4, 3).tolist()

    @pytest.mark.parametrize("n_columns", [7, 41, 3])
    def test_windows_and_rests(self, n_columns):
        network = icl.WindowMatcher(n_columns, 8)
        n_padded, width = max(n_columns, 6), icl.window_width(n_columns)
        cells = list(range(n_padded))
        assert sorted(network.order.tolist()) == cells
        assert len(network.inside) == len(network.outside) == n_padded - width + 1
        for start, (inside, outside) in enumerate(zip(network.inside.tolist(), network.outside.tolist(), strict=True)):
            assert inside == cells[start : start + width]
            assert outside == cells[:start] + cells[start + width :]

    def test_number_of_members(self):
        assert [len(small(ICL).fit(table(50, d))._networks) for d in (4, 60, 120)] == [3, 2, 1]


class TestMCM:
    def test_diversity_loss(self):
        logits, k = torch.randn(3, 4, 6), 4
        actual = mcm.diversity_losses(logits, 0.2)
        scale = 1 / abs((k - 1) * log(1 / (k - 1)))
        for row, row_masks in enumerate(logits.tolist()):
            expected = sum(
                log(sum(exp(cosine(one, other) / 0.2) for j, other in enumerate(row_masks) if j != i)) * scale
                for i, one in enumerate(row_masks)
            )
            assert actual[row].item() == pytest.approx(expected, rel=1e-4)

    def test_loss_and_score(self):
        detector, rows = small(MCM, diversity_weight=2.0), torch.randn(3, 5)
        network = mcm.MaskedAutoencoder(5, 4, 8, 2)
        logits, distances = [], []
        for first, second, third in zip(*network.generators, strict=True):
            hidden = torch.relu(torch.relu(rows @ first.T) @ second.T)
            logits.append(hidden @ third.T)
            rebuilt = network.decoder(network.encoder(torch.sigmoid(logits[-1]) * rows))
            distances.append((rebuilt - rows).square().sum(1).sqrt())
        expected = sum(distances) / 4
        torch.testing.assert_close(detector._score_rows(network, rows), expected)
        diversity = mcm.diversity_losses(torch.stack(logits, dim=1), detector.temperature)
        loss = detector._loss(network, rows, 0.0, torch.Generator())
        torch.testing.assert_close(loss, expected.mean() + 2 * diversity.mean())

    def test_too_few_masks(self):
        with pytest.raises(InputError, match="n_masks must be at least 3"):
            small(MCM, n_masks=2).fit(table())


class TestDRL:
    def test_separation_loss(self):
        weights = torch.randn(6, 3)
        rows = list(enumerate(weights.tolist()))
        cosines = [cosine(a, b) for i, a in rows for j, b in rows if i != j]
        assert drl.separation_loss(weights).item() == pytest.approx(sum(cosines) / 36, rel=1e-4)

    def test_loss_and_score(self):
        detector, rows = small(DRL, separation_weight=0.5, alignment_weight=2.0), torch.randn(6, 4)
        rows[:3] *= 50  # embeddings of both lengths, below 1 and above
        network = drl.Decomposer(4, 3, 8, 7)
        torch.testing.assert_close(network.vectors @ network.vectors.T, torch.eye(3), atol=1e-6, rtol=0)
        embedded, weights, _ = network(rows)
        distances = [
            squared(z, sum(w * vector for w, vector in zip(row, network.vectors, strict=True)).tolist())
            for z, row in zip(embedded.tolist(), weights.tolist(), strict=True)
        ]
        np.testing.assert_allclose(detector._score_rows(network, rows).tolist(), distances, rtol=1e-4)
        lengths = [squared(z, [0] * 7) for z in embedded.tolist()]
        assert min(lengths) < 1 < max(lengths)
        decomposition = [max(one, one / length) for one, length in zip(distances, lengths, strict=True)]
        decoded = network.decoder(embedded).tolist()
        alignment = [1 - cosine(a, b) for a, b in zip(decoded, rows.tolist(), strict=True)]
        expected = np.mean(decomposition) + 0.5 * drl.separation_loss(weights).item() + 2 * np.mean(alignment)
        actual = detector._loss(network, rows, 0.0, torch.Generator()).item()
        assert actual == pytest.approx(expected, rel=1e-4)

    def test_too_many_vectors(self):
        with pytest.raises(InputError, match="orthogonal"):
            small(DRL, n_vectors=20).fit(table())
