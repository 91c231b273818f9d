"""The scikit-learn estimator."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

from nptad.errors import InputError, ModelFileError, TrainingError, warn
from nptad.explain.attribution import explain_rows
from nptad.explain.batch import Batch
from nptad.explain.result import Explanation
from nptad.explain.similar import explain_views
from nptad.memory import require_memory
from nptad.models.fitted import FittedModel
from nptad.models.persist import load_model, save_model
from nptad.nn.device import resolve_device
from nptad.nn.rng import spawn_seeds
from nptad.progress import progress_bar
from nptad.scoring.calibrate import (
    CALIBRATION_ROWS,
    DEFAULT_RATE,
    Calibration,
    DecisionRule,
    Detection,
    RowScores,
    default_rate,
    make_rule,
    report_extrapolation,
    report_limits,
    threshold,
)
from nptad.scoring.core import fit_core
from nptad.scoring.ensemble import Ensemble, fit_ensemble
from nptad.scoring.network_score import NetworkScore, score_with
from nptad.scoring.standing_out import FALSE_DISCOVERY_RATE
from nptad.scoring.view_score import ViewScore
from nptad.settings import Settings, default_members, default_settings
from nptad.tables.encode import encode
from nptad.tables.frames import backend_of, read_blocks, read_columns
from nptad.tables.layout import without_unreadable
from nptad.tables.schema import Schema, Use, learn_schema
from nptad.training.checkpoint import History
from nptad.training.distributed import Ranks
from nptad.training.loop import Precision
from nptad.validation import is_number, is_whole, require

AUTO_QUANTILE = 0.99
"""``contamination="auto"`` flags rows that score above this quantile of the training rows' out-of-fold scores."""

_NETWORK_PARAMETERS = (
    "n_members",
    "embedding_dim",
    "n_steps",
    "batch_size",
    "learning_rate",
    "max_masked",
    "settings",
)
"""If one of these is given, the network is trained and makes the score."""

_BLOCK_ROWS = 2**16
"""Rows encoded and scored at a time, so that memory does not grow with the table."""


class NPTAD(OutlierMixin, BaseEstimator):
    """Anomaly detection on tables that may hold numbers, truth values, text categories, times and missing cells.

    By default, several views say how odd a row is: its distance from the nearest training row, in all columns and in
    some of them, its density, values never seen, numbers outside the range, missing cells. Each is compared with the
    same view of the training rows. The score is minus the log of the share of normal rows that look at least as odd.
    Fitting takes seconds.

    With ``settings`` or any of the first six parameters, a Non-Parametric Transformer (NPT-AD) is trained instead. It
    learns to reconstruct hidden cells of the training rows from the other cells of the row and from the other rows. A
    row is an anomaly if the network cannot reconstruct its cells, or if it is far from all training rows. Training
    takes minutes. One rule sets every parameter that is None from the size of the training table
    (:func:`nptad.default_settings`).

    Parameters
    ----------
    n_members : int, optional
        Networks in the ensemble. Each leaves out its own fold of the training rows, so that every training row has an
        out-of-fold score. A single member leaves out no row: it scores a training row without that row's context
        entry, but its weights have seen the row, so the score is too low.
    embedding_dim : int, optional
        Numbers per cell.
    n_steps : int, optional
        Training steps.
    batch_size : int, optional
        Rows per training step.
    learning_rate : float, optional
        Peak learning rate.
    max_masked : int, optional
        Largest number of cells hidden at once when scoring (r in the paper); all masks up to that size are used (with
        ``settings``, at most their ``max_masks``). By default a few masks of one size, both set by
        :func:`default_settings`.
    contamination : "auto" or float, default "auto"
        The threshold of :meth:`predict`. "auto": the training rows are normal, and rows as odd as one normal row in 100
        are flagged (with fewer than 99 rows, one row of them). A number in (0, 0.5]: that share of the training rows is
        flagged.
    training : {"clean", "contaminated"}, default "clean"
        What the training rows of :meth:`fit` are. "clean": normal rows. "contaminated": one table with anomalies in
        it, as :meth:`fit_detect` always takes it; rows that look ordinary are the core that all rows are compared
        with. Not for networks.
    columns : dict, optional
        How columns, by name or position, are used: "number" (also for times), "category" or "ignore". By default text
        is read as numbers or times if nearly all of its cells can be read, number columns with at most two different
        values are categories, and in a table with column names, columns that only identify the rows are ignored.
    time_limit : float, optional
        Seconds of training a network at most. If the limit ends training, the result depends on the speed of the
        machine.
    device : str, default "auto"
        A torch device for a network; "auto" takes a CUDA device if there is one.
    random_state : int, RandomState or Generator, optional
        The only source of randomness: the same seed on the same machine gives the same scores, bit for bit.
    verbose : bool, default False
        Show progress bars.
    settings : Settings or "network", optional
        All hyper-parameters of a network at once, for instance those of the paper; the parameters above override them.
        "network" stands for the rule of :func:`nptad.default_settings`.

    Attributes
    ----------
    model_ : FittedModel
        Everything that was learnt; the other attributes are parts of it.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(60, 1))
    >>> table = np.hstack([x, 2 * x, -x])
    >>> detector = NPTAD(random_state=0).fit(table)
    >>> detector.predict([[1.0, 2.0, -1.0], [1.0, -8.0, 5.0]]).tolist()
    [1, -1]
    """

    model_: FittedModel

    def __init__(
        self,
        n_members: int | None = None,
        *,
        embedding_dim: int | None = None,
        n_steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        max_masked: int | None = None,
        contamination: float | Literal["auto"] = "auto",
        training: Literal["clean", "contaminated"] = "clean",
        columns: Mapping[str | int, Use] | None = None,
        time_limit: float | None = None,
        device: str = "auto",
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        verbose: bool = False,
        settings: Settings | Literal["network"] | None = None,
    ) -> None:
        self.n_members = n_members
        self.embedding_dim = embedding_dim
        self.n_steps = n_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.max_masked = max_masked
        self.contamination = contamination
        self.training = training
        self.columns = columns
        self.time_limit = time_limit
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.settings = settings

    def fit(
        self, X: Any, y: Any = None, *, checkpoint: str | Path | None = None, precision: Precision = "auto"
    ) -> NPTAD:
        """Learn what normal rows look like.

        In a torch process group, all processes train one model together. Each calls ``fit`` with the same table and
        ends with the same model. A step takes ``batch_size`` rows in each process.

        Parameters
        ----------
        X : DataFrame, pyarrow.Table or 2-D array
            The training rows. Anomalies among them teach the model to expect anomalies.
        y : ignored
            Not used; scikit-learn passes it.
        checkpoint : path, optional
            Training of a network writes this file from time to time. If the file exists, training continues from it and
            ends with the weights of an uninterrupted run. Delete the file when the detector is saved. Needs a whole
            number as ``random_state``.
        precision : {"auto", "float32"}
            "auto" trains with bfloat16 matrix products on GPUs that have them, and in float32 elsewhere. Scores are
            always computed in float32.

        Returns
        -------
        NPTAD
            The fitted detector.
        """
        self._fit(X, checkpoint, precision, contaminated=self.training == "contaminated")
        return self

    def _fit(
        self,
        X: Any,
        checkpoint: str | Path | None = None,
        precision: Precision = "auto",
        *,
        contaminated: bool,
        score_all: bool = False,
    ) -> RowScores:
        """Fit, and return the out-of-fold scores of the calibration rows, or of all training rows."""
        self._check_parameters(checkpoint)
        ranks = Ranks()
        raw = read_columns(X)
        # Encoded rows and their ranks, whatever else a score keeps.
        require_memory(16.0 * raw.n_rows * len(raw.cells), "The table")
        schema = learn_schema(raw, self.columns)
        x = encode(schema, raw)
        scorer: ViewScore | NetworkScore
        if self._has_network():
            x = without_unreadable(x)  # a network cannot learn from them
            scorer, scored = self._fit_network(x, schema, checkpoint, precision, ranks, score_all)
        else:
            scorer, scored = self._fit_views(x, schema, ranks, contaminated)
        # Assigned last, so that a fit that fails or is interrupted leaves the detector as it was.
        self.model_ = FittedModel(schema, scorer, self._threshold(scorer))
        return scored

    def _fit_views(
        self, x: np.ndarray, schema: Schema, ranks: Ranks, contaminated: bool
    ) -> tuple[ViewScore, RowScores]:
        seed = ranks.from_first(lambda: spawn_seeds(self.random_state, 1))[0]
        with progress_bar("Fitting", len(x), self.verbose and ranks.is_first) as advance:
            scorer = (fit_core if contaminated else ViewScore.fit)(x, schema.layout, seed, advance=advance)
        scores = scorer.training_scores
        return scorer, RowScores(scores[:, None], scores, np.arange(len(x)))

    def _fit_network(
        self,
        x: np.ndarray,
        schema: Schema,
        checkpoint: str | Path | None,
        precision: Precision,
        ranks: Ranks,
        score_all: bool,
    ) -> tuple[NetworkScore, RowScores]:
        device, settings = resolve_device(self.device), self._resolve_settings(len(x), schema.layout.n_features)
        n_members = self._resolve_members(len(x))
        seeds = ranks.from_first(lambda: spawn_seeds(self.random_state, 3 + n_members))
        visible = self.verbose and ranks.is_first
        with progress_bar("Training", settings.n_steps, visible) as advance:
            ensemble, history = fit_ensemble(
                x,
                schema.layout,
                settings,
                seeds[1:],
                device=device,
                time_limit=self.time_limit,
                precision=precision,
                checkpoint=checkpoint,
                report=lambda entry: advance(1, f"loss {entry['loss']:.3f}"),
            )
        rows = np.arange(len(x))
        if self.contamination == "auto" and len(x) > CALIBRATION_ROWS and not score_all:
            rows = np.sort(np.random.default_rng(seeds[0]).choice(len(x), CALIBRATION_ROWS, replace=False))
        with progress_bar("Scoring" if score_all else "Calibrating", len(rows), visible) as advance:
            scored = score_with(ensemble, x[rows], advance)
        left_out = ensemble.left_out[:, rows].T | (n_members == 1)
        calibration = Calibration(rows, np.where(left_out, scored.by_member, np.nan), scored.score)
        if not np.isfinite(scored.score).all():
            raise TrainingError("The trained model gives infinite scores; use a smaller learning_rate.")
        _report_empty(_count_empty(x))
        return NetworkScore(ensemble, calibration, history), scored

    def _threshold(self, scorer: ViewScore | NetworkScore) -> float:
        if self.contamination != "auto":
            return threshold(-scorer.training_scores, float(self.contamination))
        if isinstance(scorer, ViewScore):  # the score says how rare the row is; a row of just this rate is flagged
            return float(np.log(default_rate(scorer.n_calibration)) + 1e-9)
        return threshold(-scorer.training_scores, 1 - AUTO_QUANTILE)

    @property
    def schema_(self) -> Schema:
        """What was learnt about the columns."""
        return self.model_.schema

    @property
    def settings_(self) -> Settings:
        """The hyper-parameters of the network."""
        return self._network.settings

    @property
    def ensemble_(self) -> Ensemble:
        """The trained members of the network."""
        return self._network.ensemble

    @property
    def history_(self) -> History:
        """Step, loss, learning rate and seconds of every training step of the network."""
        return self._network.history

    @property
    def calibration_(self) -> Calibration:
        """Out-of-fold scores of training rows under the members of the network."""
        return self._network.calibration

    @property
    def _network(self) -> NetworkScore:
        scorer = self.model_.scorer
        if isinstance(scorer, ViewScore):
            raise AttributeError("This detector has no network; fit with settings='network' to train one.")
        return scorer

    @property
    def offset_(self) -> float:
        """Threshold on :meth:`score_samples`."""
        return self.model_.offset

    @property
    def training_scores_(self) -> np.ndarray:
        """:meth:`score_samples` of the training rows; of a network with "auto" threshold, of at most 2,000 of them."""
        return -self.model_.scorer.training_scores

    @property
    def n_features_in_(self) -> int:
        """Columns of the training table."""
        return len(self.model_.schema.columns)

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Their names, if they have names."""
        if not self.model_.schema.named:
            raise AttributeError("The training table had no column names.")
        return np.array([c.name for c in self.model_.schema.columns], dtype=object)

    def score_samples(self, X: Any) -> np.ndarray:
        """Score rows, higher = more normal.

        The score is the log of the share of normal rows that are at least as odd: -4.6 is one row in 100. With a
        network, it is minus the score that ``Settings.aggregation`` defines.

        The training table gets its out-of-fold scores. Any other row is a new row, also one that equals a training row.
        With a network, single training rows are recognised and scored only by members that left them out; a row that
        occurs several times gets the average over its copies.
        """
        check_is_fitted(self)
        return -np.concatenate([scored.score for scored in self._score_blocks(X, Batch(self.schema_))])

    def decision_function(self, X: Any) -> np.ndarray:
        """Score rows relative to the threshold: negative = anomaly."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> np.ndarray:
        """Label rows: -1 = anomaly, +1 = normal."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def fit_predict(self, X: Any, y: Any = None) -> np.ndarray:
        """Fit, then label the training rows themselves by their out-of-fold scores."""
        raw = read_columns(X)
        self._fit(raw, contaminated=self.training == "contaminated")
        if len(self.training_scores_) < raw.n_rows:  # the others have no score yet
            return self.predict(raw)
        return np.where(self.training_scores_ - self.offset_ < 0, -1, 1)

    def fit_detect(self, X: Any, share: float | None = None) -> Detection:
        """Fit one table that contains anomalies, and flag those of its rows that stand out.

        The table is taken to be contaminated, whatever :attr:`training` says. Views learn from its core, and its rows
        are scored as :mod:`nptad.scoring.core` describes.

        Parameters
        ----------
        X : DataFrame, pyarrow.Table or 2-D array
            The table that contains the anomalies.
        share : float, optional
            Flag this share of the rows, those with the highest scores. By default as many are flagged as stand out, at
            a false discovery rate of 5 %; that can be none. With a network, by default 1 %, at least one row.

        Returns
        -------
        Detection
            Its p-values say which share of the normal rows of the table is at least as odd.

        Examples
        --------
        >>> import numpy as np
        >>> table = np.random.default_rng(0).normal(size=(500, 3))
        >>> table[:10] += 9
        >>> np.flatnonzero(NPTAD(random_state=0).fit_detect(table).anomaly).tolist()
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
        """
        raw = read_columns(X)
        if self._has_network():
            rate = make_rule(None, max(DEFAULT_RATE, 1 / max(1, raw.n_rows)) if share is None else share, raw.n_rows)
            return self._detect(rate, [self._fit(raw, contaminated=False, score_all=True)], raw.backend)
        rule = DecisionRule("fdr", FALSE_DISCOVERY_RATE) if share is None else DecisionRule("share", share)
        return self._judge_table(rule, self._fit(raw, contaminated=True), raw.backend)

    def _judge_table(self, rule: DecisionRule, scored: RowScores, backend: str) -> Detection:
        """Flag the rows of a contaminated training table that stand out, or a share of them."""
        scorer = self.model_.scorer
        assert isinstance(scorer, ViewScore)
        assert scorer.core is not None
        p, anomaly = scorer.p_values(scored), scorer.core.stands_out
        if rule.name == "share":
            anomaly, _ = rule.flag(1 - (rankdata(scored.score, "min") - 1) / len(p))  # the share that scores as high
        threshold = float(p[anomaly].max(initial=0.0))
        resolution = 1 / (scorer.n_calibration + 1)
        return Detection(
            *(scored.score, p, anomaly, threshold, rule.name, float(rule.rate), backend, resolution),
            *(scored.training_row, scored.by_member),
        )

    def detect(
        self, X: Any, *, fdr: float | None = None, false_alarm_rate: float | None = None, strict: bool = False
    ) -> Detection:
        """Flag anomalies at a controlled error rate, with a p-value for each row.

        Parameters
        ----------
        X : DataFrame, pyarrow.Table or 2-D array
            The rows, usually new ones. The training table is recognised, and its rows are ranked among themselves: a
            ``false_alarm_rate`` flags that share of them, and a false discovery rate cannot be controlled for them.
        fdr : float, optional
            Share of normal rows among the flagged ones, on average (Benjamini-Hochberg).
        false_alarm_rate : float, optional
            Alternatively, the share of the normal rows that is flagged. By default 0.01, as for :meth:`predict`, or the
            lowest rate that the number of training rows allows.
        strict : bool
            Refuse a table that lacks a column or has one that the model does not know. Otherwise cells of missing
            columns count as missing, with a warning, as long as at least half of the columns are there.

        Returns
        -------
        Detection
            Arrays ``score``, ``p_value`` and ``anomaly``; ``frame()`` makes a frame of them. ``drift`` names columns
            that differ from training beyond chance.

        Raises
        ------
        InputError
            If there are too few training rows for the rate of a network. A warning names other limits of the p-values.

        Notes
        -----
        A p-value is the share of normal rows that are at least as odd, estimated from the out-of-fold scores of the
        training rows. Below ``Detection.resolution`` it comes from a tail fitted to the highest of them. The rates hold
        approximately if the training rows are normal and new normal rows are like them: see
        :mod:`nptad.scoring.surprise` and, for networks, :mod:`nptad.scoring.calibrate`.

        Examples
        --------
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(60, 1))
        >>> detector = NPTAD(random_state=0).fit(np.hstack([x, 2 * x, -x]))
        >>> found = detector.detect([[1.0, 2.0, -1.0], [1.0, -8.0, 5.0]])
        >>> found.anomaly.tolist(), float(found.p_value[1]) < 0.01
        ([False, True], True)
        """
        check_is_fitted(self)
        rule, batch = self.decision_rule(fdr, false_alarm_rate), Batch(self.schema_, strict)
        found = self._detect(rule, self._score_blocks(X, batch), backend_of(X))
        drift: tuple[str, ...] = ()
        if (found.training_row < 0).any():
            drift = batch.drift(self.model_.compared_rows[1], self.model_.scorer, found.anomaly)
        return dataclasses.replace(found, drift=drift, notes=batch.notes)

    def decision_rule(self, fdr: float | None = None, false_alarm_rate: float | None = None) -> DecisionRule:
        """The rule by which :meth:`detect` flags rows at these rates."""
        check_is_fitted(self)
        scorer = self.model_.scorer
        return make_rule(fdr, false_alarm_rate, scorer.n_calibration, has_tail=isinstance(scorer, ViewScore))

    def _detect(self, rule: DecisionRule, blocks: Iterable[RowScores], backend: str) -> Detection:
        scorer = self.model_.scorer
        parts = [(part.score, scorer.p_values(part), part.training_row, part.by_member) for part in blocks]
        score, p, training_row, by_member = (np.concatenate(part) for part in zip(*parts, strict=True))
        anomaly, highest = rule.flag(p)
        resolution = 0.0
        if isinstance(scorer, ViewScore):
            resolution = 1 / (scorer.n_calibration + 1)
            report_extrapolation(rule, scorer.n_calibration)
        else:
            report_limits(rule, anomaly, training_row, scorer.n_calibration, scorer.ensemble.n_members)
        return Detection(
            score, p, anomaly, highest, rule.name, float(rule.rate), backend, resolution, training_row, by_member
        )

    def explain(
        self, X: Any, by_member: np.ndarray | None = None, training_row: np.ndarray | None = None
    ) -> Explanation:
        """Say why rows have their scores: one :class:`~nptad.explain.RowExplanation` for each row.

        Each lists the cells, the largest contribution to the score first, with the seen value and that of similar rows,
        the nearest training row, and what each view contributes. With a network, expected values are those that it
        predicts, and the training rows that it attended to are listed. ``frame()``, ``plot(row)`` and
        ``html()`` show the result. Explaining takes a few times as long as scoring: explain the flagged rows, not a
        whole table.

        Parameters
        ----------
        X : DataFrame, pyarrow.Table or 2-D array
            The rows to explain.
        by_member : ndarray of shape (n, K), optional
            Their :attr:`Detection.by_member`, if they were scored already.
        training_row : ndarray of shape (n,), optional
            Their :attr:`Detection.training_row`: which training row each row is, -1 for a new row. By default new rows,
            unless all of them equal training rows.
        """
        check_is_fitted(self)
        scorer, visible = self.model_.scorer, bool(self.verbose)
        if isinstance(scorer, ViewScore):
            return explain_views(scorer, self.schema_, X, by_member, training_row, verbose=visible)
        return explain_rows(scorer.ensemble, self.schema_, X, by_member, verbose=visible)

    def save(self, directory: str | Path) -> None:
        """Write the fitted detector to a directory that :func:`nptad.load` reads; nothing in it can execute."""
        check_is_fitted(self)
        save_model(self.model_, self._plain_parameters(), directory)

    def _plain_parameters(self) -> dict[str, Any]:
        """Constructor parameters that JSON can hold; a random generator is not part of a fitted model."""
        parameters = self.get_params(deep=False)
        settings, columns = parameters["settings"], parameters["columns"]
        is_seed = isinstance(self.random_state, int | np.integer)
        return parameters | {
            "settings": settings.to_dict() if isinstance(settings, Settings) else settings,
            "random_state": self.random_state if is_seed else None,
            "columns": None if columns is None else [list(item) for item in columns.items()],
            "device": str(parameters["device"]),
        }

    def _score_blocks(self, table: Any, batch: Batch) -> Iterator[RowScores]:
        scorer, visible = self.model_.scorer, self.verbose and Ranks().is_first
        empty = 0
        # The training table is recognised as a whole, so that it must not be cut.
        for block in read_blocks(table, max(_BLOCK_ROWS, self.schema_.n_rows)):
            x = batch.encode(block)
            empty += _count_empty(x)
            if not len(x):
                yield RowScores(np.empty((0, 1)), np.empty(0), np.empty(0, dtype=np.int64))
                continue
            with progress_bar("Scoring", len(x), visible) as advance:
                scored = scorer.score_rows(x, advance)
            if not np.isfinite(scored.score).all():
                raise ModelFileError("The model gives scores that are not finite; fit it again.")
            yield scored
        if isinstance(scorer, NetworkScore):
            _report_empty(empty)
        if batch.notes:
            warn(" ".join(batch.notes))

    def _check_parameters(self, checkpoint: Any) -> None:
        """Reject invalid parameters before any work is done."""
        share, seconds, state = self.contamination, self.time_limit, self.random_state
        is_share = is_number(share) and 0 < share <= 0.5
        is_auto = isinstance(share, str) and share == "auto"
        require(is_auto or is_share, "contamination", "'auto' or a number above 0 and up to 0.5", share)
        expected = "'clean' or 'contaminated'"
        require(self.training in ("clean", "contaminated"), "training", expected, self.training)
        if self.training == "contaminated" and self._has_network():
            raise InputError("training='contaminated' is for the default score; fit a network on normal rows instead.")
        is_limit = seconds is None or (is_number(seconds) and seconds > 0)
        require(is_limit, "time_limit", "None or a number of seconds above 0", seconds)
        is_state = state is None or isinstance(state, np.random.RandomState | np.random.Generator)
        is_state = is_state or (is_whole(state) and state >= 0)
        expected = "None, a whole number of at least 0, a RandomState or a Generator"
        require(is_state, "random_state", expected, state)
        require(isinstance(self.verbose, int | np.bool_), "verbose", "True or False", self.verbose)
        if checkpoint is not None:
            require(isinstance(checkpoint, str | PathLike), "checkpoint", "a path", checkpoint)
            if not is_whole(state):
                raise InputError("A checkpoint needs a whole number as random_state; set random_state to use one.")

    def _has_network(self) -> bool:
        return any(getattr(self, name) is not None for name in _NETWORK_PARAMETERS)

    def _resolve_settings(self, n_rows: int, n_features: int) -> Settings:
        settings = self.settings
        if settings is None or settings == "network":
            settings = default_settings(
                n_rows, n_features, self.embedding_dim if is_whole(self.embedding_dim) else None
            )
        if not isinstance(settings, Settings):
            raise InputError(f"settings must be nptad.Settings, 'network' or None, got {settings!r:.60}.")
        names = ("embedding_dim", "n_steps", "batch_size", "learning_rate")
        changes: dict[str, Any] = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.max_masked is not None:
            is_size = is_whole(self.max_masked) and self.max_masked >= 1
            require(is_size, "max_masked", "a whole number of at least 1", self.max_masked)
            changes["mask_sizes"] = tuple(range(1, int(self.max_masked) + 1))
            if not isinstance(self.settings, Settings):  # all such masks, not as few as the default rule takes
                changes["max_masks"] = Settings.max_masks
        return dataclasses.replace(settings, **changes)

    def _resolve_members(self, n_rows: int) -> int:
        if self.n_members is None:
            return default_members(n_rows)
        is_count = is_whole(self.n_members) and 1 <= self.n_members <= n_rows
        require(is_count, "n_members", f"a whole number from 1 to the number of rows ({n_rows})", self.n_members)
        return int(self.n_members)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def load(directory: str | Path, device: str = "auto") -> NPTAD:
    """Load a detector written by :meth:`nptad.NPTAD.save`; its scores are the same.

    Parameters
    ----------
    directory : path
        The saved model.
    device : str
        Where to score, whatever device the model was trained on.

    Raises
    ------
    ModelFileError
        If the directory is incomplete, was changed, or comes from a version with another format.
    """
    model, parameters = load_model(Path(directory), resolve_device(device))
    parameters.pop("mask_rate", None)  # a parameter of earlier versions; what it set is in the model's settings
    features = parameters.pop("categorical_features", None)  # the name of columns up to version 0.1
    columns = parameters.pop("columns", None)
    try:
        if features is not None:
            columns = [[name, "category"] for name in features]
        parameters["columns"] = None if columns is None else dict(columns)
        detector = NPTAD(**parameters)
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"{directory} holds unknown parameters ({error}); save the model again.") from error
    detector.model_ = model
    return detector


def _count_empty(x: np.ndarray) -> int:
    return int(np.isnan(x).all(axis=1).sum())


def _report_empty(count: int) -> None:
    if count:
        warn(f"{count} row(s) have no value in any known column and get the score 0.")
