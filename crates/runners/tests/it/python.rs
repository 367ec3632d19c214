//! The kind `python` through the sandbox, and what its code may ask of the host.

use serde_json::{Value, json};
use toolgate_contracts::ErrorCode;
use toolgate_engine::{Outcome, Runner as _, testing};
use toolgate_runners::Snippets;
use toolgate_sandbox::{Sandbox, Settings, Spawner};
use toolgate_vault::Secret;

use crate::world::{Server, World, done, echo_of, every_world, failed};

struct Tried<'a> {
    world: &'a World,
    snippets: Snippets,
}

impl<'a> Tried<'a> {
    fn new(world: &'a World) -> Self {
        let sandbox = Sandbox::new(Spawner::new().unwrap(), Settings::default());
        Self { world, snippets: Snippets::new(sandbox, world.outside.clone()) }
    }

    async fn run(&self, code: &str, hosts: Value, input: Value) -> Outcome {
        let runner = json!({"kind": "python", "code": code, "hosts": hosts});
        self.snippets.run(testing::permit(self.world.call(&runner, input))).await
    }
}

#[tokio::test]
async fn code_gets_its_input_and_gives_json() {
    every_world(async |world| {
        let tried = Tried::new(&world);
        let code = "def main(input):\n    return {'sum': sum(input['numbers']), 'who': input['who'].upper()}";
        let output = done(tried.run(code, json!([]), json!({"numbers": [1, 2, 3], "who": "ä"})).await);
        assert_eq!(output.result.structured.unwrap(), json!({"sum": 6, "who": "Ä"}));

        let error = failed(tried.run("x = 1\nprint('seen')\nraise ValueError('no')", json!([]), json!({})).await);
        assert_eq!((error.code, error.reason()), (ErrorCode::SandboxError, "exception"));
        assert_eq!(error.message, "ValueError: no");
        let details = error.details.unwrap();
        assert_eq!((&details["line"], &details["printed"]), (&json!(3), &json!("seen\n")));
    })
    .await;
}

#[tokio::test]
async fn code_that_is_no_python_is_told_before_it_is_called() {
    every_world(async |world| {
        let tried = Tried::new(&world);
        let ready = async |code: &str| {
            let call = world.call(&json!({"kind": "python", "code": code}), json!({}));
            tried.snippets.ready(&call.tool.definition).await
        };
        // It is looked at and not run.
        for sound in
            ["result = 1", "def main(input):\n    return input", "raise ValueError(1)", "import no_such_module"]
        {
            ready(sound).await.unwrap();
            ready(sound).await.unwrap();
        }
        for (code, line, text) in [
            ("x = 1\nresult = (1,\n", 2, "result = (1,"),
            ("x = 1\n\nif x\n    pass", 3, "if x"),
            ("def main(input):\nreturn 1", 2, "return 1"),
            ("x = 1\nreturn x", 2, "return x"),
        ] {
            let error = ready(code).await.unwrap_err();
            assert_eq!((error.code, error.reason()), (ErrorCode::ValidationError, "schema"), "{code}");
            let start = format!("the tool's code is no Python: line {line}: ");
            assert!(error.message.starts_with(&start), "{}", error.message);
            let details = error.details.unwrap();
            assert_eq!((&details["line"], &details["pointer"]), (&json!(line), &json!("/runner/code")), "{code}");
            assert!(details["traceback"].as_str().unwrap().contains(text), "{code}: {}", details["traceback"]);
        }
    })
    .await;
}

#[tokio::test]
async fn code_that_is_brought_with_a_call_computes_and_reaches_nothing() {
    every_world(async |world| {
        let tried = Tried::new(&world);
        let call = world.call(&json!({"kind": "python", "code": "1"}), json!({}));
        let wall = std::time::Duration::from_secs(20);
        let compute = async |code: &str| tried.snippets.compute(&call, code, &json!({"n": [3, 1, 2]}), wall).await;
        let median = "import statistics\nprint('seen')\nresult = statistics.median(input['n'])";
        assert_eq!(compute(median).await.unwrap(), (json!(2), "seen\n".to_owned()));
        assert_eq!(compute("def main(input):\n    return len(input['n'])").await.unwrap().0, json!(3));
        for code in [
            "open('/etc/passwd').read()",
            "import socket\nsocket.create_connection(('127.0.0.1', 22), 2)",
            "import subprocess\nsubprocess.run(['id'])",
            "fetch('https://example.com/')",
            "host_call('secret', 'TOKEN')",
        ] {
            let error = compute(&format!("x = 1\n{code}")).await.unwrap_err();
            assert_eq!(error.code, ErrorCode::SandboxError, "{code}: {}", error.message);
            let line = error.details.unwrap()["line"].as_u64().unwrap();
            assert!((2..=3).contains(&line), "{code}: line {line}");
        }
        tried.snippets.enough_for(&call.tool.definition).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn code_fetches_from_the_hosts_of_its_definition_and_from_no_other() {
    every_world(async |world| {
        let server = Server::start(echo_of).await;
        world.open_port(server.address.port()).await;
        let tried = Tried::new(&world);
        let code = "import json\nresult = json.loads(fetch(input['url'], method=input['method'])['text'])['path']";
        let input = |method: &str| json!({"url": server.url("/a?b=1"), "method": method});
        let hosts = json!([{"host": "127.0.0.1", "methods": ["GET"]}]);
        let output = done(tried.run(code, hosts.clone(), input("GET")).await);
        assert_eq!(output.result.structured.unwrap(), json!("/a?b=1"));

        let sent = server.requests().len();
        for (hosts, method) in [(hosts, "POST"), (json!([{"host": "b.test", "methods": ["GET"]}]), "GET")] {
            let error = failed(tried.run(code, hosts, input(method)).await);
            assert!(error.message.starts_with("HostError: "), "{}", error.message);
        }
        // After a write nobody knows what an error undid.
        let posts = json!([{"host": "127.0.0.1", "methods": ["POST"]}]);
        let code_that_fails = "fetch(input['url'], method='POST')\nraise ValueError('late')";
        assert!(matches!(tried.run(code_that_fails, posts, input("POST")).await, Outcome::Unknown(_)));
        let sent = sent + 1;
        let error = failed(tried.run(code, json!([]), input("GET")).await);
        assert_eq!(error.reason(), "exception");
        assert_eq!(server.requests().len(), sent, "nothing went out");
    })
    .await;
}

#[tokio::test]
async fn code_reads_the_secrets_of_its_tool_by_name() {
    every_world(async |world| {
        let tried = Tried::new(&world);
        let runner = json!({"kind": "python", "code": "result = host_call('secret', input['name'])"});
        let run = async |name: &str| {
            let declares = |definition: &mut toolgate_contracts::Definition| {
                definition.secrets = serde_json::from_value(json!([{"name": "TOKEN"}])).unwrap();
            };
            let call = world.call_of(&runner, json!({"name": name}), declares);
            tried.snippets.run(testing::permit_with(call, vec![Secret::new("TOKEN", b"value".to_vec())])).await
        };
        assert_eq!(done(run("TOKEN").await).result.structured.unwrap(), json!("value"));
        assert!(failed(run("OTHER").await).message.contains("no secret `OTHER`"));

        // A secret that may go nowhere goes nowhere in the code's hands either.
        let code = "host_call('secret', 'TOKEN')\nfetch('https://a.test/')";
        let hosts = json!([{"host": "a.test", "methods": ["GET"]}]);
        let runner = json!({"kind": "python", "code": code, "hosts": hosts});
        let call = world.call(&runner, json!({}));
        let secrets = vec![Secret::new("TOKEN", b"value".to_vec())];
        let error = failed(tried.snippets.run(testing::permit_with(call, secrets)).await);
        assert!(error.message.contains("may not go to `a.test`"), "{}", error.message);
    })
    .await;
}
