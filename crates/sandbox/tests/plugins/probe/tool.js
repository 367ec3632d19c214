// What a plug-in can do wrong, and everything that it can ask for. `act` says which.

import { fetch, secret, log } from "toolgate:plugin/host@1.0.0";

let calls = 0;

export function describe() {
  return {
    name: "probe",
    version: "1.0.0",
    title: "Probe",
    description: "Does what it is told to do wrong.",
    inputSchema: JSON.stringify({ type: "object", properties: { act: { type: "string" } }, required: ["act"] }),
    outputSchema: undefined,
    hosts: [{ host: "api.test", methods: ["GET"] }],
    secrets: [{ name: "probe_key", required: true, purpose: "to be read" }],
  };
}

// This engine has neither TextEncoder nor console.
const bytes = (text) => Uint8Array.from(unescape(encodeURIComponent(text)), (letter) => letter.charCodeAt(0));

const failure = (code, message, more) => ({ code, message, pointer: undefined, retryAfterS: undefined, ...more });

const acts = {
  echo: (input) => input,
  count: () => ++calls,
  context: (_, context) => context,
  loop: () => {
    for (;;);
  },
  nap: () => {
    const until = Date.now() + 600000;
    while (Date.now() < until);
  },
  memory: () => {
    const kept = [];
    for (;;) kept.push(new Uint8Array(1 << 20).fill(1));
  },
  recursion: () => {
    const deeper = (n) => deeper(n + 1) + 1;
    return deeper(0);
  },
  large: ({ bytes }) => "x".repeat(bytes),
  chatter: () => {
    for (;;) log("x".repeat(1000));
  },
  log: ({ text }) => {
    log(text);
    return "logged";
  },
  trap: () => {
    throw new Error("broken on purpose");
  },
  fail: ({ code, message, pointer, retryAfterS }) => {
    throw failure(code, message, { pointer, retryAfterS });
  },
  secret: ({ name }) => secret(name),
  random: () => [Math.random(), Math.random()],
  now: () => Date.now(),
  globals: () => Object.getOwnPropertyNames(globalThis).sort(),
  fetch: ({ method, url, headers, body }) => {
    const response = fetch({
      method,
      url,
      headers: Object.entries(headers ?? {}),
      body: body === undefined ? undefined : bytes(body),
    });
    return { status: response.status, text: decodeURIComponent(escape(String.fromCharCode(...response.body))) };
  },
  caught: (input) => {
    try {
      return acts[input.inner](input);
    } catch (error) {
      return { caught: String(error?.payload ?? error?.message ?? error) };
    }
  },
  not_json: () => undefined,
};

export function run(input, context) {
  const asked = JSON.parse(input);
  if (asked.act === "not_json") return '{"half":';
  return JSON.stringify(acts[asked.act](asked, context));
}
