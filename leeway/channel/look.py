"""`leeway channel list` and `test`."""

import asyncio
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import typer

from leeway.accounts import accounts_of, missing_secrets
from leeway.channel.change import OfAccount, OfChannel
from leeway.channel.reaching import polls, probed, unreachable, webhook_url
from leeway.installation import DIRECTORY, Data, Installation, the_one_meant
from leeway.operators import AsJson, jsonable
from leeway.terminal import console, raw_line, shown


def list_(
    business: Annotated[
        str | None, typer.Argument(help="Of this business alone.", show_default=False)
    ] = None,
    *,
    as_json: AsJson = False,
    data: Data = DIRECTORY,
) -> None:
    """Every account: whether it is on, what it is, when it last brought a message and last sent one."""

    async def look() -> list[dict[str, Any]]:
        async with accounts_of(the_one_meant(data).settings) as accounts:
            return [dict(row) for row in await accounts.overview(business)]

    found = asyncio.run(look())
    if as_json:
        raw_line(json.dumps(found, default=jsonable))
        return
    if not found:
        console.print("No accounts yet; make one with: leeway channel add --help")
    for row in found:
        _print(row)


def _print(row: Mapping[str, Any]) -> None:
    off = f"off: {row['disabled_why'] or 'its credentials were refused'}" if row["state"] != "on" else "on"
    head = f"{row['channel']} {row['address']}  {row['business']}  {off}"
    console.print(shown(head), markup=False, soft_wrap=True)
    about = [f"mode {row['mode'] or 'of the business'}"]
    about += [f"number {row['own_number']}"] if row["own_number"] else []
    about += [f"last message {_when(row['last_message'])}", f"last send {_when(row['last_send'])}"]
    console.print(shown(f"    {' · '.join(about)}"), markup=False, soft_wrap=True, style="dim")


def _when(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC" if at else "never"


def try_out(address: OfAccount, *, kind: OfChannel = None, data: Data = DIRECTORY) -> None:
    """Ask the provider who we are, and look whether it can reach us. Nothing is sent to anybody; exit code 1 if it fails."""
    installation = the_one_meant(data)
    findings = asyncio.run(_test(installation, address, kind))
    named, url = findings.pop(0)[1], findings.pop(0)[1]
    console.print(
        f"{named}: {webhook_url(installation, data, *url.split('/', 1))}", markup=False, soft_wrap=True
    )
    for works, said in findings:
        line = f"{'ok ' if works else 'FIX'}  {said}"
        console.print(shown(line), markup=False, soft_wrap=True, style="green" if works else "bold red")
    if not all(works for works, _ in findings):
        raise typer.Exit(1)


async def _test(installation: Installation, named: str, kind: str | None) -> list[tuple[bool, str]]:
    """Whether it works and what is said of it: its credentials, its way in, its state."""
    settings = installation.settings
    async with accounts_of(settings) as accounts:
        account = await accounts.named(named, kind)
        address = await accounts.address(account.id)
        assert address is not None, "it was found just now"
        row = next(
            one
            for one in await accounts.overview(None)
            if (one["channel"], one["address"]) == (account.channel, account.address)
        )
        missing = missing_secrets(account.channel, address.secrets, polling=polls(address))
        findings = [(True, str(account)), (True, f"{account.channel}/{account.address}")]
        if missing:
            findings.append((False, f"missing: {', '.join(missing)}; give it with: leeway channel rotate"))
        else:
            answer = await probed(accounts, settings, address)
            findings.append((answer.works, answer.said))
    if (why := unreachable(settings, account.channel, polling=polls(address))) is not None:
        findings.append((False, why))
    if row["state"] != "on":
        said = (
            f"it is off: {row['disabled_why'] or 'its credentials were refused'}; then: leeway channel enable"
        )
        findings.append((False, said))
    return findings
