//! What comes in from outside and means harm: by an argument, by an address, by the answer of a server. Each line ends in
//! the taxonomy, with nothing sent that should not be and nothing left running, and the runner goes on as before.
//!
//! One suite by name: what is tried here goes through the kinds `http`, `openapi` and `python`; what has its own scene
//! stands where that is, and [`LINES`] says where, so that no line can vanish unnoticed.

use std::io::Write as _;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use toolgate_contracts::ErrorCode::{self, NetworkError, PolicyDenied, Timeout, ValidationError};
use toolgate_contracts::ToolError;
use toolgate_engine::runner::OutputSink;
use toolgate_engine::{Outcome, Outside, Runner as _, testing};
use toolgate_runners::{Compositions, Expressions, Requests, Snippets};
use toolgate_sandbox::{Sandbox, Settings, Spawner};
use toolgate_vault::{Redactor, Secret};

use crate::world::{Server, World, answer, done, echo_of, every_world, failed, json_answer};

/// Each line of bad input, each of `security.md` §11 that concerns runners, and the test that tries it.
const LINES: [(&str, &str, &str); 49] = [
    ("path traversal in an address", "runners/tests/it/bad_input.rs", "no_encoding_of_a_path_leaves_its_place"),
    ("path traversal in a working folder", "runners/tests/it/script.rs", "no_working_folder_leads_out_of_the_entry_s"),
    (
        "path traversal in files",
        "toolbox/tests/it/file_tools.rs",
        "no_path_and_no_link_leads_out_of_the_tenant_s_folder",
    ),
    ("path traversal while writing", "toolbox/tests/it/files.rs", "no_path_leads_out_of_the_tenant_s_folder"),
    ("SSRF by spelling", "runners/tests/it/bad_input.rs", "no_spelling_of_a_local_address_reaches_a_local_listener"),
    ("SSRF by redirect", "runners/tests/it/bad_input.rs", "no_redirect_leads_to_a_local_listener"),
    ("SSRF by rebinding", "runners/tests/it/bad_input.rs", "a_name_that_changes_where_it_leads_is_checked_each_time"),
    ("SSRF by code", "runners/tests/it/bad_input.rs", "code_fetches_from_no_local_listener"),
    ("SSRF by an argument", "toolbox/tests/it/requests.rs", "no_spelling_of_a_local_address_passes_this_door"),
    ("header injection", "runners/tests/it/bad_input.rs", "no_argument_adds_a_header_or_a_parameter"),
    ("header injection by headers", "toolbox/tests/it/requests.rs", "arguments_stay_in_their_place"),
    ("header injection in a mail", "toolbox/tests/it/mail.rs", "nothing_in_a_mail_becomes_a_header_of_its_own"),
    ("SQL in parameters", "runners/tests/it/sql/confined.rs", "sql_in_parameters_is_a_value"),
    ("template injection", "runners/tests/it/bad_input.rs", "what_looks_like_a_template_is_a_value"),
    ("gzip bombs", "runners/tests/it/bad_input.rs", "an_answer_that_inflates_without_end_is_left"),
    ("slow upstreams", "runners/tests/it/bad_input.rs", "an_upstream_that_is_silent_or_drips_ends_with_the_call"),
    ("endless redirects", "runners/tests/it/bad_input.rs", "redirects_without_end_end"),
    ("output that is not UTF-8, from a server", "runners/tests/it/bad_input.rs", "bytes_that_are_no_text_are_no_text"),
    ("from a script", "runners/tests/it/script.rs", "a_script_that_ends_by_itself_has_an_exit_code_and_its_output"),
    ("from a database", "runners/tests/it/sql/values.rs", "text_that_is_not_utf_8_is_told"),
    ("processes that stay", "runners/tests/it/script.rs", "processes_that_ignore_termination_are_gone_all_the_same"),
    ("output without end", "runners/tests/it/script.rs", "endless_output_is_stopped_at_its_limit"),
    ("arguments", "runners/tests/it/script.rs", "arguments_outside_the_entry_s_patterns_start_nothing"),
    ("a shell's signs", "runners/tests/it/script.rs", "arguments_are_a_vector_and_no_shell_reads_them"),
    (
        "COPY … TO PROGRAM",
        "runners/tests/it/sql/confined.rs",
        "copy_to_program_attach_and_the_like_are_refused_before_they_are_sent",
    ),
    ("ATTACH", "runners/tests/it/sql/confined.rs", "the_authorizer_sees_what_the_words_of_a_statement_hide"),
    (
        "stacked statements",
        "runners/tests/it/sql/confined.rs",
        "stacked_statements_are_refused_behind_comments_and_dollar_quotes_too",
    ),
    ("§11, 19", "server/tests/it/compositions.rs", "a_composition_lends_nobody_a_tool_that_they_may_not_call"),
    ("§11, 20", "engine/tests/it/work.rs", "a_recorded_call_is_completed_once_by_whoever_submitted_it"),
    ("§11, 27", "egress/tests/it/spellings.rs", "no_spelling_of_a_local_address_reaches_a_local_listener"),
    ("§11, 28", "egress/tests/it/rebinding.rs", "the_address_that_was_checked_is_the_one_that_is_connected_to"),
    ("§11, 29", "egress/tests/it/redirects.rs", "secret_headers_stay_with_their_origin"),
    (
        "§11, 29, in an address",
        "runners/tests/it/http.rs",
        "a_key_in_the_query_goes_to_every_page_and_along_no_redirect",
    ),
    ("§11, 30", "egress/tests/it/bypass.rs", "no_variable_of_the_environment_changes_where_a_request_goes"),
    ("§11, 31", "egress/tests/it/limits.rs", "headers_that_do_not_end_end_at_the_limit"),
    ("§11, 32", "egress/tests/it/templates.rs", "whatever_the_values_the_request_goes_where_the_template_says"),
    ("§11, 33", "engine/tests/it/secrets.rs", "test_33_no_value_leaves_by_any_sink_in_any_encoding"),
    ("§11, 33, in a stream", "vault/tests/it/streams.rs", "every_split_of_every_encoding_is_the_same"),
    ("§11, 34", "engine/tests/it/secrets.rs", "test_34_what_is_cut_leaves_no_beginning_of_a_value"),
    ("§11, 34, of a server", "runners/tests/it/bad_input.rs", "no_answer_that_is_cut_leaves_a_part_of_a_secret"),
    ("§11, 34, of code", "runners/tests/it/bad_input.rs", "nothing_that_code_says_leaves_a_part_of_a_secret"),
    ("§11, 34, of a service", "toolbox/tests/it/lookups.rs", "no_text_that_is_cut_leaves_a_part_of_a_key"),
    ("§11, 35", "runners/tests/it/http.rs", "a_secret_goes_where_its_owner_lets_it_and_is_named_in_a_plan"),
    ("§11, 35, by code", "runners/tests/it/python.rs", "code_reads_the_secrets_of_its_tool_by_name"),
    ("§11, 43", "runners/tests/it/wasm.rs", "a_plug_in_that_was_swapped_does_not_run"),
    ("§11, 50", "egress/tests/it/pool.rs", "a_kept_connection_does_not_outlive_its_opening"),
    ("§11, 54", "runners/tests/it/http.rs", "a_connection_that_breaks_leaves_a_write_unknown_and_a_read_failed"),
    ("§11, 55", "runners/tests/it/sql/bounds.rs", "a_change_that_is_cancelled_leaves_nothing"),
    ("§11, 60", "server/tests/it/imports.rs", "a_document_is_fetched_by_the_one_way_out"),
];

#[test]
fn every_line_has_its_test() {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (line, file, test) in LINES {
        let text = std::fs::read_to_string(crates.join(file)).unwrap_or_else(|error| panic!("{line}: {file}: {error}"));
        assert!(text.contains(&format!("fn {test}(")), "{line}: there is no `{test}` in {file}");
    }
}

/// What reaches a server by a declared request: of the kind `http`, and of `openapi`.
fn doors(url: &str, path: &str, extra: &Value) -> [Value; 2] {
    let mut http = json!({"kind": "http", "method": "GET", "url": format!("{url}{path}")});
    let mut openapi = json!({
        "kind": "openapi", "document": "test", "operation": "op", "method": "GET", "server": url, "path": path,
    });
    for runner in [&mut http, &mut openapi] {
        let extra = extra[runner["kind"].as_str().unwrap()].as_object().cloned();
        runner.as_object_mut().unwrap().extend(extra.unwrap_or_default());
    }
    [http, openapi]
}

async fn run(outside: &Outside, world: &World, runner: &Value, input: Value) -> Outcome {
    let mut call = world.call(runner, input);
    call.timeout = Duration::from_secs(20);
    Requests::new(outside.clone()).run(testing::permit(call)).await
}

async fn asked(world: &World, runner: &Value, input: Value) -> Outcome {
    run(&world.outside, world, runner, input).await
}

/// No two parts of it are alike.
const SECRET: &str = "k9-Zr4Qx7-Vb2Lm8-Wt5Hn3-Yp6Jd1-Gf0Sc";

fn secret() -> Vec<Secret> {
    vec![Secret::new("TOKEN", SECRET.as_bytes().to_vec())]
}

/// That no part of the secret is left, wherever it was cut.
#[track_caller]
fn assert_clean(what: &str, text: &str) {
    let part = (0..=SECRET.len() - 6).map(|at| &SECRET[at..at + 6]).find(|part| text.contains(part));
    assert_eq!(part, None, "{what}");
}

/// What the gate tells of an error.
#[track_caller]
fn assert_told_clean(what: &str, error: ToolError) {
    let told = testing::told(error, secret());
    assert_clean(what, &serde_json::to_string(&told).unwrap());
}

async fn opened(world: &World, reply: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Server {
    let server = Server::start(reply).await;
    world.open_port(server.address.port()).await;
    server
}

/// After whatever was tried, an ordinary request is answered.
async fn is_unharmed(world: &World) {
    let server = opened(world, echo_of).await;
    for runner in doors(&server.url(""), "/well", &Value::Null) {
        assert_eq!(done(asked(world, &runner, json!({})).await).result.structured.unwrap()["path"], "/well");
    }
}

#[track_caller]
fn assert_told(error: &ToolError, code: ErrorCode, reason: &str, what: &str) {
    assert_eq!((error.code, error.reason()), (code, reason), "{what}: {}", error.message);
}

#[tokio::test]
async fn no_encoding_of_a_path_leaves_its_place() {
    every_world(async |world| {
        let server = opened(&world, echo_of).await;
        let extra = json!({"openapi": {"parameters": [{"name": "id", "in": "path"}]}});
        for value in [
            "..",
            ".",
            "",
            "../secret",
            "a/../../secret",
            "/etc/passwd",
            "//evil.test/x",
            "\\..\\..",
            "..\\secret",
            "%2e%2e",
            "%2E%2E%2Fsecret",
            ".%2e",
            "..%2fsecret",
            "..%5csecret",
            "%252e%252e%252fsecret",
            "%c0%ae%c0%ae%c0%afsecret",
            "%uff0e%uff0e",
            "..;/secret",
            "．．",
            "．．／secret",
            "\u{2025}",
            "..\u{0}",
            ".\t.",
            ".\n.",
            " .. ",
            "..?q=1",
            "..#x",
            "@evil.test",
            ":1/x",
        ] {
            for runner in doors(&server.url(""), "/users/{id}/notes", &extra) {
                let before = server.requests().len();
                match asked(&world, &runner, json!({"id": value})).await {
                    Outcome::Failed(error) => {
                        assert_told(&error, ValidationError, "schema", value);
                        assert_eq!(server.requests().len(), before, "{value:?} was sent");
                    }
                    outcome => {
                        let path = done(outcome).result.structured.unwrap()["path"].as_str().unwrap().to_owned();
                        let parts: Vec<&str> = path.split(['/', '\\', '?', '#']).collect();
                        let ["", "users", place, "notes"] = parts.as_slice() else { panic!("{value:?}: {path}") };
                        assert_eq!(percent_decode_str(place).decode_utf8().unwrap(), value, "{path}");
                        assert!(!["", ".", ".."].contains(&value), "{value:?} is no place of its own: {path}");
                    }
                }
            }
        }
        is_unharmed(&world).await;
    })
    .await;
}

/// The spellings of `security.md` §12 and their kin; `PORT` is the listener's.
const SPELLINGS: [&str; 27] = [
    "http://127.0.0.1:PORT",
    "http://127.0.0.1.:PORT",
    "http://127.1:PORT",
    "http://2130706433:PORT",
    "http://0x7f000001:PORT",
    "http://0177.0.0.1:PORT",
    "http://0x7f.1:PORT",
    "http://①②⑦.⓪.⓪.①:PORT",
    "http://127。0。0。1:PORT",
    "http://%31%32%37.0.0.1:PORT",
    "http:\\\\127.0.0.1:PORT",
    "http://x&@127.0.0.1:PORT",
    "http://example.com@127.0.0.1:PORT",
    "http://0:PORT",
    "http://0.0.0.0:PORT",
    "http://[::]:PORT",
    "http://[::1]:PORT",
    "http://[::ffff:127.0.0.1]:PORT",
    "http://[::ffff:7f00:1]:PORT",
    "http://[64:ff9b::7f00:1]:PORT",
    "http://[2002:7f00:1::]:PORT",
    "http://localhost:PORT",
    "http://localhost.:PORT",
    "http://local\u{ad}host:PORT",
    "http://127.0.0.1.nip.io:PORT",
    "http://169.254.169.254",
    "http://metadata.google.internal",
];

const LOCAL_NAMES: [(&str, &[&str]); 3] = [
    ("localhost", &["127.0.0.1"]),
    ("127.0.0.1.nip.io", &["127.0.0.1"]),
    ("metadata.google.internal", &["169.254.169.254"]),
];

/// A server that nobody opened, and its port, which is open at an address that is not this machine's.
async fn closed(world: &World) -> Server {
    let server = Server::start(|_| json_answer(&json!({"secret": true}))).await;
    world.open_address("203.0.113.9", server.address.port()).await;
    server
}

#[tokio::test]
async fn no_spelling_of_a_local_address_reaches_a_local_listener() {
    every_world(async |world| {
        let server = closed(&world).await;
        let outside = world.resolving(&LOCAL_NAMES);
        for spelling in SPELLINGS {
            let url = spelling.replace("PORT", &server.address.port().to_string());
            for runner in doors(&url, "/", &Value::Null) {
                let error = failed(run(&outside, &world, &runner, json!({})).await);
                // A definition with an address that is none is refused when it is saved, and here once more.
                let told = (error.code, error.reason());
                let is_refusal = matches!(told, (PolicyDenied, "egress") | (ErrorCode::SandboxError, "exception"));
                assert!(is_refusal, "{url}: {error:?}");
            }
        }
        assert_eq!(server.requests().len(), 0);
        is_unharmed(&world).await;
    })
    .await;
}

#[tokio::test]
async fn no_redirect_leads_to_a_local_listener() {
    every_world(async |world| {
        let server = closed(&world).await;
        let port = server.address.port().to_string();
        let outside = world.resolving(&LOCAL_NAMES);
        let spelled: Vec<String> = SPELLINGS
            .iter()
            .filter(|url| url.is_ascii())
            .map(|url| url.replace("PORT", &port))
            .chain(
                ["file:///etc/passwd", "ftp://a.test/", "data:text/plain,x", "gopher://127.0.0.1/"].map(str::to_owned),
            )
            .collect();
        let places = spelled.clone();
        let first = opened(&world, move |request| {
            let number: usize = request.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
            answer("302 Found", &[("location", places[number].as_str())], b"")
        })
        .await;
        for (number, url) in spelled.iter().enumerate() {
            for runner in doors(&first.url(""), &format!("/{number}"), &Value::Null) {
                let error = failed(run(&outside, &world, &runner, json!({})).await);
                // An address that nobody may ask for at all, such as one with a user, is no question of where it leads.
                let told = (error.code, error.reason());
                assert!(matches!(told, (PolicyDenied, "egress") | (ValidationError, "schema")), "{url}: {error:?}");
            }
        }
        assert_eq!(server.requests().len(), 0);
        is_unharmed(&world).await;
    })
    .await;
}

#[tokio::test]
async fn a_name_that_changes_where_it_leads_is_checked_each_time() {
    every_world(async |world| {
        let server = opened(&world, |request| match request.split(' ').nth(1).unwrap() {
            "/again" => answer("302 Found", &[("location", "/")], b""),
            _ => json_answer(&json!({})),
        })
        .await;
        let port = server.address.port();
        let elsewhere = Server::start_at("127.0.0.2", port, |_| json_answer(&json!({"secret": true}))).await;
        let url = format!("http://rebind.test:{port}");
        for (path, reached) in [("/", 1), ("/again", 1)] {
            for runner in doors(&url, path, &Value::Null) {
                let outside = world.resolving(&[("rebind.test", &["127.0.0.1", "127.0.0.2"])]);
                let before = server.requests().len();
                if path == "/" {
                    done(run(&outside, &world, &runner, json!({})).await);
                }
                let error = failed(run(&outside, &world, &runner, json!({})).await);
                assert_told(&error, PolicyDenied, "egress", path);
                assert_eq!(server.requests().len() - before, reached, "{path}");
            }
        }
        assert_eq!(elsewhere.requests().len(), 0);
    })
    .await;
}

#[tokio::test]
async fn code_fetches_from_no_local_listener() {
    every_world(async |world| {
        let server = closed(&world).await;
        let sandbox = Sandbox::new(Spawner::new().unwrap(), Settings::default());
        let snippets = Snippets::new(sandbox, world.resolving(&LOCAL_NAMES));
        let code = "def main(input):
    told = []
    for url in input['urls']:
        try:
            told.append('went out: ' + url + str(fetch(url)))
        except Exception as error:
            told.append(type(error).__name__)
    return {'told': told}";
        let hosts: Vec<Value> =
            ["127.0.0.1", "localhost", "127.0.0.1.nip.io", "169.254.169.254", "metadata.google.internal"]
                .iter()
                .map(|host| json!({"host": host, "methods": ["GET"]}))
                .collect();
        let urls: Vec<String> = SPELLINGS
            .iter()
            .map(|url| url.replace("PORT", &server.address.port().to_string()))
            .chain(["file:///etc/passwd".to_owned(), "unix:/run/x".to_owned()])
            .collect();
        let runner = json!({"kind": "python", "code": code, "hosts": hosts});
        let call = world.call(&runner, json!({"urls": urls}));
        let output = done(snippets.run(testing::permit(call)).await).result.structured.unwrap();
        assert_eq!(output["told"], json!(vec!["HostError"; urls.len()]));
        assert_eq!(server.requests().len(), 0);
    })
    .await;
}

#[tokio::test]
async fn no_argument_adds_a_header_or_a_parameter() {
    every_world(async |world| {
        let server = opened(&world, echo_of).await;
        let extra = json!({
            "http": {"query": {"q": "{{ q }}"}, "headers": {"X-A": "{{ h }}"}},
            "openapi": {"parameters": [
                {"name": "q", "in": "query"}, {"name": "X-A", "in": "header", "argument": "h"},
            ]},
        });
        for runner in doors(&server.url(""), "/x", &extra) {
            let before = server.requests().len();
            for value in ["a\r\nX-B: c", "a\nX-B: c", "a\rX-B: c", "a\u{0}", "a\r\n\r\nGET /y HTTP/1.1\r\nHost: b\r\n"]
            {
                let error = failed(asked(&world, &runner, json!({"q": "a", "h": value})).await);
                assert_told(&error, ValidationError, "schema", value);
            }
            assert_eq!(server.requests().len(), before, "nothing is sent with a header that is two");
            for value in ["a&admin=true", "a&q=b", "a#b", "a;b=c", "a\r\nHost: b", "a%26b=c", "a+b", "=&="] {
                let output =
                    done(asked(&world, &runner, json!({"q": value, "h": "x"})).await).result.structured.unwrap();
                let url = url::Url::parse(&server.url(output["path"].as_str().unwrap())).unwrap();
                let pairs: Vec<_> = url.query_pairs().collect();
                assert_eq!(pairs, [("q".into(), value.into())], "{url}");
                assert_eq!(output["headers"]["host"], server.address.to_string());
            }
        }
    })
    .await;
}

#[tokio::test]
async fn what_looks_like_a_template_is_a_value() {
    every_world(async |world| {
        let server = opened(&world, echo_of).await;
        let extra = json!({
            "http": {"query": {"q": "{{ q }}"}, "headers": {"X-A": "{{ q }}"}},
            "openapi": {"parameters": [
                {"name": "q", "in": "query"}, {"name": "q", "in": "path"}, {"name": "X-A", "in": "header", "argument": "q"},
            ]},
        });
        let step = json!({"id": "say", "tool": "echo", "input": {"text": "{{ input.q }}!"}});
        let chain = json!({"kind": "composition", "steps": [step]});
        let cel = json!({"kind": "expression", "cel": "input.q"});
        for value in [
            "{{ 7 * 7 }}",
            "{{ q }}",
            "{q}",
            "{% for i in q %}{{ i }}{% endfor %}",
            "{# gone #}",
            "${7*7}",
            "#{7*7}",
            "<%= 7 %>",
            "{{ self }}{{ ''.__class__ }}",
            "input.secret + 'x'",
            "' + input.q + '",
            "}}{{",
        ] {
            for runner in doors(&server.url(""), "/x/{q}", &extra) {
                let output = done(asked(&world, &runner, json!({"q": value})).await).result.structured.unwrap();
                let url = url::Url::parse(&server.url(output["path"].as_str().unwrap())).unwrap();
                assert_eq!(url.query_pairs().next().unwrap().1, value);
                let place = url.path_segments().unwrap().next_back().unwrap().to_owned();
                assert_eq!(percent_decode_str(&place).decode_utf8().unwrap(), value);
                assert_eq!(output["headers"]["x-a"], value);
            }
            let plan = Compositions::default().plan(&world.call(&chain, json!({"q": value}))).await.unwrap();
            assert_eq!(plan["would_call"][0]["input"]["text"], format!("{value}!"));
            let call = world.call(&cel, json!({"q": value}));
            let said = done(Expressions::default().run(testing::permit(call)).await);
            assert_eq!(said.result.structured.unwrap(), value);
        }
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_inflates_without_end_is_left() {
    every_world(async |world| {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(&vec![0; 20 * 1024 * 1024]).unwrap();
        let once = packed.finish().unwrap();
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(&once).unwrap();
        let twice = packed.finish().unwrap();
        let server = opened(&world, move |request| match request.split(' ').nth(1).unwrap() {
            "/once" => answer("200 OK", &[("content-encoding", "gzip")], &once),
            "/twice" => answer("200 OK", &[("content-encoding", "gzip, gzip")], &twice),
            _ => answer("200 OK", &[("content-encoding", "gzip")], b"this is no gzip"),
        })
        .await;
        for path in ["/once", "/twice", "/broken"] {
            for runner in doors(&server.url(""), path, &Value::Null) {
                assert_told(&failed(asked(&world, &runner, json!({})).await), NetworkError, "reset", path);
            }
        }
        is_unharmed(&world).await;
    })
    .await;
}

#[tokio::test]
async fn an_upstream_that_is_silent_or_drips_ends_with_the_call() {
    every_world(async |world| {
        const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n";
        for (what, says) in
            [("silent", &b""[..]), ("drips its head", b"HTTP/1.1 200 OK\r\nx-"), ("drips its body", HEAD)]
        {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            world.open_port(address.port()).await;
            let serving = tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let body: &[u8] = if says == HEAD { b"content-length: 1000000\r\n\r\n" } else { b"" };
                stream.write_all(&[says, body].concat()).await.unwrap();
                // Until whoever asked has left.
                while !says.is_empty() && stream.write_all(b"a").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                stream.readable().await.unwrap();
                let mut rest = Vec::new();
                let _ = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut rest).await;
            });
            let [runner, _] = doors(&format!("http://{address}"), "/", &Value::Null);
            let mut call = world.call(&runner, json!({}));
            call.timeout = Duration::from_millis(300);
            let error = failed(Requests::new(world.outside.clone()).run(testing::permit(call)).await);
            assert_told(&error, Timeout, "timeout", what);
            // The connection is gone too: the server sees its end.
            serving.await.unwrap();
        }
        is_unharmed(&world).await;
    })
    .await;
}

#[tokio::test]
async fn redirects_without_end_end() {
    every_world(async |world| {
        let server = opened(&world, |request| {
            let path = request.split(' ').nth(1).unwrap();
            let next = if path == "/same" { path.to_owned() } else { format!("{path}x") };
            answer("302 Found", &[("location", next.as_str())], b"")
        })
        .await;
        for path in ["/same", "/longer"] {
            for runner in doors(&server.url(""), path, &Value::Null) {
                let before = server.requests().len();
                assert_told(&failed(asked(&world, &runner, json!({})).await), NetworkError, "redirects", path);
                assert!(server.requests().len() - before <= 6, "{path}");
            }
        }
        is_unharmed(&world).await;
    })
    .await;
}

#[tokio::test]
async fn no_answer_that_is_cut_leaves_a_part_of_a_secret() {
    every_world(async |world| {
        let server = opened(&world, |request| {
            let pad: usize = request.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
            let text = format!("{}{SECRET}{}", "x".repeat(pad), "y".repeat(20_000));
            match pad % 2 {
                0 => answer("400 Bad Request", &[("content-type", "text/plain")], text.as_bytes()),
                _ => answer(
                    "400 Bad Request",
                    &[("content-type", "application/json")],
                    json!({"said": text}).to_string().as_bytes(),
                ),
            }
        })
        .await;
        let cuts = [0, 500, 2_000, 4_000, 8 * 1024, 16 * 1024];
        for pad in cuts.into_iter().flat_map(|cut| [cut, cut + 1, cut + 20, cut + 41].map(|at| at.max(41) - 41)) {
            for runner in doors(&server.url(""), &format!("/{pad}"), &Value::Null) {
                let call = world.call(&runner, json!({}));
                let permit = testing::permit_with(call, secret());
                let error = failed(Requests::new(world.outside.clone()).run(permit).await);
                assert_told(&error, ErrorCode::ProviderError, "upstream_4xx", "an answer");
                assert_told_clean(&format!("behind {pad} letters"), error);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn nothing_that_code_says_leaves_a_part_of_a_secret() {
    every_world(async |world| {
        let sandbox = Sandbox::new(Spawner::new().unwrap(), Settings::default());
        let snippets = Snippets::new(sandbox, world.outside.clone());
        let run = async |code: &str, pad: usize| {
            let code = format!("secret = 'x' * input['pad'] + host_call('secret', 'TOKEN') + 'y' * 200000\n{code}");
            let mut call = world.call_of(&json!({"kind": "python", "code": code}), json!({"pad": pad}), |definition| {
                definition.secrets = serde_json::from_value(json!([{"name": "TOKEN"}])).unwrap();
            });
            call.output = OutputSink::buffered();
            let output = call.output.clone();
            let error = failed(snippets.run(testing::permit_with(call, secret())).await);
            (error, output)
        };
        let redactor = Redactor::new(&secret()).unwrap();
        for pad in [0, 3_960, 3_990, 8 * 1024 - 30, 8 * 1024, 16 * 1024 - 20, 128 * 1024 - 10] {
            let what = format!("behind {pad} letters");
            let (error, _) = run("raise ValueError(secret)", pad).await;
            assert_told(&error, ErrorCode::SandboxError, "exception", &what);
            assert_told_clean(&what, error);
            let (error, output) = run("print(secret)\nraise ValueError('no')", pad).await;
            assert_eq!(error.message, "ValueError: no");
            assert_told_clean(&what, error);
            assert_clean(&what, &redactor.redact_text(&testing::written(&output)));
        }
        // What it prints beyond its limit is missing, and with it perhaps the end of a secret.
        for pad in [1024 * 1024 - 20, 1024 * 1024 - 39] {
            let (error, output) = run("print(secret)", pad).await;
            assert_told(&error, ErrorCode::SandboxError, "output", "too much");
            assert_told_clean("too much", error);
            assert_clean("too much", &redactor.redact_text(&testing::written(&output)));
        }
    })
    .await;
}

#[tokio::test]
async fn bytes_that_are_no_text_are_no_text() {
    every_world(async |world| {
        let server = opened(&world, |request| match request.split(' ').nth(1).unwrap() {
            "/json" => answer("200 OK", &[("content-type", "application/json")], b"{\"a\": \"\xff\"}"),
            "/error" => answer("400 Bad Request", &[("content-type", "text/plain")], b"no\xff\xfe"),
            "/header" => answer("200 OK", &[("content-type", "application/json"), ("x-a", "ä")], b"{}"),
            _ => answer("200 OK", &[("content-type", "text/plain; charset=utf-8")], b"caf\xe9"),
        })
        .await;
        for (path, bytes) in [("/json", &b"{\"a\": \"\xff\"}"[..]), ("/text", b"caf\xe9")] {
            for runner in doors(&server.url(""), path, &Value::Null) {
                let kept = done(asked(&world, &runner, json!({})).await);
                assert_eq!(kept.attachments[0].bytes, bytes, "{path}: byte by byte");
            }
        }
        for runner in doors(&server.url(""), "/error", &Value::Null) {
            let error = failed(asked(&world, &runner, json!({})).await);
            assert_told(&error, ErrorCode::ProviderError, "upstream_4xx", "/error");
            assert!(error.details.unwrap().get("body").is_none(), "what cannot be read is not shown");
        }
        for runner in doors(&server.url(""), "/header", &Value::Null) {
            done(asked(&world, &runner, json!({})).await);
        }
        is_unharmed(&world).await;
    })
    .await;
}
