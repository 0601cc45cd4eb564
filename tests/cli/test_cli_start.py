"""What commands import before they ask the server: nothing that takes long and that they do not need."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Of these each takes as long as everything else that a command imports.
SLOW = {"aiohttp", "attr", "numpy", "pygments", "rich", "sqlite3", "structlog", "cryptography"}
CONNECTED = "import unisono.cli.connection, unisono.kube.command_transport, unisono.kube.http, unisono.kube.discovery"


@pytest.mark.parametrize(
    "imports",
    [
        "import unisono.cli.main",
        f"{CONNECTED}, unisono.cli.commands.get",
        f"{CONNECTED}, unisono.cli.commands.delete",
        f"{CONNECTED}, unisono.cli.commands.queue, unisono.cli.vcctl",
        f"{CONNECTED}, unisono.cli.commands.job",
        f"{CONNECTED}, unisono.cli.explaining",
        "import unisono.cli.commands.run, unisono.cli.running.submitting, unisono.sdk.jobs.submission",
    ],
)
def test_a_command_imports_nothing_slow(imports: str) -> None:
    code = f"import sys; {imports}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not SLOW & set(done.stdout.split())


def test_what_serves_the_api_does_not_read_the_engine() -> None:
    """It decides nothing, and ``unisono up`` answers when it has read all this."""
    code = (
        "import sys, unisono.cli.commands.up, unisono.dashboard.activation, unisono.standalone.plane\n"
        "import unisono.agent.agent, unisono.apiserver.server, unisono.apiserver.backend, unisono.history.reading\n"
        "print(*sorted(name for name in sys.modules if name == 'numpy' or name.startswith('unisono.engine.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not done.stdout.split()


def test_the_sdk_imports_a_name_when_it_is_used() -> None:
    code = (
        "import sys, unisono.sdk.functions.gang, unisono.sdk as sdk\n"
        "from unisono.sdk import gang, map, Job\n"
        "assert callable(gang) and callable(map) and set(sdk.__all__) <= set(dir(sdk))\n"
        "[getattr(sdk, name) for name in sdk.__all__]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_name_that_the_sdk_does_not_have_is_an_attribute_error() -> None:
    import unisono.sdk

    with pytest.raises(AttributeError, match="no attribute 'Jobb'"):
        unisono.sdk.Jobb  # noqa: B018
