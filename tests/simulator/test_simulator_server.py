"""The simulator on a socket: what the OpenAI SDK and a metrics reader see."""

from __future__ import annotations

import dataclasses
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import urlsplit

import openai
import pytest
from probe_direct import SMALL

from checklistbot.simulator.engine import Cluster
from checklistbot.simulator.faults import FAULTS
from checklistbot.simulator.server import Running

QUICK = dataclasses.replace(SMALL, prefill_speed=1e7, decode_speed=1e5)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with Running(Cluster(QUICK), workers=True) as server:
        yield server


def get(url: str, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    connection.request("GET", path)
    response = connection.getresponse()
    return response.status, response.read()


def test_the_openai_sdk_reads_its_answers(running: Running) -> None:
    client = openai.OpenAI(base_url=f"{running.url}/v1", api_key="none", max_retries=0)
    question = "The code of a is 1234567. List all codes."
    answer = client.chat.completions.create(model="simulated", messages=[{"role": "user", "content": question}])
    assert answer.choices[0].message.content == "1234567."
    asked = [{"role": "user", "content": question}]
    stream = client.chat.completions.create(
        model="simulated",
        messages=asked,  # type: ignore[arg-type]
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices).strip() == "1234567."
    assert chunks[-1].usage is not None
    assert [model.id for model in client.models.list()] == ["simulated"]
    with pytest.raises(openai.BadRequestError, match="5322"):
        client.completions.create(model="simulated", prompt="word " * 5_322, max_tokens=2)


def test_router_and_workers_tell_their_own_sizes(running: Running) -> None:
    both = json.loads(get(running.url, "/server_info")[1])
    assert both["prefill"][0]["max_req_input_len"] == SMALL.prefill_limit
    assert json.loads(get(running.urls["decode"], "/server_info")[1]) == both["decode"][0]
    assert json.loads(get(running.urls["prefill"], "/get_server_info")[1])["disaggregation_mode"] == "prefill"


def test_metrics_can_be_parsed(running: Running) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    text = get(running.urls["decode"], "/metrics")[1].decode()
    found = {sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples}
    assert found["sglang:max_total_num_tokens"] == SMALL.decode_pool
    assert found["sglang:num_running_reqs"] == 0


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/model_info", "/simulator/trace"])
def test_questions_are_answered(running: Running, path: str) -> None:
    assert get(running.url, path)[0] == 200


def test_unknown_paths_are_404(running: Running) -> None:
    assert get(running.url, "/nothing")[0] == 404


def test_the_command_lists_its_faults() -> None:
    done = subprocess.run([sys.executable, "-m", "checklistbot", "simulate", "--list"], capture_output=True, text=True, check=True, timeout=60)  # fmt: skip
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(FAULTS)


def test_the_command_serves_until_it_is_told_to_end() -> None:
    command = [sys.executable, "-m", "checklistbot", "simulate", "--port", "0", "--context", "8192", "--pool", "5328", "--decode-pool", "9216", "--page-size", "16"]  # fmt: skip
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[1]
        assert get(url, "/health")[0] == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_a_taken_port_is_one_line() -> None:
    with Running(Cluster(QUICK)) as server:
        port = str(urlsplit(server.url).port)
        done = subprocess.run([sys.executable, "-m", "checklistbot", "simulate", "--port", port], capture_output=True, text=True, check=False, timeout=60)  # fmt: skip
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert "give another --port" in done.stderr
