"""A worker of `examples/tools/sendLetter`: start it with TOOLGATE_SERVER and TOOLGATE_KEY set, `sdk/python` on PYTHONPATH."""

from typing import Annotated, TypedDict

from toolgate import Risk, ToolContext, serve, tool

Sent = TypedDict("Sent", {"pages": Annotated[int, "How many pages it has.", {"minimum": 1}]})


@tool(risk=Risk.CRITICAL, timeout_ms=30_000)
def sendLetter(
    to: Annotated[str, "The name and the address, line by line.", {"minLength": 10, "maxLength": 500}],
    body: Annotated[str, "The letter as plain text.", {"minLength": 1, "maxLength": 100_000}],
    ctx: ToolContext,
) -> Sent:
    """Sends a letter on paper to one address. Use it where the law or the recipient wants paper. Do not use it where a
    mail is enough (use `send_email` first), and never guess an address."""
    ctx.say(f"printing for {to.splitlines()[0]}")
    return {"pages": 1 + len(body) // 3_000}


serve()
