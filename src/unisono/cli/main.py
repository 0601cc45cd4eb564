"""Entry point of ``unisono``: finds the command's module only when the command is asked for.

Every command lives in ``cli/commands/<name>.py`` as a click command named ``command``, or beside another of its subject
as ``<name>_command`` (``MODULES``). The table below holds the one-line help, so that ``unisono --help`` imports nothing
but click.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import traceback
from typing import Any

# What a user sees of an unexpected error: one sentence, and a file with the traceback for a report.

_LONGEST = 200


def sentence(error: Exception) -> str:
    """Name the error, with the file that its traceback was written to, as far as there is room on the disk."""
    try:
        handle, path = tempfile.mkstemp(prefix="unisono-error-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as stream:
            traceback.print_exception(error, file=stream)
    except OSError as failure:
        where = f"Its traceback could not be written to a file ({failure.strerror})."
    else:
        where = f"Please report it with {path}, which says where it happened."
    cause = error
    while isinstance(cause, ExceptionGroup) and len(cause.exceptions) == 1:
        cause = cause.exceptions[0]
    text = "".join(each for each in str(cause).partition("\n")[0][:_LONGEST] if each.isprintable())
    named = f"{type(cause).__name__}: {text}" if text else type(cause).__name__
    return f"Unisono failed unexpectedly ({named}). {where}"


def _absent(error: ImportError) -> str:
    """One sentence on a package that is missing here, or made for another machine."""
    from importlib.util import find_spec

    name = (error.name or "").partition(".")[0]
    what = f"the package {name}" if name else "a package"
    if isinstance(error, ModuleNotFoundError):
        problem = f"{what}, which Unisono needs, is not installed for {sys.executable}"
    else:
        problem = f"{what}, which Unisono needs, cannot be loaded by {sys.executable}: {error}"
    if find_spec("pip") is None:
        return f"{problem}. That Python has no pip: use 'pipx install unisono', or add pip by '-m ensurepip'."
    return f"{problem}. To mend it: {sys.executable} -m pip install --force-reinstall unisono"


try:
    import click

    from unisono import __version__
    from unisono.cli.options import KUBECTL
    from unisono.errors import ApiError, UnisonoError
except KeyboardInterrupt:  # Ctrl-C while the modules are read: nothing has begun, and a traceback would tell nothing
    raise SystemExit(130) from None
except ImportError as error:
    sys.exit(f"Error: {_absent(error)}")

COMMANDS: dict[str, str] = {
    "run": "Submit jobs, follow them with logs and end with their verdict.",
    "up": "Start the control plane of this machine.",
    "down": "Stop the control plane of this machine.",
    "apply": "Create or change objects from files.",
    "get": "List objects as a table, or print them.",
    "describe": "Show an object, its state, events and verdict.",
    "logs": "Print the logs of a pod or of all pods of a job.",
    "delete": "Delete objects.",
    "stop": "Stop jobs for good, and keep what is known of them.",
    "status": "Show components, nodes, queues, and jobs that wait and run.",
    "top": "Show the same again and again, on the whole terminal.",
    "dashboard": "Show jobs, queues and nodes in a browser.",
    "explain": "Say why a job is pending, with numbers and the way out.",
    "job": "Run, list, view, suspend, resume and delete jobs, as vcctl does.",
    "node": "List how nodes stand with their checks, take them out and bring them back.",
    "queue": "Create, list, operate, update and delete queues, as vcctl does.",
    "budgets": "List budgets: what is used and left of them, and until when.",
    "jobflow": "Create, list, describe and delete job flows, as vcctl does.",
    "jobtemplate": "Create, list, describe and delete job templates, as vcctl does.",
    "pod": "List pods by job or queue, as vcctl does.",
    "report": "Report GPU-hours, waiting times and ends of jobs, also of those that are gone.",
    "squeue": "List jobs that run and wait, as Slurm does.",
    "sinfo": "List nodes and what is in use, as Slurm does.",
    "sacct": "List jobs with their use and end, also those that are gone, as Slurm does.",
    "sbatch": "Submit a script with #SBATCH lines, as Slurm does.",
    "srun": "Run a command with Slurm's options and wait for it.",
    "scancel": "Stop jobs, as Slurm does.",
    "scontrol": "Show, hold, release, requeue and move jobs, as Slurm does.",
    "sreport": "Report who used how much, as Slurm does.",
    "sacctmgr": "List accounts and QOS, which are queues, as Slurm does.",
    "schedule": "Run one scheduling cycle on objects from files: what would happen.",
    "simulate": "Run the scheduler on a workload on a virtual clock, and judge it.",
    "whatif": "Say when waiting jobs start, and what a change of the cluster would do.",
    "defrag": "Say which pods to move so that gangs that wait find room.",
    "record": "Write down what a scheduler sees of a cluster, as input of the simulator.",
    "fleet": "Join clusters to a hub, list them, and move work between them.",
    "scheduler": "Run the scheduler beside an API server.",
    "controllers": "Run the controllers beside an API server.",
    "migrate": "Rewrite what Kueue, KAI, YuniKorn or Volcano was told as queues, rules and access.",
    "config": "Check the scheduler's configuration.",
    "agent": "Simulate nodes on an API server.",
    "webhook": "Answer an API server's questions about our kinds.",
    "numa-exporter": "Tell schedulers of the CPUs of a node on which a kubelet runs.",
    "dashboard-server": "Serve the dashboard on a cluster.",
    "install": "Install Unisono on a cluster, or print the manifests.",
    "crds": "Print the definitions of our kinds for a cluster.",
    "backup": "Copy everything that a control plane stores to a file.",
    "restore": "Put a backup in the place of what a stopped control plane stores.",
    "support-bundle": "Collect state, logs and metrics for a report, without secrets.",
    "completion": "Let a shell complete commands and options.",
    "man": "Show the manual page of a command, or write the pages of all.",
    "version": "Print the version.",
}
MODULES: dict[str, str] = {
    **dict.fromkeys(
        ("agent", "controllers", "scheduler", "webhook", "numa-exporter", "dashboard-server"), "components"
    ),
    "restore": "backup",
    "jobtemplate": "jobflow",
    "crds": "install",
    "completion": "version",
    "stop": "delete",
    "sinfo": "squeue",
    "scancel": "scontrol",
    "srun": "sbatch",
    "top": "status",
    "sacctmgr": "sreport",
}
"""Modules of the commands that stand beside another of their subject, there as ``<name>_command``."""
GROUPS: dict[str, str] = {
    "Run and follow jobs": "run apply get describe logs delete stop status top dashboard explain",
    "This machine": "up down backup restore",
    "Queues, nodes, plans and reports": "queue budgets node report whatif schedule simulate defrag record",
    "Slurm's words": "sbatch srun squeue sinfo sacct scancel scontrol sreport sacctmgr",
    "vcctl's words": "job jobflow jobtemplate pod",
    "Clusters": "install migrate fleet crds config scheduler controllers agent webhook numa-exporter dashboard-server",
    "Others": "support-bundle completion man version",
}
"""Commands under the headings of the help, which has all of them."""
ELSEWHERE: dict[str, str] = {
    "salloc": "no command holds nodes without a job: 'unisono srun COMMAND' runs one, 'unisono sbatch' a script",
    "sattach": "'unisono logs -f job/NAME' follows what a job writes; nothing is sent to it",
    "sstat": "'unisono top' shows what is in use, and 'unisono dashboard' the measured use of a job",
    "sprio": "'unisono explain job/NAME' says which place a job has in its queue, and why",
    "sshare": "'unisono budgets' shows what is used and left, 'unisono queue list -o wide' what queues use and deserve",
    "sdiag": "'unisono status' shows the components, and their metrics have the figures",
    "scrontab": "jobs by the clock are CronJobs: 'unisono apply -f cronjob.yaml'",
    "strigger": "'unisono get events --watch' tells what happens",
    "sbcast": "it is there within a script of 'unisono sbatch'; files of all nodes are volumes",
    "sview": "'unisono dashboard' shows jobs, queues and nodes",
}
"""Slurm's further commands, and what stands for each."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the table: what a newcomer needs first comes first."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import the module of a command."""
        if name not in COMMANDS:
            return None
        own = name.replace("-", "_")
        module = importlib.import_module(f"unisono.cli.commands.{MODULES.get(name, own)}")
        command = getattr(module, f"{own}_command" if name in MODULES else "command")
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        for heading, names in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name, COMMANDS[name]) for name in names.split()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, but the error names the nearest command."""
        name = args[0]
        if name in ELSEWHERE:
            ctx.fail(f"there is no {name} here: {ELSEWHERE[name]}")
        if name not in COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name, COMMANDS, 1)
            hint = f"; did you mean '{near[0]}'?" if near else "; see 'unisono --help'"
            ctx.fail(f"there is no command '{name}'{hint}")
        return super().resolve_command(ctx, args)


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="unisono %(version)s")
def cli() -> None:
    """Unisono schedules batch and AI jobs: gangs, queues, fair sharing; on this machine or on a cluster."""


def main(args: list[str] | None = None, *, program: str | None = None, kubectl: bool = False) -> None:
    """Run the command line; every error of the house becomes one sentence on stderr and exit code 1.

    Args:
        args: words after the program's name; None for those of this process.
        program: its name in help texts.
        kubectl: without options commands mean the cluster that kubectl talks to.
    """
    try:
        code: Any = cli.main(args=args, prog_name=program, standalone_mode=False, obj={KUBECTL: kubectl})
    except click.exceptions.Abort:
        code = 130
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except ApiError as error:
        _complain(_UNAUTHORIZED if error.code == 401 else error.message)
        code = 1
    except UnisonoError as error:
        _complain(str(error))
        code = 1
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "unisono":
            raise  # a fault of this package
        _complain(_absent(error))
        code = 1
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        # The reader of our output (head, less) has exited: that is no error of ours, and flushing again would fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        # The machine says no (disk full, no right, read-only): a sentence helps more than where we were in the code.
        _complain(f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror or error}.")
        code = 1
    except Exception as error:
        if _is_component(args):
            raise  # Its log is where a traceback is looked for.

        _complain(sentence(error))
        code = 1
    sys.exit(code if isinstance(code, int) else 0)


# They run until they are stopped, mostly in pods, and write a log instead of answering a user.
_COMPONENTS = {"scheduler", "controllers", "agent", "webhook", "numa-exporter", "dashboard-server"}


def _is_component(args: list[str] | None) -> bool:
    words = sys.argv[1:] if args is None else args
    return bool(words) and words[0] in _COMPONENTS


# The server's own message is one word.
_UNAUTHORIZED = (
    "the server does not accept your credentials (Unauthorized): they are wrong or have expired. Log in again, or name "
    "another kubeconfig with --kubeconfig, or another context with --context."
)


def _complain(message: str) -> None:
    click.echo(f"{click.style('Error:', fg='red', bold=True)} {message}", err=True)
