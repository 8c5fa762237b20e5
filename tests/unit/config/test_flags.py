"""The command line, flagfiles and TF_CONFIG, and their order of precedence."""

from __future__ import annotations

import json
import pathlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ps_train.base.errors import ConfigError
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.config import flags
from ps_train.config.fields import job_fields, kind_of
from ps_train.config.job import Job, Task
from ps_train.config.training_fields import OPTIMIZERS

PRESETS = sorted((pathlib.Path(__file__).parents[3] / "flags").glob("*.flags"))


TF_CONFIG = {
    "TF_CONFIG": json.dumps(
        {"cluster": {"ps": ["p:1"], "worker": ["w:1", "w:2"]}, "task": {"type": "worker", "index": 1}}
    )
}


def refusal(arguments, environ=None):
    with pytest.raises(ConfigError) as caught:
        flags.parse(arguments, environ or {})
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_no_arguments_make_the_default_local_job():
    parsed = flags.parse([], {})
    assert parsed.job == Job()
    assert parsed.task == Task("local", None)
    assert parsed.given == {}


def test_every_option_is_a_flag_of_its_own_type():
    parsed = flags.parse(
        [
            "--job_name=worker",
            "--task_index=1",
            "--ps_hosts=a:1,b:2",
            "--max_steps=7",
            "--learning_rate=0.5",
            "--verbose",
            "--model=m:C",
        ],
        {},
    )
    assert parsed.task == Task("worker", 1)
    assert parsed.job == Job(ps_hosts=("a:1", "b:2"), max_steps=7, learning_rate=0.5, verbose=True, model="m:C")


def test_a_bool_can_be_switched_off_in_both_ways():
    assert flags.parse(["--nogpu_memory_growth"], {}).job.gpu_memory_growth is False
    assert flags.parse(["--gpu_memory_growth=false"], {}).job.gpu_memory_growth is False


def test_a_flag_may_be_separated_from_its_value_by_a_space():
    assert flags.parse(["--max_steps", "7"], {}).job.max_steps == 7


def test_of_a_flag_given_twice_the_last_counts():
    assert flags.parse(["--max_steps=7", "--max_steps=8"], {}).job.max_steps == 8


def test_spaces_around_the_hosts_of_a_list_do_not_matter():
    assert flags.parse(["--ps_hosts=a:1, b:2"], {}).job.ps_hosts == ("a:1", "b:2")


def test_only_what_was_given_is_passed_on():
    assert flags.parse(["--max_steps=2000"], {}).given == {"max_steps": 2000}


def test_an_unknown_flag_is_refused_with_the_nearest_known_one():
    message = refusal(["--max_step=7"])
    assert "max_step'" in message
    assert "max_steps" in message
    assert "command line" in message
    assert "--help" in message


def test_an_unknown_flag_of_a_flagfile_is_refused_and_said_to_be_there(flagfile):
    argument = flagfile("--seed=3", "--max_step=7")
    message = refusal([argument])
    assert "max_step'" in message
    assert f"(from {argument.partition('=')[2]}:2)" in message


@pytest.mark.parametrize("argument", ["--learning_rate=fast", "--learning_rate=", "--verbose=maybe", "--l2=1,5"])
def test_a_value_of_the_wrong_type_is_refused_with_its_flag(argument):
    name, _, value = argument.lstrip("-").partition("=")
    message = refusal([argument])
    assert name in message
    assert value in message
    assert "command line" in message


@pytest.mark.parametrize("text", ["abc", "1.5", "1e3", "0x10", "", " 7", "1_000", "²", "7 steps"])
def test_what_is_not_a_whole_number_is_said_to_be_none(text):
    message = refusal([f"--max_steps={text}"])
    assert f"max_steps={text if text and text == text.strip() else repr(text)} (from the command line)" in message
    assert "use a whole number of at least 1." in message


@pytest.mark.parametrize("text", ["99999999999999999999", "9223372036854775808"])
def test_a_whole_number_beyond_64_bits_is_refused_with_the_largest(text):
    assert f"max_steps={text} (from the command line)" in refusal([f"--max_steps={text}"])
    assert "at most 9223372036854775807" in refusal([f"--max_steps={text}"])
    assert flags.parse(["--max_steps=9223372036854775807"], {}).job.max_steps == 2**63 - 1


@pytest.mark.parametrize("text", ["inf", "-inf", "nan", "1e999"])
def test_a_number_that_is_not_finite_is_refused(text):
    assert "use a finite number above 0" in refusal([f"--learning_rate={text}"])


TEXTS = [field.name for field in (*job_fields(Task), *job_fields(Job)) if kind_of(field) in (str, tuple)]
"""Flags that an unset variable of a shell could leave without a value."""


@pytest.mark.parametrize("name", TEXTS)
def test_no_flag_takes_an_empty_text_for_its_default(name, flagfile):
    message = refusal([f"--{name}="])
    assert message.startswith(f"{name}='' (from the command line) is ")
    argument = flagfile("--seed=3", f"--{name}=")
    assert refusal([argument]).startswith(f"{name}='' (from {argument.partition('=')[2]}:2) is ")
    assert refusal([flagfile(f"--{name}=a:1"), f"--{name}="]).startswith(f"{name}='' (from the command line) is ")


def test_an_argument_of_the_model_may_be_empty():
    assert flags.parse(["--model_arg=name="], {}).job.model_arg == ("name=",)


def test_a_flag_without_its_value_does_not_take_the_next_flag_for_it():
    message = refusal(["--model_dir", "--seed=3"])
    assert "--model_dir (from the command line) has no value" in message
    assert "--seed" in message


def test_a_value_that_is_not_allowed_is_said_to_come_from_the_command_line():
    assert "max_steps=0 (from the command line)" in refusal(["--max_steps=0"])


def test_a_value_that_is_not_allowed_is_said_to_come_from_its_flagfile(flagfile):
    argument = flagfile("# a comment", "", "--max_steps=0")
    assert f"max_steps=0 (from {argument.partition('=')[2]}:3)" in refusal([argument])


def test_a_task_index_below_zero_is_refused():
    assert "task_index=-1 (from the command line)" in refusal(["--job_name=ps", "--task_index=-1"])


def test_an_unknown_job_name_is_refused():
    message = refusal(["--job_name=server"])
    assert "job_name=server (from the command line)" in message
    assert "ps, worker" in message


@pytest.mark.parametrize("arguments", [["train"], ["--max_steps=7", "train"], ["--", "train"]])
def test_a_positional_argument_is_refused(arguments):
    message = refusal(arguments)
    assert '"train"' in message
    assert "positional" in message


def test_comments_and_empty_lines_of_a_flagfile_say_nothing(flagfile):
    assert flags.parse([flagfile("# a comment", "", "--max_steps=7")], {}).given == {"max_steps": 7}


@pytest.mark.parametrize("before", [True, False])
def test_the_command_line_overrides_a_flagfile_wherever_it_stands(flagfile, before):
    file = flagfile("--max_steps=7", "--seed=3")
    arguments = ["--max_steps=8", file] if before else [file, "--max_steps=8"]
    job = flags.parse(arguments, {}).job
    assert (job.max_steps, job.seed) == (8, 3)
    assert job.sources["max_steps"] == "the command line"
    assert job.sources["seed"].endswith("job.flags:2")


def test_of_two_flagfiles_the_later_counts(flagfile):
    first, second = flagfile("--max_steps=7", "--seed=3", name="a"), flagfile("--max_steps=8", name="b")
    job = flags.parse([first, second], {}).job
    assert (job.max_steps, job.seed) == (8, 3)


def test_a_flagfile_may_be_named_as_an_argument_of_its_own(flagfile):
    path = flagfile("--max_steps=7").partition("=")[2]
    assert flags.parse(["--flagfile", path], {}).job.max_steps == 7


def test_a_missing_flagfile_is_refused_with_its_path(tmp_path):
    path = tmp_path / "no.flags"
    message = refusal([f"--flagfile={path}"])
    assert str(path) in message
    assert "flagfile" in message


@pytest.mark.parametrize("argument", ["--flagfile", "--flagfile="])
def test_a_flagfile_without_a_path_is_refused(argument):
    assert "flagfile" in refusal([argument])


def test_tf_config_gives_hosts_and_task():
    parsed = flags.parse([], TF_CONFIG)
    assert parsed.task == Task("worker", 1)
    assert parsed.job.ps_hosts == ("p:1",)
    assert parsed.job.worker_hosts == ("w:1", "w:2")
    assert parsed.job.sources["worker_hosts"] == "TF_CONFIG"


@pytest.mark.parametrize("cluster", [{}, {"cluster": {}}, {"clutser": {"ps": ["p:1"], "worker": ["w:1"]}}])
def test_a_task_of_tf_config_without_a_cluster_is_refused(cluster):
    message = refusal([], {"TF_CONFIG": json.dumps({**cluster, "task": {"type": "worker", "index": 1}})})
    assert "TF_CONFIG has a task (worker:1) but no cluster" in message


def test_a_task_of_tf_config_fits_to_host_lists_of_flags():
    environ = {"TF_CONFIG": json.dumps({"task": {"type": "worker", "index": 1}})}
    assert flags.parse(["--ps_hosts=p:1", "--worker_hosts=w:1,w:2"], environ).task == Task("worker", 1)


def test_an_evaluator_of_tf_config_needs_no_cluster():
    assert flags.parse([], {"TF_CONFIG": json.dumps({"task": {"type": "evaluator"}})}).task == Task("evaluator", 0)


def test_what_came_from_tf_config_is_not_among_the_given_flags():
    assert flags.parse(["--seed=3"], TF_CONFIG).given == {"seed": 3}


def test_a_flagfile_overrides_tf_config(flagfile):
    job = flags.parse([flagfile("--worker_hosts=x:1")], TF_CONFIG).job
    assert job.worker_hosts == ("x:1",)
    assert job.ps_hosts == ("p:1",)


@pytest.mark.parametrize(
    ("argument", "theirs"),
    [("--task_index=0", "task_index=1"), ("--job_name=ps", "job_name=worker"), ("--worker_hosts=x:1", "w:1,w:2")],
)
def test_a_command_line_that_contradicts_tf_config_is_refused_with_both(argument, theirs):
    message = refusal([argument], TF_CONFIG)
    assert f"{argument} (from the command line)" in message
    assert theirs in message
    assert "TF_CONFIG" in message


def test_a_command_line_that_repeats_tf_config_is_accepted():
    parsed = flags.parse(["--task_index=1", "--job_name=worker", "--worker_hosts=w:1,w:2"], TF_CONFIG)
    assert parsed.task == Task("worker", 1)


@pytest.fixture
def cluster_file(tmp_path):
    def write(content, name="cluster.json"):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return f"--cluster_file={path}"

    return write


IN_FILE = {"ps": ["f:1"], "worker": {"0": "f:2", "1": "f:3"}}


@pytest.mark.parametrize("content", [IN_FILE, {"cluster": IN_FILE, "task": {"type": "ps", "index": 0}}])
def test_a_cluster_file_gives_the_host_lists_and_is_named_as_their_source(cluster_file, content):
    argument = cluster_file(content)
    parsed = flags.parse([argument, "--job_name=worker", "--task_index=1"], {})
    assert parsed.job.ps_hosts == ("f:1",)
    assert str(Cluster.of(parsed.job).address(parsed.task)) == "f:3"
    assert parsed.job.sources["ps_hosts"] == argument.removeprefix("--").replace("=", " ")
    assert "ps_hosts" not in parsed.given


def test_a_cluster_file_takes_the_place_of_tf_configs_lists_but_not_of_its_task(cluster_file):
    parsed = flags.parse([cluster_file(IN_FILE)], TF_CONFIG)
    assert parsed.job.ps_hosts == ("f:1",)
    assert parsed.task == Task("worker", 1)


def test_a_cluster_file_and_a_host_list_together_are_refused(cluster_file):
    message = refusal([cluster_file(IN_FILE), "--ps_hosts=a:1"], {})
    assert "ps_hosts=a:1 (from the command line) and cluster_file=" in message


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("{", "is not JSON"),
        ("[]", "use a JSON object"),
        ({}, "has no address"),
        ({"ps": "a:1"}, "use a list of host:port"),
        ({"ps": ["a:1"], "parrot": []}, "unknown job 'parrot'"),
    ],
)
def test_what_is_wrong_with_a_cluster_file_is_said_with_its_path(cluster_file, content, part):
    argument = cluster_file(content)
    message = refusal([argument], {})
    assert part in message
    assert argument.partition("=")[2] in message


def test_a_model_dir_of_tf_config_counts_and_is_said_to_come_from_there():
    environ = {"TF_CONFIG": json.dumps({"cluster": {"ps": ["p:1"], "worker": ["w:1"]}, "model_dir": "/models"})}
    job = flags.parse([], environ).job
    assert job.model_dir == "/models"
    assert job.sources["model_dir"] == "TF_CONFIG"


def test_model_arguments_of_file_and_command_line_add_up_and_the_command_line_counts(flagfile):
    file = flagfile("--model_arg=hidden=64", "--model_arg=depth=2")
    parsed = flags.parse(["--model_arg=hidden=32", file], {})
    assert parsed.job.model_arguments() == {"hidden": "32", "depth": "2"}
    assert flags.parse(flags.as_arguments(parsed.given), {}).job.model_arguments() == {"hidden": "32", "depth": "2"}


@pytest.mark.parametrize("job_name", ["ps", "worker"])
def test_a_task_that_cannot_be_told_without_an_index_needs_one(job_name):
    with pytest.raises(ConfigError) as caught:
        flags.with_task(Task(job_name))
    assert "--task_index" in str(caught.value)
    assert job_name in str(caught.value)


@pytest.mark.parametrize("job_name", ["chief", "evaluator"])
def test_a_task_that_is_the_only_one_of_its_job_has_the_index_0(job_name):
    assert flags.with_task(Task(job_name)) == Task(job_name, 0)


def test_a_given_index_is_kept():
    assert flags.with_task(Task("worker", 4)) == Task("worker", 4)


def test_help_shows_every_flag_with_its_default():
    text = flags.help_text(full=True)
    for field in [*job_fields(Task), *job_fields(Job)]:
        assert f"--{field.name}:" in text
    assert "[60.0] -> checkpoints#save\n" in text and "->" not in flags.help_text(full=False)
    assert "[2000]" in text
    assert "--flagfile" in text
    assert ", ".join(OPTIMIZERS) in text


def test_help_shows_the_twenty_flags_that_most_jobs_need_and_names_the_way_to_all():
    text = flags.help_text(full=False)
    shown = re.findall(r"^  --(\w+):", text, re.MULTILINE)
    assert len(shown) == 20 and len(set(shown)) == 20
    assert {"job_name", "task_index", "model", "max_steps", "model_dir", "flagfile"} <= set(shown)
    assert "--helpfull shows all" in text.splitlines()[-1]


def test_a_section_of_the_help_has_its_flags_in_one_place():
    sections = re.findall(r"^([\w ]+):$", flags.help_text(full=True), re.MULTILINE)
    assert len(sections) == len(set(sections)) > 5


HOSTS = st.lists(st.from_regex(r"[a-z]{1,8}:[1-9][0-9]{0,3}", fullmatch=True), min_size=1, max_size=3).map(tuple)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "ps_hosts": HOSTS,
            "worker_hosts": HOSTS,
            "max_steps": st.integers(1, 10**9),
            "learning_rate": st.floats(1e-9, 1e3),
            "save_secs": st.floats(0.001, 1e6),
            "verbose": st.booleans(),
            "gpu_memory_growth": st.booleans(),
            "optimizer": st.sampled_from(OPTIMIZERS),
            "model_dir": st.text("ab/ =,'\"#-", min_size=1),
            "model_arg": st.lists(st.from_regex(r"[a-z]{1,3}=[a-z,= ]{0,5}", fullmatch=True), min_size=1).map(tuple),
        },
    )
)
def test_flags_passed_on_as_arguments_make_the_same_job(values):
    first = flags.parse(flags.as_arguments(values), {})
    assert first.job == Job(**values)
    assert flags.parse(flags.as_arguments(first.given), {}).job == first.job


LOCAL_PRESETS = ("cifar10.flags", "criteo.flags")


def test_a_preset_without_a_cluster_describes_a_local_job():
    for name in LOCAL_PRESETS:
        parsed = flags.parse([f"--flagfile={PRESETS[0].with_name(name)}"], {})
        assert parsed.task.job_name == "local" and not parsed.job.ps_hosts


@pytest.mark.parametrize("preset", [p for p in PRESETS if p.name not in LOCAL_PRESETS], ids=lambda path: path.name)
def test_a_preset_that_ships_describes_a_cluster(preset):
    parsed = flags.parse([f"--flagfile={preset}", "--job_name=worker", "--task_index=1"], {})
    assert Cluster.of(parsed.job).address(parsed.task).port > 0
    assert parsed.job.model_dir


def test_there_are_presets_for_one_machine_and_for_two():
    assert {"local_async.flags", "local_sync.flags", "two_hosts.flags"} <= {path.name for path in PRESETS}
