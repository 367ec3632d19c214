"""Tools of one's own for Toolgate, in Python: one file, nothing but the standard library, Python 3.9 or newer.

    from toolgate import serve, tool

    @tool
    def countWords(text: str) -> dict:
        '''Counts the words of a text. Use it when a length matters. Do not use it for letters.'''
        return {"words": len(text.split())}

    serve("http://127.0.0.1:8787", open("desk.key").read())

The process leases calls that the gate has let through, carries them out and reports. It says that it is alive, hears
when somebody wants a call stopped, waits for a server that is away, and ends when it is told to (SIGINT, SIGTERM)
after it has finished what it took.

Deliberately absent: anything that decides. Who may call, who is asked and what is recorded is the gate's.
"""

import asyncio
import dataclasses
import inspect
import json
import logging
import os
import random
import signal
import threading
import time
import typing
import urllib.error
import urllib.request

__all__ = ["Auth", "Captured", "Mode", "Refused", "Risk", "Tool", "ToolContext", "ToolError", "ToolResult",
           "capture_tool", "serve", "tool"]
__version__ = "0.1.0"

log = logging.getLogger("toolgate")

# Long enough to cost little, short enough that a worker that is told to end does so soon.
_LEASE_WAIT_S = 5
# A lease holds for a minute; so often the server also tells who wants the call stopped.
_BEAT_EVERY_S = 5.0
_SAID_EVERY_S = 0.25
_SAID_BYTES_MAX = 64 * 1024
# After this a lease is over, and with it the right to report.
_REPORT_MAX_S = 60.0
_ANSWER_TIMEOUT_S = 70.0
_BACKOFF_FIRST_S, _BACKOFF_MAX_S = 0.5, 30.0


class Risk:
    """How much harm a call can do. Undeclared it follows the class, and with it what an operator says of the code."""

    SAFE = "safe"
    SENSITIVE = "sensitive"
    CRITICAL = "critical"


class Mode:
    """How a call waits for a person. For a `write` no mode lets the effect happen without one."""

    BLOCKING = "blocking"
    CONTINUE_ON_TIMEOUT = "continue_on_timeout"
    FIRE_AND_CONTINUE = "fire_and_continue"


class ToolError(Exception):
    """How a call failed, in the gate's words: it reaches the model, which may correct itself.

    `code` is one of VALIDATION_ERROR, TIMEOUT, RATE_LIMIT, POLICY_DENIED, AUTH_REQUIRED, PROVIDER_ERROR, NETWORK_ERROR,
    SANDBOX_ERROR; `reason` is one of the code's finer reasons.
    """

    def __init__(self, code, message, reason=None, retry_after_s=None, **details):
        super().__init__(message)
        self.code, self.message, self.retry_after_s = code, message, retry_after_s
        self.details = {**({"reason": reason} if reason else {}), **details}

    def as_json(self):
        error = {"code": self.code, "message": self.message}
        if self.details:
            error["details"] = self.details
        if self.retry_after_s is not None:
            error["retry_after_s"] = int(self.retry_after_s)
        return error


@dataclasses.dataclass
class ToolResult:
    """For a result that is more than its output: `content` for a model, `app_data` for the application alone."""

    structured: typing.Any = None
    content: list = dataclasses.field(default_factory=list)
    is_error: bool = False
    app_data: typing.Any = None

    def as_json(self):
        members = {"content": self.content or None, "structured": self.structured, "is_error": self.is_error,
                   "app_data": self.app_data}
        return {name: value for name, value in members.items() if value is not None}


class Refused(Exception):
    """The server said no, and will again: a wrong key, a definition that it does not take."""

    def __init__(self, status, told, remedy=""):
        super().__init__(f"{told}; {remedy}" if remedy else told)
        self.status, self.told, self.remedy = status, told, remedy


class Auth(dict):
    """The values of the secrets that the tool declares, by name. Printed, it shows the names alone."""

    def __repr__(self):
        return f"Auth({sorted(self)})"

    __str__ = __repr__

    def require(self, name):
        if name not in self:
            raise ToolError("AUTH_REQUIRED", f"the secret `{name}` was not given to this call", "secret_missing")
        return self[name]


class ToolContext:
    """For whom a call runs, the secrets it declared, and the way back to whoever follows it."""

    def __init__(self, auth=None, tenant_id="", call_id="", principal="", agent_id=None):
        self.auth = Auth(auth or {})
        self.tenant_id, self.call_id, self.principal, self.agent_id = tenant_id, call_id, principal, agent_id
        self._cancel, self._said, self._lock = threading.Event(), [], threading.Lock()
        self._said_bytes = 0

    def __repr__(self):
        return f"ToolContext(tenant_id={self.tenant_id!r}, call_id={self.call_id!r}, auth={self.auth!r})"

    def say(self, text):
        """Tells whoever follows the call how it goes on: whole lines, at once."""
        text = text if text.endswith("\n") else text + "\n"
        size = len(text.encode("utf-8", "replace"))
        with self._lock:
            if self._said_bytes + size > _SAID_BYTES_MAX - 8:
                text, size = ("", 0) if self._said and self._said[-1] == "…\n" else ("…\n", 0)
            if text:
                self._said.append(text)
                self._said_bytes += size

    @property
    def cancelled(self):
        """Whether somebody wants the call stopped."""
        return self._cancel.is_set()

    def wait(self, seconds):
        """Waits, or less if somebody wants the call stopped; then it is true."""
        return self._cancel.wait(seconds)

    def raise_if_cancelled(self):
        """Ends the call if somebody wants it stopped. Only before it has changed something."""
        if self.cancelled:
            raise ToolError("POLICY_DENIED", "it was stopped; nothing was changed", "cancelled")

    def cancel(self):
        self._cancel.set()

    def _take_said(self):
        with self._lock:
            said, self._said, self._said_bytes = "".join(self._said), [], 0
        return said


@dataclasses.dataclass
class Tool:
    """A function and its definition. Calling it calls the function."""

    function: typing.Callable
    definition: dict
    wants_context: typing.Optional[str] = None

    @property
    def name(self):
        return self.definition["name"]

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)

    def _run(self, arguments, ctx):
        """What is reported of a call with these arguments."""
        try:
            if self.wants_context:
                arguments = {**arguments, self.wants_context: ctx}
            try:
                bound = inspect.signature(self.function).bind(**arguments)
            except TypeError as wrong:
                raise ToolError("VALIDATION_ERROR", str(wrong), "schema") from None
            result = self.function(*bound.args, **bound.kwargs)
            if inspect.iscoroutine(result):
                result = asyncio.run(result)
            result = self._result(result).as_json()
        except ToolError as error:
            return {"status": "failed", "error": error.as_json()}
        except BaseException as error:  # also one that would end the thread: the call has to be reported
            log.error("%s ended with an exception", self.name, exc_info=error)
            told = f"{type(error).__name__}: {error}"
            # Where the tool writes, nobody knows how far it came.
            return {"status": "outcome_unknown", "error": ToolError("SANDBOX_ERROR", told, "exception").as_json()}
        try:
            json.dumps(result, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            told = f"the result cannot be written as JSON: {error}"
            return {"status": "failed", "error": ToolError("PROVIDER_ERROR", told, "output_schema").as_json()}
        return {"status": "completed", "result": result}

    def _result(self, value):
        if isinstance(value, ToolResult):
            return value
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            value = dataclasses.asdict(value)
        return ToolResult(structured=value if isinstance(value, dict) else {"result": value})


_tools = []


def tool(function=None, *, name=None, description=None, risk=None, mode=Mode.BLOCKING, secrets=(),
         input_schema=None, output_schema=None, **more):
    """Makes a tool of a function: its name, its docstring and its type hints are the definition.

    A parameter is described by `Annotated[str, "what it is", {"maxLength": 80}]`, with members of its schema or without; a
    parameter annotated `ToolContext` gets the context.
    `more` is added to the definition as it is: `title`, `tags`, `examples`, `timeout_ms` and so on.
    """
    if function is None:
        def decorate(decorated):
            return tool(decorated, name=name, description=description, risk=risk, mode=mode, secrets=secrets,
                        input_schema=input_schema, output_schema=output_schema, **more)
        return decorate
    hints = typing.get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters.values()
    wants_context = next((one.name for one in parameters if _is_context(hints.get(one.name))), None)
    arguments = [one for one in parameters if one.name != wants_context]
    about = description or " ".join(inspect.getdoc(function).split()) if description or function.__doc__ else None
    if not about:
        raise TypeError(f"{function.__name__} has no docstring: say what it does, when to use it and when not")
    definition = {
        "name": name or function.__name__,
        "description": about,
        "input_schema": input_schema or _arguments_schema(function, arguments, hints),
        "output_schema": output_schema or _output_schema(hints.get("return", dict)),
        "egress_class": "write",
        "hitl": {"mode": mode},
        "runner": {"kind": "external"},
        **more,
    }
    if risk:
        definition["risk"] = risk
    if not definition["input_schema"].get("properties"):
        definition["input_less"] = True
    if secrets:
        definition["secrets"] = [{"name": secret} for secret in secrets]
    made = Tool(function, definition, wants_context)
    _tools.append(made)
    return made


def _is_context(hint):
    # With `= None` older interpreters make it optional by themselves.
    return hint is ToolContext or hint == typing.Optional[ToolContext]


def _arguments_schema(function, parameters, hints):
    schema = {"type": "object", "additionalProperties": False, "required": [], "properties": {}}
    for one in parameters:
        if one.kind not in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            raise TypeError(f"{function.__name__}: `{one}` has no name that an argument could have")
        if one.name not in hints:
            raise TypeError(f"{function.__name__}: annotate `{one.name}`, for example `{one.name}: str`")
        schema["properties"][one.name] = _schema(hints[one.name], f"{function.__name__}: `{one.name}`")
        if one.default is one.empty:
            schema["required"].append(one.name)
        elif one.default is not None:
            schema["properties"][one.name]["default"] = one.default
    return schema


def _output_schema(hint):
    schema = _schema(hint, "the result")
    if schema.get("type") == "object":
        return schema
    schema.setdefault("description", "What came out.")
    return {"type": "object", "additionalProperties": False, "required": ["result"], "properties": {"result": schema}}


_SIMPLE = {str: {"type": "string"}, int: {"type": "integer"}, float: {"type": "number"}, bool: {"type": "boolean"},
           type(None): {"type": "null"}, dict: {"type": "object"}, list: {"type": "array"}, typing.Any: {}}


def _schema(hint, where):
    """The JSON Schema of a type hint."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    # Before all else: one with members of a schema has no hash.
    if origin is typing.Annotated:
        schema = _schema(args[0], where)
        for more in args[1:]:
            schema.update({"description": more} if isinstance(more, str) else more if isinstance(more, dict) else {})
        return schema
    if isinstance(hint, typing.Hashable) and hint in _SIMPLE:
        return dict(_SIMPLE[hint])
    if origin is typing.Literal:
        kinds = {type(one) for one in args}
        kind = _SIMPLE.get(kinds.pop(), {}) if len(kinds) == 1 else {}
        return {**kind, "enum": list(args)}
    if origin is list:
        return {"type": "array", "items": _schema(args[0], where)}
    if origin is dict and args[0] is str:
        return {"type": "object", "additionalProperties": _schema(args[1], where)}
    if origin is typing.Union or type(hint).__name__ == "UnionType":
        schemas = [_schema(one, where) for one in args]
        if all(set(schema) == {"type"} for schema in schemas):
            return {"type": [schema["type"] for schema in schemas]}
        return {"anyOf": schemas}
    if typing.is_typeddict(hint) if hasattr(typing, "is_typeddict") else hasattr(hint, "__required_keys__"):
        hints = typing.get_type_hints(hint, include_extras=True)
        required = [one for one in hints if one in hint.__required_keys__]
        return _object(hints, required, where)
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint, include_extras=True)
        return _object(hints, [one.name for one in dataclasses.fields(hint)], where)
    raise TypeError(f"{where} is annotated `{hint}`, which has no schema here: give `input_schema` or `output_schema`")


def _object(hints, required, where):
    properties = {name: _schema(hint, f"{where}.{name}") for name, hint in hints.items()}
    return {"type": "object", "additionalProperties": False, "required": required, "properties": properties}


# --- serving


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    # A redirect would show the key to somebody who was not named.
    def redirect_request(self, *_):
        return None


class _Unreached(Exception):
    """Nobody knows whether the server heard it."""


class _Gate:
    def __init__(self, url, key):
        self.url = url.rstrip("/") + "/api/v1/"
        self._headers = {"authorization": f"Bearer {key.strip()}", "content-type": "application/json",
                         "user-agent": f"toolgate-python/{__version__}"}
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)

    def post(self, path, body):
        """The answer, or None where there is none; Refused or _Unreached."""
        data = json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=self._headers, method="POST")
        try:
            with self._opener.open(request, timeout=_ANSWER_TIMEOUT_S) as answer:
                text = answer.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            if error.code in (502, 504):
                raise _Unreached(f"status {error.code}") from None
            raise self._refusal(error) from None
        except (OSError, ValueError) as error:
            raise _Unreached(f"{self.url} cannot be reached: {error}") from None

    def _refusal(self, error):
        try:
            problem = json.loads(error.read())
        except (OSError, ValueError):
            problem = {}
        told = problem.get("detail", f"the server answered with status {error.code}")
        for finding in (problem.get("details") or {}).get("findings", []):
            told += f"\n  {finding.get('pointer', '')}: {finding.get('message', '')}"
        return Refused(error.code, told, problem.get("remedy", ""))


class _Backoff:
    """Twice as long each time, and never all workers at once."""

    def __init__(self):
        self.seconds = _BACKOFF_FIRST_S

    def wait(self, stopping):
        seconds, self.seconds = self.seconds, min(self.seconds * 2, _BACKOFF_MAX_S)
        stopping.wait(seconds * random.uniform(0.5, 1.0))


class _Worker:
    def __init__(self, gate, tools, parallel):
        self.gate, self.tools = gate, {one.name: one for one in tools}
        self.places, self.parallel = threading.Semaphore(parallel), parallel
        self.stopping, self.running = threading.Event(), set()

    def stop(self, *_):
        """Once: finish what was taken. Twice: ask the tools to stop, too."""
        if self.stopping.is_set():
            for ctx in list(self.running):
                ctx.cancel()
        self.stopping.set()

    def serve(self):
        for one in self.tools.values():
            self.register(one)
        wanted = {"tools": sorted(self.tools), "wait": _LEASE_WAIT_S}
        log.info("serving %s for %s", ", ".join(wanted["tools"]), self.gate.url)
        backoff = _Backoff()
        while not self.stopping.is_set():
            if not self.places.acquire(timeout=_SAID_EVERY_S):
                continue
            # Always waited for: the server may have handed out work already.
            try:
                leased = self.gate.post("work/lease", wanted)
                backoff = _Backoff()
            except (Refused, _Unreached) as error:
                self.places.release()
                if isinstance(error, Refused) and error.status in (400, 401, 403):
                    self.finish()
                    raise
                log.warning("no work: %s", error)
                backoff.wait(self.stopping)
                continue
            if leased is None:
                self.places.release()
            else:
                threading.Thread(target=self.carry_out, args=(leased,)).start()
        self.finish()

    def finish(self):
        for _ in range(self.parallel):
            while not self.places.acquire(timeout=_SAID_EVERY_S):
                pass

    def register(self, one):
        backoff = _Backoff()
        while not self.stopping.is_set():
            try:
                answer = self.gate.post("tools", {"definition": one.definition, "apply": True}) or {}
                log.info("%s %s: %s", one.name, answer.get("version"), answer.get("action"))
                return
            except Refused as error:
                if error.status == 403:
                    log.info("%s is taken as it is registered: the key may not register tools", one.name)
                    return
                if error.status not in (429, 503):
                    raise
                log.warning("cannot register: %s", error)
            except _Unreached as error:
                log.warning("cannot register: %s", error)
            backoff.wait(self.stopping)

    def carry_out(self, leased):
        context, call, path = leased["context"], leased["call"], f"work/{leased['lease_id']}/"
        ctx = ToolContext(context.get("secrets"), context["tenant_id"], call["call_id"], context["principal"],
                          context.get("agent_id"))
        self.running.add(ctx)
        ended, lost = threading.Event(), threading.Event()
        beating = threading.Thread(target=self.beat, args=(path + "heartbeat", ctx, ended, lost))
        beating.start()
        try:
            report = self.tools[call["name"]]._run(call["input"], ctx)
            ended.set()
            beating.join()
            if lost.is_set():
                log.warning("%s was lost: nobody would take its report", call["name"])
            else:
                self.report(path + "complete", report)
        finally:
            ended.set()
            self.running.discard(ctx)
            self.places.release()

    def beat(self, path, ctx, ended, lost):
        last = time.monotonic()
        while True:
            over = ended.wait(_SAID_EVERY_S)
            said = ctx._take_said()
            if not said and (over or time.monotonic() - last < _BEAT_EVERY_S):
                if over:
                    return
                continue
            last = time.monotonic()
            try:
                kept = self.gate.post(path, {"output": said} if said else {}) or {}
                if kept.get("cancel_requested"):
                    ctx.cancel()
            except Refused as error:
                if error.status == 409:
                    lost.set()
                    ctx.cancel()
                    return
                log.warning("a heartbeat was not taken: %s", error)
            except _Unreached as error:
                log.warning("a heartbeat was not heard: %s", error)
            if over:
                return

    def report(self, path, report):
        """Once: a second report is refused, which after a lost answer means that the first came through."""
        begun, backoff, again = time.monotonic(), _Backoff(), False
        while time.monotonic() - begun < _REPORT_MAX_S:
            try:
                self.gate.post(path, report)
                return
            except Refused as error:
                if error.status == 409:
                    if not again:
                        log.warning("a report came too late: %s", error)
                    return
                if error.status in (400, 413):
                    log.warning("a report was refused: %s", error)
                    if report == {"status": "completed"} or report["status"] != "completed":
                        return
                    # What it did is done, whether or not its result can be kept.
                    report = {"status": "completed"}
                    continue
                log.warning("a report was not taken: %s", error)
            except _Unreached as error:
                log.warning("a report was not heard: %s", error)
            again = True
            backoff.wait(threading.Event())


def serve(url=None, key=None, *, tools=None, parallel=4):
    """Carries out calls until the process is told to end, then finishes what it took.

    Without `url` and `key` they come from TOOLGATE_SERVER and TOOLGATE_KEY; without `tools` all that were made are
    served. The key has the permission `work.lease`, as keys of the role `service` have.
    """
    url, key = url or os.environ.get("TOOLGATE_SERVER"), key or os.environ.get("TOOLGATE_KEY")
    if not url or not key:
        raise Refused(0, "no server or no key", "give both, or set TOOLGATE_SERVER and TOOLGATE_KEY")
    tools = list(_tools if tools is None else tools)
    if not tools:
        raise Refused(0, "there is no tool to serve", "decorate a function with @tool")
    if not logging.getLogger().handlers and not log.handlers:
        logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    worker = _Worker(_Gate(url, key), tools, max(1, parallel))
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, worker.stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        worker.serve()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# --- testing


@dataclasses.dataclass
class Captured:
    """How one call in a test went."""

    output: typing.Any
    error: typing.Optional[dict]
    said: str


def capture_tool(captured, input, ctx=None):
    """Calls a tool without a server: what it gives, how it fails, what it says."""
    ctx = ctx or ToolContext(tenant_id="test", call_id="c_test")
    report = captured._run(input, ctx)
    return Captured((report.get("result") or {}).get("structured"), report.get("error"), ctx._take_said())
