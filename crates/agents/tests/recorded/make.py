"""Makes the recordings beside this file: bytes that providers really sent, and what their own clients read in them.

The bytes are from test cassettes that others published in source distributions (README.md names them). Unpack these
below one folder, install the clients, and run

    python make.py FOLDER

For each line of PICKS it writes NAME.body (the answer's body as it was recorded) and NAME.json (its status, whether it
is a stream, where it is from, and what the vendor's client for Python makes of it).
"""

import base64
import contextlib
import glob
import gzip
import http.server
import json
import pathlib
import sys
import threading

import anthropic
import openai
import yaml
from google import genai

PICKS = """
openai_chat stream-parallel-calls pydantic_ai-1.24.0/tests/cassettes/test_dbos/test_complex_agent_run.yaml 0
openai_chat stream-one-call opentelemetry_instrumentation_openai-0.62.4/tests/traces/cassettes/test_chat/test_chat_tools_streaming.yaml 0
openai_chat stream-calls-in-turn opentelemetry_instrumentation_openai-0.62.4/tests/traces/cassettes/test_functions/test_open_ai_function_calls_tools_streaming_parallel.yaml 0
openai_chat stream-text pydantic_ai-1.24.0/tests/cassettes/test_dbos/test_dbos_agent_iter.yaml 0
openai_chat stream-error-within pydantic_ai-1.24.0/tests/models/cassettes/test_openrouter/test_openrouter_stream_error.yaml 0
openai_chat stream-groq-call pydantic_ai-1.24.0/tests/models/cassettes/test_groq/test_tool_use_failed_error_streaming.yaml 1
openai_chat stream-huggingface pydantic_ai-1.24.0/tests/models/cassettes/test_huggingface/test_stream_completion.yaml 3
openai_chat parallel-calls opentelemetry_instrumentation_openai-0.62.4/tests/traces/cassettes/test_functions/test_open_ai_function_calls_tools_parallel.yaml 1
openai_chat refusal opentelemetry_instrumentation_openai-0.62.4/tests/traces/cassettes/test_chat_parse/test_parsed_refused_completion.yaml 0
openai_chat filtered opentelemetry_instrumentation_openai-0.62.4/tests/traces/cassettes/test_azure/test_chat_content_filtering.yaml 0
openai_chat length opentelemetry_instrumentation_openai-0.62.4/tests/traces/cassettes/test_vision/test_vision.yaml 0
openai_chat cached-call pydantic_ai-1.24.0/tests/cassettes/test_dbos/test_dbos_agent_with_hitl_tool.yaml 0
openai_chat error-400 pydantic_ai-1.24.0/tests/models/cassettes/test_openai/test_openai_o1_mini_system_role[developer].yaml 0
openai_chat error-404 opentelemetry_instrumentation_openai-0.62.4/tests/traces/cassettes/test_azure/test_chat_reasoning.yaml 1
openai_chat error-401 pydantic_ai-1.24.0/tests/models/cassettes/test_mistral/test_mistral_model_instructions.yaml 0
openai_chat error-429 pydantic_ai-1.24.0/tests/models/cassettes/test_openrouter/test_openrouter_errors_raised.yaml 0
openai_chat error-call-unreadable pydantic_ai-1.24.0/tests/models/cassettes/test_groq/test_tool_use_failed_error.yaml 0
openai_responses stream-call pydantic_ai-1.24.0/tests/models/cassettes/test_openai_responses/test_openai_responses_stream.yaml 0
openai_responses stream-text pydantic_ai-1.24.0/tests/models/cassettes/test_openai_responses/test_openai_responses_stream.yaml 1
openai_responses stream-encrypted-reasoning pydantic_ai-1.24.0/tests/models/cassettes/test_openai_responses/test_openai_responses_streaming_usage.yaml 0
openai_responses stream-loop-call langchain_openai-1.7.4/tests/cassettes/test_agent_loop_streaming.yaml.gz 0
openai_responses stream-codex-text langchain_openai-1.7.4/tests/cassettes/test_codex_agent_loop_streaming.yaml.gz 1
openai_responses parallel-calls opentelemetry_instrumentation_openai-0.62.4/tests/traces/cassettes/test_responses/test_responses_tool_calls.yaml 0
openai_responses encrypted-reasoning-call pydantic_ai-1.24.0/tests/models/cassettes/test_openai_responses/test_openai_responses_requires_function_call_status_none.yaml 0
openai_responses reasoning opentelemetry_instrumentation_openai-0.62.4/tests/traces/cassettes/test_responses/test_responses_reasoning.yaml 0
openai_responses error-400 pydantic_ai-1.24.0/tests/models/cassettes/test_openai_responses/test_openai_responses_model_http_error.yaml 0
anthropic stream-call langchain_anthropic-1.7.7/tests/cassettes/test_agent_loop_streaming.yaml.gz 0
anthropic stream-text langchain_anthropic-1.7.7/tests/cassettes/test_agent_loop_streaming.yaml.gz 1
anthropic stream-parallel-calls opentelemetry_instrumentation_anthropic-0.62.4/tests/cassettes/test_messages/test_anthropic_tools_streaming_legacy.yaml 0
anthropic stream-thinking langchain_anthropic-1.7.7/tests/cassettes/test_thinking.yaml.gz 1
anthropic stream-thinking-redacted pydantic_ai-1.24.0/tests/models/cassettes/test_anthropic/test_anthropic_model_thinking_part_redacted_stream.yaml 0
anthropic stream-citations langchain_anthropic-1.7.7/tests/cassettes/test_citations.yaml.gz 1
anthropic stream-cached opentelemetry_instrumentation_anthropic-0.62.4/tests/cassettes/test_prompt_caching/test_anthropic_prompt_caching_stream_legacy.yaml 1
anthropic stream-tool-over-there langchain_anthropic-1.7.7/tests/cassettes/test_programmatic_tool_use_streaming.yaml.gz 0
anthropic parallel-calls pydantic_ai-1.24.0/tests/models/cassettes/test_anthropic/test_multiple_parallel_tool_calls.yaml 0
anthropic thinking-call pydantic_ai-1.24.0/tests/models/cassettes/test_anthropic/test_anthropic_tool_with_thinking.yaml 0
anthropic cached opentelemetry_instrumentation_anthropic-0.62.4/tests/cassettes/test_prompt_caching/test_anthropic_prompt_caching_legacy.yaml 1
gemini stream-call pydantic_ai-1.24.0/tests/models/cassettes/test_google/test_google_model_iter_stream.yaml 0
gemini stream-text pydantic_ai-1.24.0/tests/models/cassettes/test_google/test_google_model_stream.yaml 0
gemini stream-code-over-there pydantic_ai-1.24.0/tests/models/cassettes/test_google/test_google_model_builtin_code_execution_stream.yaml 0
gemini stream-thinking pydantic_ai-1.24.0/tests/models/cassettes/test_google/test_google_model_thinking_part_iter.yaml 0
gemini call pydantic_ai-1.24.0/tests/models/cassettes/test_google/test_google_model_structured_output.yaml 0
gemini thinking-call pydantic_ai-1.24.0/tests/models/cassettes/test_gemini/test_gemini_additional_properties_is_true.yaml 0
gemini length pydantic_ai-1.24.0/tests/models/cassettes/test_google/test_google_model_max_tokens.yaml 0
gemini safety pydantic_ai-1.24.0/tests/models/cassettes/test_google/test_google_model_safety_settings.yaml 0
"""


def recorded(path, index):
    """The status, the body, and whether the body is what came or was written anew by whoever recorded it."""
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rb") as file:
        cassette = yaml.load(file.read(), Loader=yaml.CSafeLoader)
    if "interactions" in cassette:
        answer = cassette["interactions"][index]["response"]
    else:
        answer = cassette["responses"][index]
    status = answer.get("status_code") or answer["status"]["code"]
    if "parsed_body" in answer:
        return status, json.dumps(answer["parsed_body"]).encode(), "written anew as JSON"
    body = answer["body"]["string"] if "string" in answer["body"] else answer["body"]
    body = body.encode() if isinstance(body, str) else body
    if body[:2] == b"\x1f\x8b":
        body = gzip.decompress(body)
    return status, body, "as it came"


@contextlib.contextmanager
def answering(status, body, stream):
    """A server that answers everything so, and where it is."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.send_response(status)
            self.send_header("content-type", "text/event-stream" if stream else "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def chat(at, stream):
    client = openai.OpenAI(api_key="x", max_retries=0, base_url=at)
    asked = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    if stream:
        with client.chat.completions.stream(**asked) as events:
            whole = events.get_final_completion()
    else:
        whole = client.chat.completions.create(**asked)
    choice, usage = whole.choices[0], whole.usage
    # Azure leaves it out where it filters.
    message = choice.message or openai.types.chat.ChatCompletionMessage(role="assistant")
    stops = {"stop": "end", "tool_calls": "tool", "length": "length", "content_filter": "refusal"}
    details = usage.prompt_tokens_details if usage else None
    return {
        "model": whole.model,
        "text": (message.content or "") + (message.refusal or ""),
        "calls": [
            {"id": call.id, "name": call.function.name, "input": json.loads(call.function.arguments)}
            for call in message.tool_calls or []
        ],
        "stop": "refusal" if message.refusal else stops[choice.finish_reason],
        "usage": {
            "input_tokens": usage.prompt_tokens if usage else 0,
            "cached_tokens": (details.cached_tokens or 0) if details else 0,
            "output_tokens": usage.completion_tokens if usage else 0,
        },
    }


def responses(at, stream):
    client = openai.OpenAI(api_key="x", max_retries=0, base_url=at)
    if stream:
        with client.responses.stream(model="m", input="x") as events:
            whole = events.get_final_response()
    else:
        whole = client.responses.create(model="m", input="x")
    calls = [item for item in whole.output if item.type == "function_call"]
    stop = "length" if whole.status == "incomplete" else "tool" if calls else "end"
    return {
        "model": whole.model,
        "text": whole.output_text,
        "calls": [{"id": call.call_id, "name": call.name, "input": json.loads(call.arguments)} for call in calls],
        "stop": stop,
        "usage": {
            "input_tokens": whole.usage.input_tokens,
            "cached_tokens": whole.usage.input_tokens_details.cached_tokens,
            "output_tokens": whole.usage.output_tokens,
        },
        # What goes back and only they can read.
        "state": [item.encrypted_content for item in whole.output if getattr(item, "encrypted_content", None)],
    }


def messages(at, stream):
    client = anthropic.Anthropic(api_key="x", max_retries=0, base_url=at)
    asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}
    if stream:
        with client.messages.stream(**asked) as events:
            whole = events.get_final_message()
    else:
        whole = client.messages.create(**asked)
    usage = whole.usage
    cached, put = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    stops = {"end_turn": "end", "stop_sequence": "end", "tool_use": "tool", "max_tokens": "length", "refusal": "refusal"}
    return {
        "model": whole.model,
        "text": "".join(block.text for block in whole.content if block.type == "text"),
        "calls": [
            {"id": block.id, "name": block.name, "input": block.input}
            for block in whole.content
            if block.type == "tool_use"
        ],
        "stop": stops[whole.stop_reason],
        "usage": {
            "input_tokens": usage.input_tokens + cached + put,
            "cached_tokens": cached,
            "output_tokens": usage.output_tokens,
        },
        "state": [
            getattr(block, "signature", None) or getattr(block, "data", None)
            for block in whole.content
            if block.type in ("thinking", "redacted_thinking")
        ],
    }


def contents(at, stream):
    options = genai.types.HttpOptions(base_url=at)
    client = genai.Client(api_key="x", http_options=options)
    asked = {"model": "m", "contents": "x"}
    chunks = list(client.models.generate_content_stream(**asked)) if stream else [client.models.generate_content(**asked)]
    parts = []
    for chunk in chunks:
        for candidate in (chunk.candidates or [])[:1]:
            parts += (candidate.content.parts if candidate.content else None) or []
    usage = next(chunk.usage_metadata for chunk in reversed(chunks) if chunk.usage_metadata)
    finish = next(
        candidate.finish_reason.value
        for chunk in reversed(chunks)
        for candidate in chunk.candidates or []
        if candidate.finish_reason
    )
    calls = [part.function_call for part in parts if part.function_call]
    stops = {"STOP": "tool" if calls else "end", "MAX_TOKENS": "length", "SAFETY": "refusal"}
    return {
        "model": chunks[-1].model_version,
        "text": "".join(part.text for part in parts if part.text and not part.thought),
        "calls": [{"id": call.id, "name": call.name, "input": call.args or {}} for call in calls],
        "stop": stops[finish],
        "usage": {
            "input_tokens": (usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0),
            "cached_tokens": usage.cached_content_token_count or 0,
            "output_tokens": (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0),
        },
        "state": [base64.b64encode(part.thought_signature).decode() for part in parts if part.thought_signature],
    }


CLIENTS = {"openai_chat": chat, "openai_responses": responses, "anthropic": messages, "gemini": contents}


def main(folder):
    here = pathlib.Path(__file__).parent
    for old in glob.glob(str(here / "*.body")) + glob.glob(str(here / "*.json")):
        pathlib.Path(old).unlink()
    for line in PICKS.strip().splitlines():
        kind, name, path, index = line.split()
        status, body, form = recorded(f"{folder}/{path}", int(index))
        stream = name.startswith("stream")
        try:
            with answering(status, body, stream) as at:
                expected = {"turn": CLIENTS[kind](at, stream)}
        except Exception as error:  # whatever the client raises is what it makes of it
            expected = {"error": type(error).__name__}
        about = {"kind": kind, "stream": stream, "status": status, "source": path, "form": form, **expected}
        (here / f"{kind}-{name}.body").write_bytes(body)
        (here / f"{kind}-{name}.json").write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n")
        print(f"{kind}-{name}", len(body), json.dumps(expected)[:150])


main(sys.argv[1])
