//! Plug-ins: what they are given, what each limit does, and what a component that is none comes to.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use toolgate_contracts::plugin::{PluginWorld, ReadPlugin};
use toolgate_contracts::{CallId, Digest, ErrorCode, TenantId, ToolError};
use toolgate_sandbox::{
    Act, Examined, HostCall, HostCalls, Limits, Network, PluginRequest, Prepared, SandboxError, SandboxResult, Wasm,
    WasmSettings,
};

use crate::world::told;

const CALL: &str = "01900000-0000-7000-8000-000000000001";

/// A built plug-in of the examples or of these tests.
pub fn built(name: &str) -> Vec<u8> {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/plugins/build").join(format!("{name}.wasm"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; build it with `scripts/plugins`", path.display()))
}

/// What one test compiled, the next takes. That it is compiled at all is for the tests that take the default.
fn kept() -> WasmSettings {
    WasmSettings { cache: Some(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("plugins")), ..WasmSettings::default() }
}

struct World {
    wasm: Wasm,
    probe: Prepared,
}

impl World {
    async fn new() -> Self {
        let wasm = Wasm::new(kept()).unwrap();
        let probe = wasm.prepare(built("probe")).await.unwrap();
        Self { wasm, probe }
    }

    async fn run(&self, input: Value) -> SandboxResult {
        self.run_with(input, limits(), Network::Denied).await
    }

    async fn run_with(&self, input: Value, limits: Limits, network: Network) -> SandboxResult {
        let request = PluginRequest { act: act(&input), limits, network, log: None };
        self.wasm.run(&self.probe, request).await.unwrap()
    }

    #[track_caller]
    fn fails(result: SandboxResult, limits: &Limits, code: ErrorCode, reason: &str, word: &str) {
        let error = result.outcome(limits).unwrap_err();
        assert_eq!((error.code, error.reason()), (code, reason), "{error:?}");
        assert!(error.message.contains(word), "{error:?}");
    }
}

fn act(input: &Value) -> Act {
    Act::Run { input: input.to_string(), call: CALL.parse::<CallId>().unwrap(), tenant: TenantId::SYSTEM }
}

fn limits() -> Limits {
    Limits { cpu: Duration::from_secs(20), wall: Duration::from_mins(1), memory_bytes: 64 << 20, ..Limits::default() }
}

/// Answers what it is told to, and remembers what it was asked.
struct Host {
    asked: Mutex<Vec<HostCall>>,
    answer: Result<Value, String>,
}

impl HostCalls for Host {
    fn call(&self, call: HostCall) -> BoxFuture<'_, Result<Value, String>> {
        self.asked.lock().unwrap().push(call);
        Box::pin(std::future::ready(self.answer.clone()))
    }
}

fn host(answer: Result<Value, String>) -> (Arc<Host>, Network) {
    let host = Arc::new(Host { asked: Mutex::default(), answer });
    (Arc::clone(&host), Network::Through(host))
}

#[tokio::test]
async fn a_plug_in_says_what_it_is() {
    let wasm = Wasm::new(WasmSettings::default()).unwrap();
    let describe = async |name: &str| -> ReadPlugin {
        let prepared = wasm.prepare(built(name)).await.unwrap();
        wasm.describe(&prepared).await.unwrap()
    };
    let ReadPlugin { world, description } = describe("analyzeText").await;
    assert_eq!((world, description.name.as_str(), description.version.major), (PluginWorld::Tool, "analyzeText", 1));
    assert_eq!(description.input_schema["required"], json!(["text"]));
    let ReadPlugin { world, description } = describe("findCardNumbers").await;
    assert_eq!((world, description.output_schema), (PluginWorld::Detector, None));
    let ReadPlugin { description, .. } = describe("probe").await;
    assert_eq!(serde_json::to_value(&description.hosts).unwrap(), json!([{"host": "api.test", "methods": ["GET"]}]));
    assert_eq!((description.secrets[0].name.as_str(), description.secrets[0].required), ("probe_key", true));
}

#[tokio::test]
async fn a_plug_in_runs_with_its_input_and_its_context() {
    let world = World::new().await;
    let ended = world.run(json!({"act": "echo", "text": "Grüße 🌍"})).await.ended;
    assert_eq!(told(&ended), json!({"act": "echo", "text": "Grüße 🌍"}).to_string());
    let ended = world.run(json!({"act": "context"})).await.ended;
    assert_eq!(told(&ended), json!({"callId": CALL, "tenantId": TenantId::SYSTEM}).to_string());
}

#[tokio::test]
async fn nothing_of_a_call_is_there_in_the_next() {
    let world = World::new().await;
    for _ in 0..3 {
        assert_eq!(told(&world.run(json!({"act": "count"})).await.ended), "1");
    }
}

#[tokio::test]
async fn a_limit_ends_a_plug_in_and_is_named() {
    let world = World::new().await;
    let cases = [
        ("loop", Limits { cpu: Duration::from_millis(50), ..limits() }, ErrorCode::SandboxError, "cpu", "`cpu`"),
        ("nap", Limits { wall: Duration::from_millis(50), ..limits() }, ErrorCode::Timeout, "wall", "`wall`"),
        ("memory", limits(), ErrorCode::SandboxError, "memory", "`memory_bytes`"),
        ("chatter", limits(), ErrorCode::SandboxError, "output", "`output_bytes`"),
    ];
    for (act, limits, code, reason, word) in cases {
        let result = world.run_with(json!({"act": act}), limits, Network::Denied).await;
        World::fails(result, &limits, code, reason, word);
    }
    for bytes in [2 << 20, 20 << 20] {
        let result = world.run(json!({"act": "large", "bytes": bytes})).await;
        World::fails(result, &limits(), ErrorCode::SandboxError, "output", "output_bytes");
    }
    // A memory that it does not even get to start with.
    let limits = Limits { memory_bytes: 8 << 16, ..limits() };
    let result = world.run_with(json!({"act": "echo"}), limits, Network::Denied).await;
    World::fails(result, &limits, ErrorCode::SandboxError, "memory", "`memory_bytes`");
    // And whoever comes after is unharmed.
    assert_eq!(told(&world.run(json!({"act": "count"})).await.ended), "1");
}

#[tokio::test]
async fn what_goes_wrong_in_a_plug_in_is_told() {
    let world = World::new().await;
    let fails = async |input: Value, code, reason: &str, word: &str| {
        World::fails(world.run(input).await, &limits(), code, reason, word);
    };
    fails(json!({"act": "trap"}), ErrorCode::SandboxError, "exception", "without an answer").await;
    fails(json!({"act": "recursion"}), ErrorCode::SandboxError, "exception", "without an answer").await;
    fails(json!({"act": "not_json"}), ErrorCode::SandboxError, "output", "cannot be read").await;
    fails(json!({"act": "unheard_of"}), ErrorCode::SandboxError, "exception", "without an answer").await;
    let codes = [
        ("validation-error", ErrorCode::ValidationError, "schema"),
        ("timeout", ErrorCode::Timeout, "timeout"),
        ("rate-limit", ErrorCode::RateLimit, "upstream"),
        ("auth-required", ErrorCode::AuthRequired, "upstream"),
        ("provider-error", ErrorCode::ProviderError, "upstream_4xx"),
        ("network-error", ErrorCode::NetworkError, "connect"),
        ("exception", ErrorCode::SandboxError, "exception"),
    ];
    for (word, code, reason) in codes {
        fails(json!({"act": "fail", "code": word, "message": "as it says"}), code, reason, "as it says").await;
    }
    let told = json!({"act": "fail", "code": "rate-limit", "message": "later", "pointer": "/a", "retryAfterS": 7});
    let error: ToolError = world.run(told).await.outcome(&limits()).unwrap_err();
    assert_eq!((error.retry_after_s, &error.details.unwrap()["pointer"]), (Some(7), &json!("/a")));
}

#[tokio::test]
async fn what_a_plug_in_writes_is_kept_and_what_it_logs_is_shown_at_once() {
    let world = World::new().await;
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&lines);
    let log: toolgate_sandbox::OutputSink =
        Arc::new(move |_, bytes| kept.lock().unwrap().push(String::from_utf8(bytes.to_vec()).unwrap()));
    let input = json!({"act": "log", "text": "halfway"});
    let request = PluginRequest { act: act(&input), limits: limits(), network: Network::Denied, log: Some(log) };
    assert_eq!(told(&world.wasm.run(&world.probe, request).await.unwrap().ended), "\"logged\"");
    assert_eq!(*lines.lock().unwrap(), ["halfway\n"]);
    // What a language's runtime says of an exception that nobody caught goes to its standard error.
    let result = world.run(json!({"act": "trap"})).await;
    let printed = String::from_utf8(result.stderr).unwrap();
    assert!(printed.contains("broken on purpose") && printed.contains("tool.js"), "{printed}");
}

#[tokio::test]
async fn a_plug_in_asks_its_host_for_what_it_reaches() {
    let world = World::new().await;
    let answer = json!({"status": 201, "headers": {"x": "y"}, "text": "made"});
    let (host_, network) = host(Ok(answer));
    let input =
        json!({"act": "fetch", "method": "POST", "url": "https://api.test/a", "headers": {"a": "b"}, "body": "Grüße"});
    let result = world.run_with(input, limits(), network).await;
    assert_eq!(told(&result.ended), json!({"status": 201, "text": "made"}).to_string());
    let asked = host_.asked.lock().unwrap().clone();
    assert_eq!(asked[0].name, "fetch");
    let expected =
        json!({"method": "POST", "url": "https://api.test/a", "headers": {"a": "b"}, "base64": "R3LDvMOfZQ=="});
    assert_eq!(asked[0].argument, expected);

    let (_, network) = host(Ok(json!("s3cret")));
    let result = world.run_with(json!({"act": "secret", "name": "probe_key"}), limits(), network).await;
    assert_eq!(told(&result.ended), "\"s3cret\"");

    let (_, network) = host(Err("`other.test` is not granted".to_owned()));
    let input = json!({"act": "caught", "inner": "fetch", "method": "GET", "url": "https://other.test/"});
    let result = world.run_with(input, limits(), network).await;
    assert!(told(&result.ended).contains("`other.test` is not granted"), "{result:?}");

    let input = json!({"act": "caught", "inner": "secret", "name": "probe_key"});
    let result = world.run(input).await;
    assert!(told(&result.ended).contains("no hosts and no secrets"), "{result:?}");
}

#[tokio::test]
async fn a_detector_finds_what_it_looks_for() {
    let wasm = Wasm::new(kept()).unwrap();
    let detector = wasm.prepare(built("findCardNumbers")).await.unwrap();
    let examine = async |value: Value, of| {
        let act = Act::Examine { text: value.to_string(), of, settings: None };
        let request = PluginRequest { act, limits: limits(), network: Network::Denied, log: None };
        wasm.run(&detector, request).await.unwrap().outcome(&limits())
    };
    let found = examine(json!({"note": ["pay with 4111 1111 1111 1111"]}), Examined::Arguments).await.unwrap();
    assert_eq!(found, json!({"matched": true, "reason": "a card number in the arguments", "paths": ["/note/0"]}));
    let found = examine(json!("4111111111111111"), Examined::Outcome).await.unwrap();
    assert_eq!(found, json!({"matched": true, "reason": "a card number in the result", "paths": [""]}));
    let found = examine(json!({"note": "4111 1111 1111 1112"}), Examined::Arguments).await.unwrap();
    assert_eq!(found, json!({"matched": false}));
    // What is no detector examines nothing.
    let world = World::new().await;
    let act = Act::Examine { text: "1".to_owned(), of: Examined::Outcome, settings: None };
    let request = PluginRequest { act, limits: limits(), network: Network::Denied, log: None };
    World::fails(
        world.wasm.run(&world.probe, request).await.unwrap(),
        &limits(),
        ErrorCode::SandboxError,
        "exception",
        "no detector",
    );
}

/// A component in the text format; wasmtime reads only the binary one, so these are made by hand.
fn component(sections: &[u8]) -> Vec<u8> {
    [b"\0asm\x0d\0\x01\0".as_slice(), sections].concat()
}

#[tokio::test]
async fn a_component_that_is_none_is_refused_with_a_reason() {
    let wasm = Wasm::new(WasmSettings::default()).unwrap();
    let mut cut = built("probe");
    cut.truncate(cut.len() / 2);
    let mut bent = built("probe");
    let middle = bent.len() / 2;
    bent[middle..middle + 64].fill(0xff);
    let cases: [(Vec<u8>, &str); 6] = [
        (Vec::new(), "cannot be used: it is no WebAssembly component"),
        (b"not wasm at all".to_vec(), "cannot be used: it is no WebAssembly component"),
        (b"\0asm\x01\0\0\0".to_vec(), "cannot be used: it is a WebAssembly module"),
        (component(&[]), "neither `run` nor `examine`"),
        (cut, "cannot be used"),
        (bent, "cannot be used"),
    ];
    for (bytes, word) in cases {
        let error = wasm.prepare(bytes).await.map(drop).unwrap_err();
        assert!(matches!(error, SandboxError::Component { .. }) && error.to_string().contains(word), "{error}");
    }
    let huge = vec![0; toolgate_contracts::plugin::COMPONENT_BYTES_MAX + 1];
    let error = wasm.prepare(huge).await.map(drop).unwrap_err();
    assert!(matches!(error, SandboxError::TooLarge { .. }), "{error}");
}

#[tokio::test]
async fn whoever_stops_waiting_ends_what_runs() {
    let wasm = Wasm::new(WasmSettings { concurrent: 1, ..kept() }).unwrap();
    let probe = wasm.prepare(built("probe")).await.unwrap();
    let request =
        |input: Value| PluginRequest { act: act(&input), limits: limits(), network: Network::Denied, log: None };
    let endless = wasm.run(&probe, request(json!({"act": "loop"})));
    assert!(tokio::time::timeout(Duration::from_millis(50), endless).await.is_err());
    // There is one place: it is free again.
    assert_eq!(told(&wasm.run(&probe, request(json!({"act": "count"}))).await.unwrap().ended), "1");
}

#[tokio::test]
async fn compiled_code_is_kept_and_taken_only_as_it_was_written() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("plugins");
    let wasm = || Wasm::new(WasmSettings { cache: Some(cache.clone()), ..WasmSettings::default() }).unwrap();
    let digest = Digest::of(&built("probe"));
    assert!(wasm().prepared(digest).await.unwrap().is_none());
    wasm().prepare(built("probe")).await.unwrap();
    let file = std::fs::read_dir(&cache).unwrap().next().unwrap().unwrap().path();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&cache), mode(&file)), (0o700, 0o600));
    assert_eq!(wasm().prepared(digest).await.unwrap().unwrap().digest(), digest);
    // A folder that others may write to is not trusted.
    std::fs::set_permissions(&cache, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(wasm().prepared(digest).await.unwrap().is_none());
    std::fs::set_permissions(&cache, std::fs::Permissions::from_mode(0o700)).unwrap();
    // Nor is a file with another byte in it.
    let mut bytes = std::fs::read(&file).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    assert!(wasm().prepared(digest).await.unwrap().is_none());
    bytes.truncate(20);
    std::fs::write(&file, &bytes).unwrap();
    assert!(wasm().prepared(digest).await.unwrap().is_none());
    // It is compiled anew, and then it is there again.
    wasm().prepare(built("probe")).await.unwrap();
    let again = wasm();
    assert!(again.prepared(digest).await.unwrap().is_some());
    again.forget(digest).await;
    assert!(again.prepared(digest).await.unwrap().is_none());
}
