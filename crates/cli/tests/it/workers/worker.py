"""The worker of the tests, in Python: the same two tools as in the other languages."""

from typing import Annotated, Literal, TypedDict

from toolgate import ToolContext, ToolError, serve, tool


class Count(TypedDict):
    words: Annotated[int, "How many words there are.", {"minimum": 0}]


class Tried(TypedDict):
    text: Annotated[str, "What came of it."]


@tool
def countWords(text: Annotated[str, "The text to count in."], ctx: ToolContext) -> Count:
    """Counts the words of a text. Use it when a length matters. Do not use it for letters."""
    ctx.say("counting")
    return {"words": len(text.split())}


@tool(secrets=["WORKER_KEY"], risk="sensitive", mode="blocking")
def checkThings(
    how: Annotated[Literal["context", "leak", "error", "crash", "shape", "wait"], "What to try."], ctx: ToolContext
) -> Tried:
    """Tries one thing that a tool may do. Use it when a worker is tested. Do not use it otherwise."""
    if how == "context":
        return {"text": f"{ctx.tenant_id} {','.join(ctx.auth)} {ctx!r}"}
    if how == "leak":
        ctx.say(ctx.auth["WORKER_KEY"])
        return {"text": ctx.auth.require("WORKER_KEY")}
    if how == "error":
        raise ToolError("RATE_LIMIT", "too many letters today", "upstream", retry_after_s=7)
    if how == "crash":
        raise RuntimeError("something broke")
    if how == "shape":
        return {"words": 3}
    ctx.say("waiting")
    ctx.wait(120)
    ctx.raise_if_cancelled()
    return {"text": "nobody stopped it"}


serve()
