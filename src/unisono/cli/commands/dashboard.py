"""``unisono dashboard``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from unisono.cli.options import Where, control_plane_options, run_async

if TYPE_CHECKING:
    from unisono.kube.kubeconfig import ClusterConfig


@click.command("dashboard")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on.  [default: a free one]")
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="HOST[:PORT]",
    help="Another name under which browsers reach it, through a proxy; can be given several times.",
)
@click.option("--behind-https", is_flag=True, help="Browsers reach it over HTTPS, through a proxy.")
@click.option("--no-browser", is_flag=True, help="Print the link and open no browser.")
@control_plane_options
def command(where: Where, host: str, port: int, names: tuple[str, ...], behind_https: bool, no_browser: bool) -> None:
    """Show jobs, queues and nodes in a browser, with your own rights.

    It opens a link that signs one browser in, once and within two minutes. A control plane of this machine serves the
    page itself; for any other cluster, or with another address, this command serves it until Ctrl-C.
    """
    from unisono.apiserver.access.files import is_loopback
    from unisono.cli.connection import find
    from unisono.dashboard.http.guard import HOW_TO_BUILD, is_built

    if not is_built():
        raise click.ClickException(HOW_TO_BUILD)
    if not is_loopback(host) and not behind_https:
        click.echo(
            f"{click.style('Warning:', fg='yellow', bold=True)} with --host {host} what is shown, and tokens, cross "
            "the network unencrypted: put a proxy with HTTPS before it and say --behind-https.",
            err=True,
        )
    plain = (host, port, names, behind_https, where.context) == ("127.0.0.1", 0, (), False, None)
    if plain and (not where.named or where.data_dir is not None) and (link := _own_link(where)):
        click.echo(f"This link signs you in at the dashboard, once and within two minutes:\n{link}")
        if not no_browser:
            click.launch(link)
        return
    run_async(_serve(find(where), host, port, names, secure=behind_https, browser=not no_browser))


def _own_link(where: Where) -> str | None:
    """A link to the dashboard that a control plane of this machine serves; None where it serves none."""
    from unisono.dashboard.activation import link_of
    from unisono.standalone.paths import DataDir

    return link_of(DataDir.at(where.data_dir))


async def _serve(
    config: ClusterConfig, host: str, port: int, names: tuple[str, ...], *, secure: bool, browser: bool
) -> None:
    import asyncio
    import signal

    from unisono.dashboard.server import DashboardServer

    server = DashboardServer(config, host, port, names=names, secure=secure)
    await server.start()
    stopped = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, stopped.set)
    try:
        link = server.link()
        click.echo(f"The dashboard is at {server.url}. This link signs you in, once and within two minutes:\n{link}")
        if browser:
            await asyncio.to_thread(click.launch, link)
        await stopped.wait()
    finally:
        await server.stop()
