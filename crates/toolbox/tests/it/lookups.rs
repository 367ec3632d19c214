//! `web_search`, `metrics_api.query_gauge` and `github_pr.get_status_check` against servers that answer as documented.

use serde_json::{Value, json};
use toolgate_contracts::ErrorCode::{
    AuthRequired, PolicyDenied, ProviderError, RateLimit, SandboxError, ValidationError,
};
use toolgate_contracts::ToolError;
use toolgate_engine::{Outcome, Runner as _};
use toolgate_toolbox::Builtin;

use crate::services::{Server, answer, json_answer, run, secret, target, with_entries};
use crate::world::{World, error, every_world, output};

/// The first example of a shipped tool.
fn example(world: &World, tool: &str) -> (Value, Value) {
    let definition = world.tool(tool).definition;
    let example = definition.examples.first().unwrap();
    (example.input.clone(), example.output.clone().unwrap())
}

async fn ready(world: &World, runner: &Builtin, tool: &str) -> Result<(), ToolError> {
    runner.ready(&world.tool(tool).definition).await
}

#[tokio::test]
async fn each_provider_s_answer_is_told_in_one_shape() {
    let snippet =
        "Cryptographic operations like hashing and signing need the data to be expressed in an invariant format.";
    let (title, url) = ("JSON Canonicalization Scheme", "https://www.rfc-editor.org/rfc/rfc8785");
    let exa = json!({
        "requestId": "b5947044c4b78efa9552a7c89b306d95",
        "resolvedSearchType": "neural",
        "results": [
            {"title": title, "url": url, "id": url, "publishedDate": "2020-06-01", "author": null, "highlights": [snippet], "highlightScores": [0.46]},
            {"title": "Bad", "url": "javascript:alert(1)", "highlights": []},
        ],
        "costDollars": {"total": 0.005},
    });
    let brave = json!({
        "type": "search",
        "query": {"original": "RFC 8785", "more_results_available": true},
        "web": {"type": "search", "results": [
            {"type": "search_result", "title": title, "url": url, "description": snippet, "page_age": "2020-06-01", "age": "June 1, 2020", "language": "en"},
        ]},
    });
    let searxng = json!({
        "query": "RFC 8785",
        "number_of_results": 0,
        "results": [
            {"title": title, "url": url, "content": snippet, "publishedDate": "2020-06-01", "engine": "duckduckgo", "score": 1.0, "category": "general"},
            {"title": "A second", "url": "https://b.test/", "content": "", "publishedDate": null},
        ],
        "answers": [], "suggestions": [], "unresponsive_engines": [],
    });
    every_world(async |world| {
        let (input, expected) = example(&world, "web_search");
        for (provider, body, asked, header) in [
            ("exa", &exa, "POST /search", "x-api-key: the key"),
            ("brave", &brave, "GET /res/v1/web/search?q=RFC+8785&count=1", "x-subscription-token: the key"),
            ("searxng", &searxng, "GET /search?q=RFC+8785&format=json", "accept: application/json"),
        ] {
            let body = body.clone();
            let server = Server::start(move |_| json_answer(&body)).await;
            let runner = with_entries(&world, &json!({"search": {"provider": provider, "url": server.url("/")}}));
            ready(&world, &runner, "web_search").await.unwrap();
            let keys =
                if provider == "searxng" { vec![] } else { vec![secret("SEARCH_API_KEY", "the key", &["127.0.0.1"])] };
            let found = output(run(&runner, world.call("web_search", input.clone()), keys).await);
            assert_eq!(found, expected, "{provider}");
            let request = &server.requests()[0];
            assert_eq!(target(request), asked, "{provider}");
            assert!(request.contains(header), "{provider}: {request}");
            if provider == "exa" {
                let sent: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
                assert_eq!(
                    sent,
                    json!({"query": "RFC 8785", "numResults": 1, "contents": {"highlights": {"maxCharacters": 1000}}})
                );
            }
            // The other spelling is the same tool.
            assert_eq!(world.tool("webSearch").definition.name.as_str(), "web_search");
        }
    })
    .await;
}

#[tokio::test]
async fn no_text_that_is_cut_leaves_a_part_of_a_key() {
    const KEY: &str = "k9-Zr4Qx7-Vb2Lm8-Wt5Hn3-Yp6Jd1-Gf0Sc";
    let assert_clean = |told: &Value, what: &str| {
        let text = told.to_string();
        assert!(text.contains("[secret:") || text.contains("xxx"), "{text}");
        let part = (0..=KEY.len() - 6).map(|at| &KEY[at..at + 6]).find(|part| text.contains(part));
        assert_eq!(part, None, "{what}");
    };
    every_world(async |world| {
        for cut in [64, 300, 500, 1_000] {
            for pad in [cut - 37, cut - 30, cut - 7, cut - 1] {
                let text = format!("{}{KEY}", "x".repeat(pad));
                let (body, said) = (json!({"results": [{"title": text, "url": "https://a.test/", "publishedDate": text, "highlights": [text]}]}), text.clone());
                let server = Server::start(move |_| json_answer(&body)).await;
                let runner = with_entries(&world, &json!({"search": {"provider": "exa", "url": server.url("/")}}));
                let call = world.call("web_search", json!({"query": "x"}));
                let found = output(run(&runner, call, vec![secret("SEARCH_API_KEY", KEY, &["127.0.0.1"])]).await);
                assert_clean(&found, &format!("a search, {pad}"));

                let server = Server::start(move |request| match target(request) {
                    request if request.ends_with("/pulls/42") => json_answer(&pull()),
                    request if request.contains("/check-runs") => json_answer(&json!({"check_runs": []})),
                    _ => json_answer(&json!({"statuses": [{"context": "a", "state": "failure", "description": said}]})),
                })
                .await;
                let runner = with_entries(&world, &json!({"github": {"url": server.url(""), "tenants": ["acme"]}}));
                let call = world.call("github_pr.get_status_check", json!({"pr_id": 42, "repository": "acme/shop"}));
                let told = output(run(&runner, call, vec![secret("GITHUB_TOKEN", KEY, &["127.0.0.1"])]).await);
                assert_clean(&told, &format!("a check, {pad}"));
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_search_that_cannot_be_made_says_what_is_missing() {
    every_world(async |world| {
        let begins = "the operator's entry `search` in `entries.yaml` cannot be used: ";
        for (entries, why) in [
            (json!({}), "there is none; write `search: {provider: searxng, url: \"https://…\"}`, or `exa` or `brave`"),
            (json!({"search": {"provider": "altavista"}}), "its `provider` is `altavista`; expected `exa`, `brave` or `searxng`"),
            (json!({"search": {"provider": "searxng"}}), "`searxng` needs the `url` of a server"),
            (json!({"search": {"provider": "exa", "url": "ftp://a.test"}}), "its `url` is neither `http` nor `https`; write `https://host` or `http://host:port`"),
            (json!({"search": {"provider": "exa", "url": "https://u:p@a.test"}}), "its `url` holds a user or a password, which belong into a secret; write `https://host` or `http://host:port`"),
        ] {
            let runner = with_entries(&world, &entries);
            let message = format!("{begins}{why}");
            assert_eq!(ready(&world, &runner, "web_search").await.unwrap_err().message, message);
            let call = world.call("web_search", json!({"query": "x"}));
            let failed = error(run(&runner, call, vec![]).await);
            assert_eq!((failed.code, failed.reason(), failed.message.as_str()), (SandboxError, "tier_unavailable", message.as_str()));
        }
        let server = Server::start(|request| match target(request) {
            "POST /search" => answer("401 Unauthorized", &[], br#"{"error":"Invalid API key"}"#),
            _ => answer("200 OK", &[("content-type", "text/html")], b"<html>"),
        })
        .await;
        let runner = with_entries(&world, &json!({"search": {"provider": "exa", "url": server.url("")}}));
        let search = async |runner: &Builtin, keys| error(run(runner, world.call("web_search", json!({"query": "x"})), keys).await);
        let failed = search(&runner, vec![]).await;
        assert_eq!((failed.code, failed.reason()), (AuthRequired, "secret_missing"));
        let failed = search(&runner, vec![secret("SEARCH_API_KEY", "k", &["api.exa.ai"])]).await;
        assert_eq!((failed.code, failed.reason()), (AuthRequired, "secret_not_allowed"));
        assert_eq!(server.requests().len(), 0, "a key goes only where its owner lets it");
        let failed = search(&runner, vec![secret("SEARCH_API_KEY", "k", &["127.0.0.1"])]).await;
        assert_eq!((failed.code, failed.reason()), (AuthRequired, "upstream"));
        let runner = with_entries(&world, &json!({"search": {"provider": "searxng", "url": server.url("")}}));
        let failed = search(&runner, vec![]).await;
        assert_eq!((failed.code, failed.reason()), (ProviderError, "output_schema"));
        for (input, message) in [
            (json!({"query": " "}), "`query`: it has 1 characters; expected 1 to 400"),
            (json!({"query": "x".repeat(401)}), "`query`: it has 401 characters; expected 1 to 400"),
            (json!({"query": "x", "count": 21}), "`count`: 21 is not between 1 and 20"),
        ] {
            assert_eq!(error(run(&runner, world.call("web_search", input), vec![]).await).message, message);
        }
    })
    .await;
}

#[tokio::test]
async fn doctor_is_told_of_the_entries_that_are_written() {
    every_world(async |world| {
        assert!(world.runner.needs().await.is_empty());
        let entries = json!({"search": {"provider": "altavista"}, "github": {"url": "https://github.example.com/api/v3"}});
        let told: Vec<(&str, String)> =
            with_entries(&world, &entries).needs().await.into_iter().map(|need| (need.name, need.found)).collect();
        let wrong = "the operator's entry `search` in `entries.yaml` cannot be used: its `provider` is `altavista`; expected `exa`, `brave` or `searxng`";
        assert_eq!(told, [("search", wrong.to_owned()), ("github", "its entry can be used".to_owned())]);
    })
    .await;
}

#[tokio::test]
async fn an_entry_opens_its_host_for_its_tool_alone() {
    every_world(async |world| {
        let inner = Server::start(|_| json_answer(&json!({"results": []}))).await;
        let to = inner.url("/");
        let server = Server::start(move |_| answer("302 Found", &[("location", &to)], b"")).await;
        let runner = with_entries(&world, &json!({"search": {"provider": "searxng", "url": server.url("")}}));
        // Where the entry's server redirects to is another place.
        let away = error(run(&runner, world.call("web_search", json!({"query": "x"})), vec![]).await);
        assert_eq!((away.code, away.reason()), (PolicyDenied, "egress"));
        let direct = error(run(&runner, world.call("http_get", json!({"url": server.url("/")})), vec![]).await);
        assert_eq!((direct.code, direct.reason()), (PolicyDenied, "egress"));
        assert_eq!(inner.requests().len(), 0);
    })
    .await;
}

fn vector(values: &[(&str, &str)]) -> Value {
    let series: Vec<Value> =
        values.iter().map(|(job, value)| json!({"metric": {"job": job}, "value": [1_794_736_800.0, value]})).collect();
    json!({"status": "success", "data": {"resultType": "vector", "result": series}})
}

#[tokio::test]
async fn a_metric_is_asked_for_by_name_labels_and_window() {
    every_world(async |world| {
        let server = Server::start(|request| match target(request).split_once("query=").unwrap().1 {
            "up" => json_answer(&vector(&[("a", "1"), ("b", "NaN")])),
            "1%2B1" => json_answer(
                &json!({"status": "success", "data": {"resultType": "scalar", "result": [1_794_736_800.25, "2"]}}),
            ),
            "none" => json_answer(&vector(&[])),
            "many" => json_answer(&vector(&[("x", "1"); 150])),
            "up%5B5m%5D" => json_answer(
                &json!({"status": "success", "warnings": ["partial"], "data": {"resultType": "matrix", "result": [
                    {"metric": {}, "values": [[1_794_736_740.0, "1"], [1_794_736_800.0, "3"]]},
                ]}}),
            ),
            "bad%28" => answer(
                "400 Bad Request",
                &[("content-type", "application/json")],
                br#"{"status":"error","errorType":"bad_data","error":"1:4: parse error: unclosed left parenthesis"}"#,
            ),
            "odd" => json_answer(&json!({"status": "success"})),
            _ => json_answer(&vector(&[("api", "12.5")])),
        })
        .await;
        let runner =
            with_entries(&world, &json!({"metrics": {"url": server.url("/prometheus/"), "tenants": ["acme"]}}));
        ready(&world, &runner, "metrics_api.query_gauge").await.unwrap();
        let ask = async |input: Value| run(&runner, world.call("metrics_api.query_gauge", input), vec![]).await;
        let (input, expected) = example(&world, "metrics_api.query_gauge");
        assert_eq!(output(ask(input).await), expected);
        let asked = target(&server.requests()[0]).to_owned();
        assert_eq!(
            asked,
            "GET /prometheus/api/v1/query?query=avg_over_time%28http_requests_in_flight%7Bjob%3D%22api%22%7D%5B5m%5D%29"
        );

        let up = output(ask(json!({"metric_name": "up"})).await);
        assert_eq!(up["value"], Value::Null);
        assert_eq!(
            up["series"][1],
            json!({"labels": {"job": "b"}, "value": null, "text": "NaN", "time": "2026-11-15T10:00:00.000Z"})
        );
        let scalar = output(ask(json!({"query": "1+1"})).await);
        assert_eq!((&scalar["value"], &scalar["series"][0]["time"]), (&json!(2.0), &json!("2026-11-15T10:00:00.250Z")));
        assert_eq!(
            output(ask(json!({"query": "none"})).await),
            json!({"query": "none", "series": [], "truncated": false})
        );
        let many = output(ask(json!({"query": "many"})).await);
        assert_eq!((many["series"].as_array().unwrap().len(), &many["truncated"]), (100, &json!(true)));
        let matrix = output(ask(json!({"query": "up[5m]"})).await);
        assert_eq!((&matrix["value"], &matrix["warnings"]), (&json!(3.0), &json!(["partial"])));
        // A value cannot leave its place.
        let hostile = output(ask(json!({"metric_name": "m", "labels": {"a": "\"} or vector(1) #\\\n"}})).await);
        assert_eq!(hostile["query"], "m{a=\"\\\"} or vector(1) #\\\\\\n\"}");
        let at = ask(json!({"metric_name": "m", "time": "2026-11-15T10:00:00+01:00"})).await;
        output(at);
        assert!(target(server.requests().last().unwrap()).ends_with("&time=2026-11-15T09%3A00%3A00Z"));

        for (input, message) in [
            (json!({}), "`metric_name`: give either `metric_name` or `query`"),
            (json!({"metric_name": "a", "query": "b"}), "`metric_name`: give either `metric_name` or `query`"),
            (json!({"metric_name": "up{}"}), "`metric_name`: expected a name such as `http_requests_in_flight`"),
            (
                json!({"metric_name": "up", "labels": {"a=\"\",b": "x"}}),
                "`labels`: `a=\\\"\\\",b` is no name of a label; expected one such as `job`",
            ),
            (
                json!({"metric_name": "up", "window": "5m] or up[1m"}),
                "`window`: expected a length of time such as `5m`, `1h` or `1h30m`",
            ),
            (
                json!({"metric_name": "up", "window": "5m1h"}),
                "`window`: expected a length of time such as `5m`, `1h` or `1h30m`",
            ),
            (
                json!({"query": "up", "window": "5m"}),
                "`query`: with `window` or `labels` it says two things; write them into the query",
            ),
            (json!({"metric_name": "up", "time": "yesterday"}), "`time`: it is no time; write `2026-11-15T10:00:00Z`"),
            (
                json!({"query": "bad("}),
                "`query`: the server cannot read it: 1:4: parse error: unclosed left parenthesis",
            ),
        ] {
            let refused = error(ask(input).await);
            assert_eq!(
                (refused.code, refused.reason(), refused.message.as_str()),
                (ValidationError, "schema", message)
            );
        }
        let odd = error(ask(json!({"query": "odd"})).await);
        assert_eq!((odd.code, odd.reason()), (ProviderError, "output_schema"));
    })
    .await;
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a test has no configuration but its environment")]
async fn a_real_prometheus_answers_as_documented() {
    let Ok(url) = std::env::var("TOOLGATE_TEST_PROMETHEUS") else {
        assert!(std::env::var("CI").is_err(), "TOOLGATE_TEST_PROMETHEUS is not set, and CI is");
        eprintln!("TOOLGATE_TEST_PROMETHEUS is not set: not tested with Prometheus");
        return;
    };
    every_world(async |world| {
        let runner = with_entries(&world, &json!({"metrics": {"url": url, "tenants": ["acme"]}}));
        let ask = async |input: Value| run(&runner, world.call("metrics_api.query_gauge", input), vec![]).await;
        let gauge = json!({"metric_name": "toolgate_test_gauge", "window": "1h", "labels": {"job": "api"}});
        // Its first value comes with the first evaluation.
        let mut found = output(ask(gauge.clone()).await);
        while found["series"] == json!([]) {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            found = output(ask(gauge.clone()).await);
        }
        assert_eq!((&found["value"], &found["series"][0]["labels"]["job"]), (&json!(12.5), &json!("api")), "{found}");
        let hostile = json!({"metric_name": "toolgate_test_gauge", "labels": {"job": "x\"} or vector(1) or up{a=\""}});
        assert_eq!(output(ask(hostile).await)["series"], json!([]), "a label's value stays one");
        assert_eq!(output(ask(json!({"query": "scalar(vector(2))"})).await)["value"], 2.0);
        assert_eq!(output(ask(json!({"query": "vector(1) / 0"})).await)["series"][0]["text"], "+Inf");
        let refused = error(ask(json!({"query": "up{"})).await);
        assert_eq!((refused.code, refused.reason()), (ValidationError, "schema"));
        assert!(refused.message.contains("parse error"), "{}", refused.message);
    })
    .await;
}

#[tokio::test]
async fn metrics_are_asked_for_so_often_in_a_minute() {
    every_world(async |world| {
        let server = Server::start(|_| json_answer(&vector(&[("a", "1")]))).await;
        let runner = with_entries(&world, &json!({"metrics": {"url": server.url(""), "tenants": ["acme"]}}));
        let ask = async || run(&runner, world.call("metrics_api.query_gauge", json!({"query": "up"})), vec![]).await;
        for _ in 0..60 {
            output(ask().await);
        }
        let refused = error(ask().await);
        assert_eq!((refused.code, refused.reason(), refused.retry_after_s), (RateLimit, "rate", Some(60)));
        assert_eq!(server.requests().len(), 60);
        world.clock.advance(60);
        output(ask().await);
    })
    .await;
}

#[tokio::test]
async fn metrics_are_for_the_tenants_that_the_entry_names() {
    every_world(async |world| {
        let server = Server::start(|_| json_answer(&vector(&[]))).await;
        for entries in [
            json!({}),
            json!({"metrics": {"url": server.url("")}}),
            json!({"metrics": {"url": server.url(""), "tenants": ["other"]}}),
        ] {
            let runner = with_entries(&world, &entries);
            let failed =
                error(run(&runner, world.call("metrics_api.query_gauge", json!({"metric_name": "up"})), vec![]).await);
            assert_eq!((failed.code, failed.reason()), (SandboxError, "tier_unavailable"), "{entries}");
            assert!(
                failed.message.contains("there is none for this tenant; write `metrics: {url:"),
                "{}",
                failed.message
            );
        }
        assert_eq!(server.requests().len(), 0);
    })
    .await;
}

const COMMIT: &str = "6dcb09b5b57875f334f61aebed695e2e4193db5e";

fn pull() -> Value {
    json!({
        "number": 42, "title": "Sell shoes", "state": "open", "html_url": "https://github.com/acme/shop/pull/42",
        "head": {"sha": COMMIT, "ref": "shoes"},
    })
}

fn check_run(name: &str, status: &str, conclusion: Option<&str>) -> Value {
    json!({"name": name, "status": status, "conclusion": conclusion, "completed_at": conclusion.map(|_| "2026-11-15T09:58:00Z")})
}

#[tokio::test]
async fn checks_of_a_pull_request_are_told_as_one() {
    every_world(async |world| {
        let server = Server::start(|request| {
            let asked = target(request).strip_prefix("GET /api/v3/repos/acme/shop/").unwrap_or_else(|| panic!("{request}"));
            let commit = format!("commits/{COMMIT}");
            let (path, query) = asked.split_once('?').unwrap_or((asked, ""));
            let page: usize = query.split('&').find_map(|part| part.strip_prefix("page=")).map_or(1, |page| page.parse().unwrap());
            let runs: Vec<Value> = match (query.contains("check_name=build"), page) {
                (true, _) => vec![check_run("build", "completed", Some("success"))],
                (false, 1) => (0..100).map(|n| check_run(&format!("run {n:03}"), "completed", Some("skipped"))).collect(),
                (false, _) => vec![check_run("slow", "in_progress", None), check_run("build", "completed", Some("success"))],
            };
            match path.strip_prefix(&commit) {
                None if path == "pulls/42" => json_answer(&pull()),
                None if path == "pulls/43" => answer("404 Not Found", &[("content-type", "application/json")], br#"{"message":"Not Found"}"#),
                None if path == "pulls/44" => answer(
                    "403 Forbidden",
                    &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1794737100"), ("date", "Sun, 15 Nov 2026 10:00:00 GMT")],
                    br#"{"message":"API rate limit exceeded"}"#,
                ),
                None if path == "pulls/45" => json_answer(&json!({"head": {"sha": "../../x"}})),
                Some("/check-runs") => json_answer(&json!({"total_count": 102, "check_runs": runs})),
                Some("/status") => json_answer(&json!({"state": "failure", "statuses": [
                    {"context": "ci/deploy", "state": "error", "description": "no room", "target_url": "https://ci.test/7", "updated_at": "2026-11-15T09:59:00Z"},
                ]})),
                _ => panic!("{request}"),
            }
        })
        .await;
        let runner = with_entries(&world, &json!({"github": {"url": server.url("/api/v3"), "tenants": ["acme"]}}));
        ready(&world, &runner, "github_pr.get_status_check").await.unwrap();
        let token = || vec![secret("GITHUB_TOKEN", "ghp_x", &["127.0.0.1"])];
        let ask = async |input: Value| run(&runner, world.call("github_pr.get_status_check", input), token()).await;

        let (input, expected) = example(&world, "github_pr.get_status_check");
        assert_eq!(output(ask(input).await), expected);
        for request in server.requests() {
            assert!(request.contains("authorization: Bearer ghp_x\r\n") && request.contains("accept: application/vnd.github+json\r\n"), "{request}");
        }
        let all = output(ask(json!({"pr_id": 42, "repository": "acme/shop"})).await);
        let checks = all["checks"].as_array().unwrap();
        assert_eq!((checks.len(), &all["state"]), (103, &json!("failure")));
        assert!(checks.iter().any(|check| check["name"] == "slow" && check["state"] == "pending"));
        let deploy = json!({
            "name": "ci/deploy", "kind": "status", "state": "failure", "conclusion": "error", "about": "no room",
            "url": "https://ci.test/7", "completed_at": "2026-11-15T09:59:00Z",
        });
        assert_eq!(checks.iter().find(|check| check["name"] == "ci/deploy"), Some(&deploy));
        let missing = output(ask(json!({"pr_id": "42", "repository": "acme/shop", "check_name": "no such"})).await);
        assert_eq!((&missing["state"], &missing["checks"]), (&json!("missing"), &json!([])));

        let gone = error(ask(json!({"pr_id": "acme/shop#43"})).await);
        assert_eq!((gone.code, gone.reason()), (ProviderError, "upstream_4xx"));
        assert_eq!(gone.message, "there is no pull request 43 in `acme/shop`, or the secret `GITHUB_TOKEN` may not see it");
        let limited = error(ask(json!({"pr_id": "acme/shop#44"})).await);
        assert_eq!((limited.code, limited.reason(), limited.retry_after_s), (RateLimit, "upstream", Some(300)));
        assert_eq!(error(ask(json!({"pr_id": "acme/shop#45"})).await).reason(), "output_schema");
        for (input, message) in [
            (json!({"pr_id": 0, "repository": "a/b"}), "`pr_id`: expected a number such as 42, or `owner/name#42`"),
            (json!({"pr_id": "x", "repository": "a/b"}), "`pr_id`: expected a number such as 42, or `owner/name#42`"),
            (json!({"pr_id": 1}), "`repository`: it is missing; write `owner/name`, or `pr_id` as `owner/name#42`"),
            (json!({"pr_id": "a/b#1", "repository": "a/c"}), "`repository`: `pr_id` names another; leave one out"),
            (json!({"pr_id": "../x#1"}), "`repository`: expected `owner/name`"),
            (json!({"pr_id": 1, "repository": "a/b/c"}), "`repository`: expected `owner/name`"),
            (json!({"pr_id": 1, "repository": "a/b?c"}), "`repository`: expected `owner/name`"),
        ] {
            let refused = error(ask(input).await);
            assert_eq!((refused.code, refused.message.as_str()), (ValidationError, message));
        }
    })
    .await;
}

#[tokio::test]
async fn a_tenant_that_the_entry_does_not_name_asks_github_itself() {
    every_world(async |world| {
        let runner = with_entries(&world, &json!({"github": {"url": "http://127.0.0.1:1", "tenants": ["other"]}}));
        let call = world.call("github_pr.get_status_check", json!({"pr_id": "acme/shop#42"}));
        let plan = runner.plan(&call).await.unwrap();
        assert_eq!(plan["url"], "https://api.github.com/repos/acme/shop/pulls/42");
        let bad = with_entries(&world, &json!({"github": {"url": "git://x"}}));
        assert!(ready(&world, &bad, "github_pr.get_status_check").await.is_err());
        let outcome = run(
            &runner,
            world.call("github_pr.get_status_check", json!({"pr_id": "a/b#1"})),
            vec![secret("GITHUB_TOKEN", "x", &["other.test"])],
        )
        .await;
        let Outcome::Failed(refused) = outcome else { panic!("{outcome:?}") };
        assert_eq!((refused.code, refused.reason()), (AuthRequired, "secret_not_allowed"));
    })
    .await;
}
