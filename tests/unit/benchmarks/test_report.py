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


def test_no_ratio_is_given_to_a_contender_whose_loss_check_failed():
    whole = record({"ours-async": 1.0, "bare": 1.0, "classic-async": 2.0})
    workload = whole["workloads"]["small"]
    workload["updates"]["bare"], workload["runs"]["bare"] = "async", workload["runs"]["ours-async"]
    text = report.markdown_of(whole)
    assert "losses of classic-async are further" in text and "ratios to them are not given" in text
    ours = next(line for line in text.splitlines() if line.startswith("| ours-async"))
    assert "4.00" not in ours and "64" in ours, "its rate is shown, without a ratio"
    assert "ours-async |    bare |" in text and "ours-async | classic-async" not in text, "among the targets"
    assert "classic-async" not in report.comparable_rates(workload)


def test_the_share_of_the_bound_is_the_ratio_of_the_rates_over_it():
    whole = record({})
    workload = whole["workloads"]["small"]
    single = {**workload["runs"]["ours-async"][0], "examples_per_sec": 128.0, "cpu_secs": {"ps": 0.0, "workers": 0.1}}
    workload["updates"]["single-2x1"], workload["runs"]["single-2x1"] = "none", [single]
    whole["calibration"] = {"memory": 0.0, "socket": 0.0, "run": 0.0016, "small_tensor": 0.0024, "byte": 0.0}
    row = next(line for line in report.markdown_of(whole).splitlines() if line.startswith("| small    |  6.40"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[-3:] == ["0.50", "0.50", "1.00"], "6.4 ms of compute, 6.4 ms of the ps, half of the rate"
