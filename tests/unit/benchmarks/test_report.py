"""A report of measurements as Markdown."""

from __future__ import annotations

from benchmarks import report


def record(losses: dict[str, float]) -> dict:
    run = {
        "steps_per_sec": 1.0,
        "examples_per_sec": 64.0,
        "cpu_secs": {"ps": 0.1, "workers": 0.2},
        "ps_peak_bytes": 1e6,
    }
    slower = {**run, "examples_per_sec": 16.0}
    workload = {
        "about": "x",
        "parameters": 10,
        "batch_size": 64,
        "check_steps": 7,
        "tolerance": 0.1,
        "updates": {"ours-async": "async", "classic-async": "async", "ddp": "sync"},
        "runs": {"ours-async": [run], "classic-async": [slower], "ddp": []},
        "losses": losses,
        "failures": {"ddp": "worker:0 ended; its last lines:\n  on its way\n  boom"},
        "skipped": {},
    }
    machine = {"cpu": "c", "cores": 2, "memory_gib": 1, "kernel": "6", "python": "3", "tensorflow": "2"}
    options = {"repeats": 1, "secs": 1.0, "num_ps": 1, "num_workers": 2}
    return {
        "date": "2000-01-01",
        "machine": machine,
        "load_before": 0.0,
        "options": options,
        "workloads": {"small": workload},
    }


def test_a_report_shows_ratios_to_the_classic_recipe_failures_and_targets():
    text = report.markdown_of(record({"ours-async": 1.0, "classic-async": 1.0}))
    ours = next(line for line in text.splitlines() if line.startswith("| ours-async"))
    assert "4.00" in ours
    assert "FAILED: ddp: worker:0 ended; its last lines: boom" in text
    assert "within 10% of their median" in text
    assert "| small    | ours-async | classic-async |  4.00 |   4.00 |     yes |" in text


def test_a_report_names_the_pytorch_that_was_measured():
    whole = record({})
    assert "TensorFlow 2; load average before: 0.0" in report.markdown_of(whole)
    whole["machine"]["pytorch"] = "PyTorch 1.2 with MKL"
    assert "TensorFlow 2, PyTorch 1.2 with MKL; load average" in report.markdown_of(whole)


def test_unequal_losses_are_an_error_in_the_report():
    text = report.markdown_of(record({"ours-async": 1.0, "classic-async": 2.0}))
    assert "ERROR: after 7 async steps the test losses of ours-async, classic-async" in text


def test_a_comparison_that_was_ended_early_says_how_many_rounds_it_made():
    whole = record({})
    whole["options"]["repeats"] = 5
    whole["workloads"]["small"]["runs"]["classic-async"] *= 2
    assert "1 to 2 interleaved repeats" in report.markdown_of(whole)
