"""The flavour of MLflow, with a real tracking folder: the same results, and nothing that is pickled."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from nptad import NPTAD, ModelFileError
from nptad.integrations import mlflow as flavour

mlflow = pytest.importorskip("mlflow", reason="the flavour needs the extra mlflow")

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow has many of its own


def made(n_rows, seed):
    random = np.random.default_rng(seed)
    size = random.normal(size=n_rows)
    return pd.DataFrame({"size": size, "weight": 3 * size, "colour": np.where(size > 0, "red", "blue")})


@pytest.fixture(scope="module")
def detector():
    return NPTAD(random_state=0).fit(made(100, 0))


@pytest.fixture(scope="module")
def logged(detector, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        patch.chdir(tmp_path_factory.mktemp("mlflow"))
        folder = tmp_path_factory.mktemp("tracking") / "runs"  # which MLflow makes
        mlflow.set_tracking_uri(folder.as_uri())
        with mlflow.start_run():
            yield flavour.log_model(detector, "detector", metadata={"table": "made"}), folder


def test_a_logged_detector_is_the_same(logged, detector):
    info, _ = logged
    new = made(20, 1)
    again = flavour.load_model(info.model_uri)
    np.testing.assert_array_equal(again.score_samples(new), detector.score_samples(new))
    assert again.get_params() == detector.get_params()
    assert mlflow.models.get_model_info(info.model_uri).metadata == {"table": "made"}


def test_as_a_function_it_finds_what_detect_finds(logged, detector):
    info, _ = logged
    new = pd.concat([made(20, 1), pd.DataFrame({"size": [1.0], "weight": [-9.0], "colour": ["red"]})])
    found = mlflow.pyfunc.load_model(info.model_uri).predict(new)
    pd.testing.assert_frame_equal(found, detector.detect(new).frame())
    assert found["anomaly"].iloc[-1]


def test_nothing_is_pickled_and_a_changed_model_is_refused(logged, tmp_path):
    info, folder = logged
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.suffix for path in files if "detector" in path.parts[-2]} == {
        ".json",
        ".parquet",
        ".safetensors",
        ".md",
    }
    assert not [path for path in files if path.suffix in (".pkl", ".pickle", ".joblib", ".pt")]
    place = mlflow.artifacts.download_artifacts(info.model_uri, dst_path=str(tmp_path))
    config = next(path for path in tmp_path.rglob("config.json") if str(path).startswith(place.rstrip("/")))
    config.write_text(config.read_text().replace('"n_rows": 100', '"n_rows": 101'))
    with pytest.raises(ModelFileError, match="changed since it was saved"):
        mlflow.pyfunc.load_model(place)


def test_a_detector_is_saved_without_a_run(detector, tmp_path):
    flavour.save_model(detector, tmp_path / "saved")
    new = made(5, 1)
    np.testing.assert_array_equal(
        flavour.load_model(str(tmp_path / "saved")).score_samples(new), detector.score_samples(new)
    )
    assert (tmp_path / "saved" / "requirements.txt").read_text().startswith("nptad==")
