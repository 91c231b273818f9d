"""The scikit-learn estimator."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from nptad.errors import ModelFileError, TrainingError, warn
from nptad.explain.attribution import explain_rows
from nptad.explain.batch import Batch
from nptad.explain.result import Explanation
from nptad.explain.similar import explain_views
from nptad.memory import require_memory
from nptad.models.display import fitted_html
from nptad.models.fitted import FittedModel
from nptad.models.living import judged, undone, updated
from nptad.models.persist import load_model, save_model
from nptad.models.records import Record, Upkeep, upkeep
from nptad.nn.device import resolve_device
from nptad.nn.rng import spawn_seeds
from nptad.parameters import (
    check_parameters,
    network_members,
    network_settings,
    plain_parameters,
    saved_parameters,
    wants_network,
)
from nptad.progress import announce, progress_bar, say
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
from nptad.scoring.forecast import TimeLimit, announcement
from nptad.scoring.network_score import NetworkScore, score_with
from nptad.scoring.standing_out import FALSE_DISCOVERY_RATE
from nptad.scoring.view_score import ViewScore, expected_seconds
from nptad.settings import Settings
from nptad.tables.encode import encode
from nptad.tables.frames import backend_of, identity_of, read_blocks, read_columns
from nptad.tables.identity import Identity
from nptad.tables.layout import without_unreadable
from nptad.tables.schema import Schema, Use, learn_schema
from nptad.training.checkpoint import History
from nptad.training.distributed import Ranks
from nptad.training.loop import Precision
from nptad.validation import is_whole, require

AUTO_QUANTILE = 0.99
"""``contamination="auto"`` flags rows that score above this quantile of the training rows' out-of-fold scores."""

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
        Seconds that :meth:`fit` may take with a network, with scoring the training rows. A limit that is too short
        for one step of training is refused. If the limit ends training, a warning says after how many steps, and the
        result depends on the speed of the machine.
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
        check_parameters(self.get_params(deep=False), checkpoint)
        limit = None if self.time_limit is None else TimeLimit.from_now(self.time_limit)
        ranks = Ranks()
        raw = read_columns(X)
        # Encoded rows and their ranks, whatever else a score keeps.
        require_memory(16.0 * raw.n_rows * len(raw.cells), "The table")
        schema = learn_schema(raw, self.columns)
        x = encode(schema, raw)
        scorer: ViewScore | NetworkScore
        if wants_network(self.get_params(deep=False)):
            x = without_unreadable(x)  # a network cannot learn from them
            scorer, scored = self._fit_network(x, schema, checkpoint, precision, ranks, score_all, limit)
        else:
            scorer, scored = self._fit_views(x, schema, ranks, contaminated)
        # Assigned last, so that a fit that fails or is interrupted leaves the detector as it was.
        self.model_ = FittedModel(schema, scorer, self._threshold(scorer))
        return scored

    def _fit_views(
        self, x: np.ndarray, schema: Schema, ranks: Ranks, contaminated: bool
    ) -> tuple[ViewScore, RowScores]:
        seed = ranks.from_first(lambda: spawn_seeds(self.random_state, 1))[0]
        visible = self.verbose and ranks.is_first
        announce("The fit", expected_seconds(*x.shape) * (1 + contaminated), visible)
        with progress_bar("Fitting", len(x), visible) as advance:
            if contaminated:
                scorer = fit_core(x, schema.layout, seed, advance, schema.zeros)
            else:
                scorer = ViewScore.fit(x, schema.layout, seed, advance=advance)
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
        limit: TimeLimit | None,
    ) -> tuple[NetworkScore, RowScores]:
        device, parameters = resolve_device(self.device), self.get_params(deep=False)
        settings = network_settings(parameters, len(x), schema.layout.n_features)
        n_members = network_members(parameters, len(x))
        seeds = ranks.from_first(lambda: spawn_seeds(self.random_state, 3 + n_members))
        rows = np.arange(len(x))
        if self.contamination == "auto" and len(x) > CALIBRATION_ROWS and not score_all:
            rows = np.sort(np.random.default_rng(seeds[0]).choice(len(x), CALIBRATION_ROWS, replace=False))
        visible = bool(self.verbose) and ranks.is_first
        with progress_bar("Training", settings.n_steps, visible) as advance:

            def report(entry: dict[str, Any]) -> None:
                advance(1, f"loss {entry['loss']:.3f}")
                said = announcement(entry, limit)
                if visible and said is not None:
                    say(said)

            ensemble, history = fit_ensemble(
                x,
                schema.layout,
                settings,
                seeds[1:],
                device=device,
                limit=limit,
                n_scored=len(rows),
                precision=precision,
                checkpoint=checkpoint,
                report=report,
            )
        with progress_bar("Scoring" if score_all else "Calibrating", len(rows), visible) as advance:
            scored = score_with(ensemble, x[rows], advance)
        left_out = ensemble.left_out[:, rows].T | (n_members == 1)
        calibration = Calibration(rows, np.where(left_out, scored.by_member, np.nan), scored.score)
        if not np.isfinite(scored.score).all():
            raise TrainingError("The trained model gives infinite scores; use a smaller learning_rate.")
        _report_empty(_count_empty(x))
        score = NetworkScore(ensemble, calibration, history)
        if score.ended_early is not None and ranks.is_first:
            warn(score.ended_early)
        return score, scored

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
        """Step of how many planned ones, loss, learning rate and seconds of every training step of the network."""
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
        if wants_network(self.get_params(deep=False)):
            rate = make_rule(None, max(DEFAULT_RATE, 1 / max(1, raw.n_rows)) if share is None else share, raw.n_rows)
            found = self._detect(rate, [self._fit(raw, contaminated=False, score_all=True)], raw.backend)
        else:
            rule = DecisionRule("fdr", FALSE_DISCOVERY_RATE) if share is None else DecisionRule("share", share)
            found = self._judge_table(rule, self._fit(raw, contaminated=True), raw.backend)
        return dataclasses.replace(found, identity=self._identity(raw))

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
        return dataclasses.replace(found, drift=drift, notes=batch.notes, identity=self._identity(X))

    def _identity(self, table: Any) -> Identity:
        return identity_of(table).with_keys(self.schema_.keys)

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
            explained = explain_views(scorer, self.schema_, X, by_member, training_row, verbose=visible)
        else:
            explained = explain_rows(scorer.ensemble, self.schema_, X, by_member, verbose=visible)
        return explained.identified(self._identity(X))

    def report(
        self,
        X: Any,
        path: str | Path,
        *,
        fdr: float | None = None,
        false_alarm_rate: float | None = None,
        label: str | None = None,
        source: str = "table",
    ) -> Detection:
        """Score rows as :meth:`detect` does, and write the report on them to an HTML file.

        Parameters
        ----------
        X : DataFrame, pyarrow.Table or 2-D array
            The rows, usually new ones.
        path : path
            The file; one that is there is replaced.
        fdr, false_alarm_rate : float, optional
            Those of :meth:`detect`.
        label : str, optional
            Column that marks known anomalies with 1, or ``column=value``; the result is only compared with it.
        source : str
            What the report calls the table.

        Returns
        -------
        Detection
            What :meth:`detect` returns.
        """
        check_is_fitted(self)
        from nptad.report.new_rows import report_rows  # up, only if a report is asked for

        return report_rows(self, X, path, fdr=fdr, false_alarm_rate=false_alarm_rate, label=label, source=source)

    def _repr_html_inner(self) -> str:
        """What a notebook shows: what was learnt, above the parameters that scikit-learn shows."""
        return (fitted_html(self.model_) if hasattr(self, "model_") else "") + str(estimator_html_repr(self))

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        return bundle | ({"text/html": self._repr_html_inner()} if "text/html" in bundle else {})

    def update(self, X: Any, *, most_rows: int | None = None) -> NPTAD:
        """Add normal rows to those that rows are compared with, without learning the columns again.

        The views and their calibration are fitted on the rows that the model knows and the new ones, which takes as
        long as a fit. Standardisation stays; new categories and wider ranges are learnt. The training rows are then
        those that the model knows, the oldest first, and row numbers count them. Not for networks and for models of a
        table with anomalies in it.

        Parameters
        ----------
        X : DataFrame, pyarrow.Table or 2-D array
            Normal rows with all columns of the training table, such as those of last week.
        most_rows : int, optional
            How many rows the model may know; the oldest leave. By default 20,000, or as many as it knows already.

        Returns
        -------
        NPTAD
            The detector.

        Examples
        --------
        >>> import numpy as np
        >>> random = np.random.default_rng(0)
        >>> detector = NPTAD(random_state=0).fit(random.normal(size=(300, 2)))
        >>> now = random.normal(loc=3, size=(400, 2))
        >>> int((detector.predict(now[300:]) < 0).sum())
        65
        >>> detector = detector.update(now[:300], most_rows=300)
        >>> int((detector.predict(now[300:]) < 0).sum())
        0
        """
        check_is_fitted(self)
        is_count = most_rows is None or (is_whole(most_rows) and most_rows >= 2)
        require(is_count, "most_rows", "None or a whole number of at least 2", most_rows)
        raw = read_columns(X)
        self._change(lambda advance: updated(self.model_, raw, most_rows, advance))
        return self

    def accept(self, X: Any, reason: str = "") -> int:
        """Say that rows are fine: they and rows like them stop alarming. Returns the number of the record.

        A row is like an accepted one if no training row is nearer; the further away it is, the more it alarms. Several
        accepted rows of a kind also tell how far apart its rows are. See :mod:`nptad.scoring.feedback`.

        Parameters
        ----------
        X : DataFrame, pyarrow.Table or 2-D array
            The rows, with all columns of the training table.
        reason : str
            Why, for :attr:`feedback_`.

        Examples
        --------
        >>> import numpy as np
        >>> detector = NPTAD(random_state=0).fit(np.random.default_rng(0).normal(size=(300, 2)))
        >>> odd = [[6.0, 6.1], [6.2, 6.0]]
        >>> detector.predict(odd).tolist()
        [-1, -1]
        >>> number = detector.accept(odd[:1], reason="the new machine")
        >>> detector.predict(odd).tolist()
        [1, 1]
        >>> detector.undo(number).predict(odd).tolist()
        [-1, -1]
        """
        return self._judge(X, "accept", reason)

    def reject(self, X: Any, reason: str = "") -> int:
        """Say that rows are anomalies: they leave the training rows, and rows like them alarm more.

        A row is like a rejected one if no training row is nearer. The false-alarm rate stays what it was. Parameters
        and result are those of :meth:`accept`.
        """
        return self._judge(X, "reject", reason)

    def undo(self, number: int) -> NPTAD:
        """Take back the update or the judgement with this number in :attr:`feedback_`.

        Scores are then as if it had not been, except that rows that have left for an update do not come back.
        """
        check_is_fitted(self)
        self._change(lambda advance: undone(self.model_, number, advance))
        return self

    @property
    def feedback_(self) -> tuple[Record, ...]:
        """Updates and judgements since the fit, the latest last, each with its number, time and reason."""
        return self.model_.records

    @property
    def upkeep_(self) -> Upkeep:
        """Whether the model keeps up with the rows that it is updated with, or should be fitted again."""
        n_rows = self.model_.scorer.n_calibration
        return upkeep(self.model_.records, n_rows, default_rate(n_rows))

    def _judge(self, X: Any, kind: Literal["accept", "reject"], reason: str) -> int:
        check_is_fitted(self)
        raw = read_columns(X)
        self._change(lambda _: judged(self.model_, raw, kind, reason))
        return self.feedback_[-1].id

    def _change(self, change: Callable[[Callable[[float], None]], FittedModel]) -> None:
        """Replace the model by a changed one; if the change fails, it stays."""
        known = self.model_.scorer.n_calibration
        with progress_bar("Updating", known, self.verbose and Ranks().is_first) as advance:
            model = change(advance)
        self.model_ = dataclasses.replace(model, offset=self._threshold(model.scorer))

    def save(self, directory: str | Path) -> None:
        """Write the fitted detector to a directory that :func:`nptad.load` reads; nothing in it can execute."""
        check_is_fitted(self)
        save_model(self.model_, plain_parameters(self.get_params(deep=False)), directory)

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
    try:
        detector = NPTAD(**saved_parameters(parameters))
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"{directory} holds unknown parameters ({error}); save the model again.") from error
    detector.model_ = model
    return detector


def _count_empty(x: np.ndarray) -> int:
    return int(np.isnan(x).all(axis=1).sum())


def _report_empty(count: int) -> None:
    if count:
        warn(f"{count} row(s) have no value in any known column and get the score 0.")
