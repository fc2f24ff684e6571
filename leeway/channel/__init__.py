"""`leeway channel`: connect a business to a channel, look whether it works, change its secrets, switch it off and on."""

import typer

from leeway.channel.add import EPILOG, add
from leeway.channel.change import disable, enable, mode
from leeway.channel.look import list_, try_out
from leeway.channel.rotate import rotate

app = typer.Typer(
    rich_markup_mode="rich",
    add_completion=False,
    no_args_is_help=True,
    help="Connect a business to a channel.",
    epilog="[bold]Examples[/]\n\n"
    "leeway channel add corner-clinic --address corner-desk --callback-url https://example.com/leeway\n\n"
    "leeway channel add corner-clinic --channel whatsapp --phone-number-id 106540352242922 --number +40700000100\n\n"
    "leeway channel test corner-clinic --channel whatsapp\n\nleeway channel mode corner-desk suggest",
)
app.command(epilog=EPILOG)(add)
app.command("list")(list_)
app.command("test")(try_out)
app.command()(rotate)
app.command()(disable)
app.command()(enable)
app.command()(mode)
