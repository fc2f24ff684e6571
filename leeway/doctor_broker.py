"""What `leeway doctor` sees of the broker: whether its queues are ours, and whether anybody takes from them."""

from collections.abc import AsyncGenerator

from leeway.doctor_finding import Finding, fix, note, ok
from leeway.installation import Installation
from shared.broker import Examined, examine
from shared.errors import LeewayError
from shared.topology import WORK_QUEUE


async def broker_findings(installation: Installation) -> AsyncGenerator[Finding]:
    if installation.embedded:
        yield ok("broker", "in the process's memory")
        return
    try:
        examined = await examine(installation.settings)
    except LeewayError as error:
        said = f"{error}; is it running, and LEEWAY_AMQP_URL right?"
        yield fix("broker", said if "`" not in said else str(error))
        return
    yield ok("broker", examined.product)
    if examined.missing:
        yield note(
            "queues",
            f"{', '.join(examined.missing)} not there yet; the services declare them when they start",
        )
        return
    dead = sum(n for name, n in examined.ready.items() if ".dead." in name)
    if dead:
        yield note("queues", f"{dead} unreadable messages in the queues of the dead; see: leeway dead list")
    else:
        yield ok("queues", f"{len(examined.ready)}, with the right arguments")
    yield _consumers(examined)


def _consumers(examined: Examined) -> Finding:
    takers = {stage.value: examined.consumers[queue] for stage, queue in WORK_QUEUE.items()}
    idle = [stage for stage, n in takers.items() if not n]
    if len(idle) == len(takers):
        return note("services", "none runs; start them: docker compose up -d, or leeway up --stack")
    if idle:
        words = " and ".join(idle)
        return fix(
            "services",
            f"no {words} runs; start: docker compose up -d {' '.join(idle)}, or leeway run {idle[0]}",
        )
    return ok("services", ", ".join(f"{n} of {stage}" for stage, n in takers.items()))
