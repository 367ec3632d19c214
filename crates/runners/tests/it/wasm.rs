//! The kind `wasm`: installed components by their digest, and what they may ask of the host.

use std::path::PathBuf;
use std::sync::OnceLock;

use serde_json::{Value, json};
use toolgate_contracts::{Definition, Digest, ErrorCode, FaultKind, Plugin, TenantId};
use toolgate_engine::runner::OutputSink;
use toolgate_engine::{Outcome, Runner as _, testing};
use toolgate_runners::Plugins;
use toolgate_sandbox::{Wasm, WasmSettings};
use toolgate_store::Change;
use toolgate_vault::Secret;

use crate::world::{Server, World, done, echo_of, every_world, failed, operator};

fn built(name: &str) -> Vec<u8> {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/plugins/build").join(format!("{name}.wasm"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; build it with `scripts/plugins`", path.display()))
}

/// One machine for all stores, and what one test compiled the next takes: each plug-in is compiled once.
fn machine() -> Wasm {
    static WASM: OnceLock<Wasm> = OnceLock::new();
    let cache = Some(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("plugins"));
    WASM.get_or_init(|| Wasm::new(WasmSettings { cache, ..WasmSettings::default() }).unwrap()).clone()
}

struct Tried<'a> {
    world: &'a World,
    plugins: Plugins,
}

impl<'a> Tried<'a> {
    fn new(world: &'a World) -> Self {
        Self::on(machine(), world)
    }

    fn on(wasm: Wasm, world: &'a World) -> Self {
        let plugins = Plugins::new(wasm, world.registry.store().clone(), world.outside.clone());
        Self { world, plugins }
    }

    async fn install(&self, name: &str) -> Plugin {
        let component = built(name);
        let read = self.plugins.read_plugin(component.clone()).await.unwrap();
        self.world.registry.install_plugin(&operator(), None, read, component).await.unwrap().0
    }

    async fn run(&self, plugin: &Plugin, hosts: Value, input: Value) -> Outcome {
        self.plugins.run(testing::permit(self.world.call(&runner(plugin, hosts), input))).await
    }
}

fn runner(plugin: &Plugin, hosts: Value) -> Value {
    json!({"kind": "wasm", "plugin": plugin.name, "digest": plugin.digest, "hosts": hosts})
}

#[tokio::test]
async fn a_plug_in_runs_and_what_it_logs_is_shown() {
    every_world(async |world| {
        let tried = Tried::new(&world);
        let plugin = tried.install("analyzeText").await;
        let mut call = world.call(&runner(&plugin, json!([])), json!({"text": "Good morning. It is late!"}));
        call.output = OutputSink::buffered();
        tried.plugins.ready(&call.tool.definition).await.unwrap();
        let output = call.output.clone();
        let result = done(tried.plugins.run(testing::permit(call)).await).result;
        let expected = json!({"words": 5, "sentences": 2, "longest_word": "morning", "minutes": 0.1});
        assert_eq!(result.structured.unwrap(), expected);
        assert_eq!(testing::written(&output), "measuring 5 words\n");

        let error = failed(tried.run(&plugin, json!([]), json!({"text": " … "})).await);
        assert_eq!((error.code, error.reason()), (ErrorCode::ValidationError, "schema"));
        assert_eq!(error.details.unwrap()["pointer"], "/text");
    })
    .await;
}

#[tokio::test]
async fn a_trap_is_told_with_what_was_printed() {
    every_world(async |world| {
        let tried = Tried::new(&world);
        let probe = tried.install("probe").await;
        let error = failed(tried.run(&probe, json!([]), json!({"act": "trap"})).await);
        assert_eq!((error.code, error.reason()), (ErrorCode::SandboxError, "exception"));
        assert!(error.details.unwrap()["printed"].as_str().unwrap().contains("broken on purpose"));
        let error = failed(tried.run(&probe, json!([]), json!({"act": "not_json"})).await);
        assert_eq!((error.code, error.reason()), (ErrorCode::SandboxError, "output"));
        let error = failed(tried.run(&probe, json!([]), json!({"act": "memory"})).await);
        assert_eq!((error.code, error.reason()), (ErrorCode::SandboxError, "memory"));
    })
    .await;
}

#[tokio::test]
async fn a_plug_in_fetches_from_the_hosts_of_its_definition_and_from_no_other() {
    every_world(async |world| {
        let server = Server::start(echo_of).await;
        world.open_port(server.address.port()).await;
        let tried = Tried::new(&world);
        let probe = tried.install("probe").await;
        let input = |act: &str, method: &str| json!({"act": act, "inner": "fetch", "method": method, "url": server.url("/a"), "body": "Grüße"});
        let posts = json!([{"host": "127.0.0.1", "methods": ["POST"]}]);
        let output = done(tried.run(&probe, posts.clone(), input("fetch", "POST")).await).result.structured.unwrap();
        let echoed: Value = serde_json::from_str(output["text"].as_str().unwrap()).unwrap();
        assert_eq!((&echoed["method"], &echoed["body"]), (&json!("POST"), &json!("Grüße")));

        let sent = server.requests().len();
        let gets = json!([{"host": "127.0.0.1", "methods": ["GET"]}]);
        for (hosts, word) in [(gets, "127.0.0.1"), (json!([{"host": "b.test", "methods": ["POST"]}]), "127.0.0.1"), (json!([]), "no hosts")] {
            let output = done(tried.run(&probe, hosts, input("caught", "POST")).await).result.structured.unwrap();
            assert!(output["caught"].as_str().unwrap().contains(word), "{output}");
        }
        // A machine's own addresses, and whatever is no request.
        for (url, method) in [("http://169.254.169.254/", "GET"), ("file:///etc/passwd", "GET"), ("nonsense", "GET"), ("https://a.test/", "TRACE IT")] {
            let all = json!([{"host": "169.254.169.254", "methods": ["GET"]}, {"host": "a.test", "methods": ["GET"]}]);
            let input = json!({"act": "caught", "inner": "fetch", "method": method, "url": url});
            let output = done(tried.run(&probe, all, input).await).result.structured.unwrap();
            assert!(output["caught"].is_string(), "{url}: {output}");
        }
        assert_eq!(server.requests().len(), sent, "nothing went out");
    })
    .await;
}

#[tokio::test]
async fn a_plug_in_reads_the_secrets_of_its_tool_by_name() {
    every_world(async |world| {
        let tried = Tried::new(&world);
        let probe = tried.install("probe").await;
        let run = async |input: Value, hosts: Value| {
            let declares = |definition: &mut Definition| {
                definition.secrets = serde_json::from_value(json!([{"name": "TOKEN"}])).unwrap();
            };
            let call = world.call_of(&runner(&probe, hosts), input, declares);
            let permit = testing::permit_with(call, vec![Secret::new("TOKEN", b"value".to_vec())]);
            done(tried.plugins.run(permit).await).result.structured.unwrap()
        };
        assert_eq!(run(json!({"act": "secret", "name": "TOKEN"}), json!([])).await, json!("value"));
        let refused = run(json!({"act": "caught", "inner": "secret", "name": "OTHER"}), json!([])).await;
        assert!(refused["caught"].as_str().unwrap().contains("no secret `OTHER`"), "{refused}");
    })
    .await;
}

#[tokio::test]
async fn a_plug_in_that_was_swapped_does_not_run() {
    every_world(async |world| {
        // A machine that has not seen it, as after a start.
        let tried = Tried::on(Wasm::new(WasmSettings::default()).unwrap(), &world);
        let component = built("analyzeText");
        let read = Tried::new(&world).plugins.read_plugin(component.clone()).await.unwrap();
        let (plugin, _) = world.registry.install_plugin(&operator(), None, read, component).await.unwrap();
        let mut change = Change::new(TenantId::SYSTEM);
        change.then(
            "UPDATE plugins SET component = $3 WHERE tenant_id = $1 AND digest = $2",
            [plugin.digest.into(), built("probe").into()],
        );
        world.registry.store().commit(change).await.unwrap();
        let error = failed(tried.run(&plugin, json!([]), json!({"text": "a"})).await);
        assert!(error.message.contains("not what was installed; nothing ran"), "{}", error.message);

        let other = Plugin { digest: Digest::of(b"never installed"), ..plugin.clone() };
        let error = failed(tried.run(&other, json!([]), json!({"text": "a"})).await);
        assert!(error.message.contains("not installed any more"), "{}", error.message);
        let unpinned = json!({"kind": "wasm", "plugin": plugin.name});
        let error = failed(tried.plugins.run(testing::permit(world.call(&unpinned, json!({"text": "a"})))).await);
        assert!(error.message.contains("names no version"), "{}", error.message);
    })
    .await;
}

#[tokio::test]
async fn a_detector_is_a_tool_that_examines() {
    every_world(async |world| {
        let tried = Tried::new(&world);
        let detector = tried.install("findCardNumbers").await;
        let examined =
            json!({"stage": "TOOL_CALL", "tool": "send", "value": {"to": "4111 1111 1111 1111"}, "config": {}});
        let found = done(tried.run(&detector, json!([]), examined).await).result.structured.unwrap();
        assert_eq!(found, json!({"matched": true, "reason": "a card number in the arguments", "paths": ["/to"]}));
        for (input, pointer) in
            [(json!({"stage": "TOOL_CALL"}), "/value"), (json!({"value": 1, "stage": "x"}), "/stage")]
        {
            let error = failed(tried.run(&detector, json!([]), input).await);
            assert_eq!((error.code, &error.details.unwrap()["pointer"]), (ErrorCode::ValidationError, &json!(pointer)));
        }
    })
    .await;
}

#[tokio::test]
async fn a_component_that_is_none_is_refused_when_it_is_read() {
    every_world(async |world| {
        let tried = Tried::new(&world);
        let fault = tried.plugins.read_plugin(b"nothing".to_vec()).await.unwrap_err();
        assert_eq!(fault.kind(), FaultKind::Invalid);
        assert!(fault.remedy().contains("docs/plugins.md"), "{}", fault.remedy());
    })
    .await;
}
