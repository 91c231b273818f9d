"""Jobs: the queue, cancelling, crashes, and what survives a restart."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import pytest
from web_client import open_browser

from nptad.errors import InputError
from nptad.web import jobs, runner
from nptad.web.app import Config, create_app
from nptad.web.runner import CRASHED


def test_a_job_from_upload_to_download(browser):
    job = browser.new_job("wine.csv")
    assert job.state == "draft"
    assert "Check the columns" in browser.get(f"/jobs/{job.id}").text
    entered = {"use-0": "category", "label": "1:0", "share": "5", "seed": "3"}
    browser.post(f"/jobs/{job.id}/run", entered)
    browser.wait_for(job, "done")
    assert job.choices.uses == ("category", "number")
    assert (job.choices.label, job.choices.share, job.choices.seed) == ((1, 0), 0.05, 3)
    assert "1 of 100 rows looks anomalous" in browser.get(f"/jobs/{job.id}").text
    assert browser.get(f"/jobs/{job.id}/status").json()["line"] == "1 row flagged"
    for kind in ("scores.csv", "scores.parquet", "model.zip", "report.html"):
        answer = browser.get(f"/jobs/{job.id}/download/{kind}")
        assert answer.text == f"{kind} of wine.csv"
        assert answer.headers["content-disposition"] == f'attachment; filename="wine-{kind}"'


def test_what_is_said_about_a_row_reaches_the_worker(browser):
    job = browser.new_job()
    assert browser.post(f"/jobs/{job.id}/judge", {"row": "3", "verdict": "fine"}).status_code == 400  # not done yet
    browser.post(f"/jobs/{job.id}/run")
    browser.wait_for(job, "done")
    answer = browser.post(f"/jobs/{job.id}/judge", {"row": "3", "verdict": "fine"})
    assert (answer.status_code, answer.url.path) == (200, f"/jobs/{job.id}")
    assert (browser.site.store.path(job) / "said").read_text() == "3 fine"
    refused = browser.post(f"/jobs/{job.id}/judge", {"row": "5", "verdict": "anomaly"})
    assert refused.status_code == 400
    assert "Row 5 is common." in refused.text
    for row, verdict in (("x", "fine"), ("-1", "fine"), ("9" * 20, "fine"), ("3", "other")):
        assert browser.post(f"/jobs/{job.id}/judge", {"row": row, "verdict": verdict}).status_code == 400


def test_jobs_run_one_at_a_time_in_the_order_of_their_start(browser):
    first, second, third = (browser.new_job(f"{name}.csv") for name in ("endless", "second", "third"))
    for job in (first, third, second):
        browser.post(f"/jobs/{job.id}/run")
    browser.wait_for_progress(first)
    assert [job.state for job in (first, second, third)] == ["running", "queued", "queued"]
    assert browser.get(f"/jobs/{third.id}/status").json()["line"] == "waiting, next in line"
    assert browser.get(f"/jobs/{second.id}/status").json()["line"] == "waiting, number 2 in line"
    page = browser.get(f"/jobs/{second.id}").text
    assert page.index("endless.csv") < page.index("third.csv") < page.rindex("second.csv")
    browser.post(f"/jobs/{first.id}/cancel")
    browser.wait_for(second, "done")
    assert third.finished <= second.started
    assert first.state == "cancelled"


def test_a_file_is_read_while_a_job_runs(browser):
    running = browser.start_job("endless.csv")
    browser.wait_for_progress(running)
    assert browser.new_job("other.csv").state == "draft"
    assert browser.get(f"/jobs/{running.id}/status").json() == {
        "state": "running",
        "line": "running, 25%",
        "phase": "Fitting",
        "share": 0.25,
        "left": "about 40 s left",
    }


def test_cancel_in_the_queue(browser):
    running, waiting = browser.start_job("endless.csv"), browser.start_job("waiting.csv")
    browser.post(f"/jobs/{waiting.id}/cancel")
    assert waiting.state == "cancelled"
    assert running.state == "running"
    assert "Run again" in browser.get(f"/jobs/{waiting.id}").text


def test_cancel_ends_the_process_and_removes_what_it_left(browser, files_left):
    job = browser.start_job("endless.csv")
    browser.wait_for_progress(job)
    pid = browser.site.runner.process.pid
    browser.post(f"/jobs/{job.id}/cancel")
    assert job.state == "cancelled"
    assert sorted(path.name for path in files_left()[0].iterdir()) == ["job.json", "table.arrow"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_process_that_does_not_want_to_end_is_killed(browser, monkeypatch):
    monkeypatch.setattr(runner, "TERM_SECONDS", 0.2)
    job = browser.start_job("stubborn.csv")
    browser.wait_for_progress(job)
    browser.post(f"/jobs/{job.id}/cancel")
    assert job.state == "cancelled"


def test_a_crash_is_a_failed_job_and_the_next_one_runs(browser):
    job = browser.start_job("endless.csv")
    browser.wait_for_progress(job)
    os.kill(browser.site.runner.process.pid, signal.SIGKILL)
    browser.wait_for(job, "failed")
    assert job.message == CRASHED
    assert "crashed or was killed" in browser.get(f"/jobs/{job.id}").text
    following = browser.start_job("following.csv")
    browser.wait_for(following, "done")


def test_a_crash_while_reading_is_one_sentence_and_leaves_nothing(browser, files_left):
    answer = browser.upload("crash-at-once.csv")
    assert answer.status_code == 400
    assert CRASHED in answer.text
    assert not files_left()


def test_a_job_that_fails_says_why_and_can_be_run_again(browser):
    job = browser.start_job("failing.csv")
    browser.wait_for(job, "failed")
    assert "The loss is no longer finite." in browser.get(f"/jobs/{job.id}").text
    started = job.started
    browser.post(f"/jobs/{job.id}/again")
    browser.wait_for(job, "failed")
    assert job.started > started


def test_columns_can_be_changed_after_a_failure(browser):
    job = browser.start_job("failing.csv")
    browser.wait_for(job, "failed")
    assert "Check the columns" in browser.get(f"/jobs/{job.id}/columns").text
    browser.post(f"/jobs/{job.id}/run", {"use-0": "category"})
    browser.wait_for(job, "failed")
    assert job.choices.uses == ("category", "number")


def test_pressing_the_button_twice_runs_once(browser):
    job = browser.start_job("endless.csv")
    browser.wait_for_progress(job)
    queued = job.queued
    browser.post(f"/jobs/{job.id}/run")
    browser.post(f"/jobs/{job.id}/again")
    assert job.queued == queued
    assert job.state == "running"


def test_impossible_choices_come_back_with_what_was_entered(browser):
    job = browser.new_job()
    answer = browser.post(f"/jobs/{job.id}/run", {"use-0": "category", "share": "0.1", "seed": "7"})
    assert answer.status_code == 400
    assert "at least 1%" in answer.text
    assert 'value="0.1"' in answer.text
    assert '<option value="category" selected>' in answer.text
    assert job.state == "draft"


def test_delete_removes_everything_even_of_a_running_job(browser, files_left):
    done, running = browser.start_job("done.csv"), browser.start_job("endless.csv")
    browser.wait_for_progress(running)
    browser.post(f"/jobs/{running.id}/delete")
    browser.post(f"/jobs/{done.id}/delete")
    assert not files_left()
    assert browser.get(f"/jobs/{done.id}").status_code == 404


def test_a_copy_keeps_the_result_and_the_choices(browser):
    job = browser.start_job()
    browser.wait_for(job, "done")
    answer = browser.post(f"/jobs/{job.id}/copy")
    draft = browser.job(answer.url.path.rsplit("/", 1)[1])
    assert draft.id != job.id
    assert (draft.state, draft.choices, draft.columns) == ("draft", job.choices, job.columns)
    assert browser.get(f"/jobs/{job.id}/download/scores.csv").status_code == 200


def test_the_example_needs_no_file(browser):
    answer = browser.post("/example")
    assert jobs.EXAMPLE in answer.text


def test_a_restart_keeps_results_and_marks_what_was_interrupted(tmp_path):
    home = tmp_path / "home"
    with open_browser(home) as browser:
        done = browser.start_job("done.csv")
        browser.wait_for(done, "done")
        running, waiting = browser.start_job("endless.csv"), browser.start_job("waiting.csv")
        browser.wait_for_progress(running)
        token = browser.form_token
        cookies = dict(browser.client.cookies)
    assert json.loads((home / "jobs" / running.id / "job.json").read_text())["state"] == "interrupted"
    with open_browser(home) as browser:
        assert "1 of 100 rows looks anomalous" in browser.get(f"/jobs/{done.id}").text
        assert browser.get(f"/jobs/{done.id}/download/model.zip").status_code == 200
        page = browser.get(f"/jobs/{running.id}").text
        assert "Interrupted" in page
        assert "Run again" in page
        browser.wait_for(browser.job(waiting.id), "done")  # it had not begun, so it begins now
        browser.client.cookies.clear()
        browser.client.cookies.update(cookies)
        assert browser.form_token == token  # a page that is still open in a browser works


def test_a_job_whose_server_was_killed_is_interrupted(tmp_path):
    home = tmp_path / "home"
    with open_browser(home) as browser:
        job = browser.start_job("endless.csv")
        browser.wait_for_progress(job)
        running = (home / "jobs" / job.id / "job.json").read_text()
    (home / "jobs" / job.id / "job.json").write_text(running)
    for left in ("result.tmp", "result"):  # or even complete, but nobody knew
        (home / "jobs" / job.id / left).mkdir()
    with open_browser(home) as browser:
        assert browser.job(job.id).state == "interrupted"
    assert sorted(path.name for path in (home / "jobs" / job.id).iterdir()) == ["job.json", "table.arrow"]


def test_a_start_removes_leftovers_and_old_drafts_and_nothing_else(tmp_path):
    home = tmp_path / "home"
    with open_browser(home) as browser:
        old, new, done = browser.new_job("old.csv"), browser.new_job("new.csv"), browser.start_job("done.csv")
        browser.wait_for(done, "done")
        for job in (old, done):
            job.created = time.time() - 2 * jobs.DRAFT_SECONDS
            browser.site.store.save(job)
    half = home / "jobs" / "0123456789abcdef"
    half.mkdir()
    (half / "upload").write_bytes(b"half a file")
    foreign, damaged = home / "jobs" / "notes", home / "jobs" / "fedcba9876543210"
    for path in (foreign, damaged):
        path.mkdir()
    (damaged / "job.json").write_text("{}")
    with open_browser(home) as browser:
        assert set(browser.site.store.jobs) == {new.id, done.id}
    assert {path.name for path in (home / "jobs").iterdir()} == {new.id, done.id, foreign.name, damaged.name}


def test_two_servers_do_not_share_a_directory(browser, tmp_path):
    with pytest.raises(InputError, match="Another `nptad serve` uses"):
        create_app(Config(tmp_path / "home"))


def test_a_directory_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be used"):
        create_app(Config(tmp_path / "file"))


def test_a_full_disk_fails_the_job_and_not_the_queue(browser, monkeypatch):
    save = jobs.Store.save

    def full(store, job, **changes):
        if changes.get("state") == "running" and job.name == "unlucky.csv":
            raise OSError(28, "No space left on device")
        save(store, job, **changes)

    monkeypatch.setattr(jobs.Store, "save", full)
    unlucky, lucky = browser.start_job("unlucky.csv"), browser.start_job("lucky.csv")
    browser.wait_for(lucky, "done")
    assert unlucky.state == "failed"
    assert "No space left" in unlucky.message


@pytest.mark.parametrize("action", ["again", "copy", "run", "cancel"])
def test_on_a_full_disk_an_action_is_one_sentence_and_changes_nothing(browser, monkeypatch, files_left, action):
    running = browser.start_job("endless.csv")
    browser.wait_for_progress(running)
    job = browser.start_job("table.csv") if action in ("cancel", "again") else browser.new_job()
    if action == "again":
        browser.post(f"/jobs/{job.id}/cancel")
    before, files = job.to_json(), sorted(files_left())

    def full(path):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(jobs, "replacing", full)
        answer = browser.post(f"/jobs/{job.id}/{action}")
    assert answer.status_code == 507
    assert "No space left on device. Nothing has changed." in answer.text
    assert job.to_json() == before
    assert sorted(files_left()) == files
    assert set(browser.site.store.jobs) == {running.id, job.id}


def test_on_a_full_disk_jobs_can_still_be_seen(tmp_path, monkeypatch):
    home = tmp_path / "home"
    with open_browser(home) as browser:
        done, running = browser.start_job("done.csv"), browser.start_job("endless.csv")
        browser.wait_for_progress(running)
        state = (home / "jobs" / running.id / "job.json").read_text()
    (home / "jobs" / running.id / "job.json").write_text(state)

    def full(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(jobs, "replacing", full)
    with open_browser(home) as browser:
        assert (browser.job(done.id).state, browser.job(running.id).state) == ("done", "interrupted")
        assert browser.get(f"/jobs/{done.id}/download/scores.csv").status_code == 200


def test_a_key_that_a_full_disk_cut_short_is_not_used(tmp_path):
    with open_browser(tmp_path / "home"):
        pass
    assert len((tmp_path / "home" / "secret").read_bytes()) == 32
    (tmp_path / "home" / "secret").write_bytes(b"")
    with pytest.raises(InputError, match="secret is damaged"):
        create_app(Config(tmp_path / "home"))


def test_reading_has_a_time_limit(browser, monkeypatch, files_left):
    monkeypatch.setattr(runner, "READING_SECONDS", 0.0)
    answer = browser.upload()
    assert answer.status_code == 400
    assert "takes too long" in answer.text
    assert not files_left()


def test_a_machine_without_room_for_a_process_is_a_failed_job_and_the_next_one_runs(browser, monkeypatch):
    job = browser.new_job()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/nowhere/python")
        browser.post(f"/jobs/{job.id}/run")
        browser.wait_for(job, "failed")
    assert job.message == CRASHED
    browser.post(f"/jobs/{job.id}/again")
    browser.wait_for(job, "done")
