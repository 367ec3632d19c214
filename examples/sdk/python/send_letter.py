"""A tool in ten lines: start it with TOOLGATE_SERVER and TOOLGATE_KEY set, and `sdk/python` on PYTHONPATH."""

from toolgate import Mode, Risk, ToolContext, serve, tool


@tool(risk=Risk.CRITICAL, mode=Mode.BLOCKING)
def sendLetter(to: str, subject: str, body: str, ctx: ToolContext) -> dict:
    """Sends a letter. Use it when somebody asks for post. Do not use it for notes; use append_note first."""
    ctx.say(f"sending to {to}")
    return {"sent": True, "letters": len(body)}


serve()
