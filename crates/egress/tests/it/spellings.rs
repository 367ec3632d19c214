//! Security test 27: no spelling of a local address reaches a local listener; 60: no scheme but HTTP's is spoken.

use toolgate_contracts::{ErrorCode, Scheme, ToolError};
use toolgate_egress::{Request, Rule};

use crate::world::{Server, World, ok, open, opening, path, redirect, way};

/// All of these are this machine to some reader of URLs. `PORT` is the listener's.
const SPELLINGS: [&str; 36] = [
    "http://127.0.0.1:PORT/",
    "http://127.0.0.1.:PORT/",
    "http://127.8.9.10:PORT/",
    "http://127.1:PORT/",
    "http://127.0.1:PORT/",
    "http://2130706433:PORT/",
    "http://017700000001:PORT/",
    "http://0x7f000001:PORT/",
    "http://0177.0.0.1:PORT/",
    "http://0x7f.1:PORT/",
    "http://0x7F.0x0.0x0.0x1:PORT/",
    "http://①②⑦.⓪.⓪.①:PORT/",
    "http://127。0。0。1:PORT/",
    "http://127．0．0．1:PORT/",
    "http://%31%32%37.0.0.1:PORT/",
    "http://127.0.0.%31:PORT/",
    "http:\\\\127.0.0.1:PORT\\",
    "http:127.0.0.1:PORT/",
    "http:///127.0.0.1:PORT/",
    "http://x&@127.0.0.1:PORT/",
    "http://example.com@127.0.0.1:PORT/",
    "http://example.com:443@127.0.0.1:PORT/",
    "http://0:PORT/",
    "http://0.0.0.0:PORT/",
    "http://[::]:PORT/",
    "http://[::1]:PORT/",
    "http://[0:0:0:0:0:0:0:1]:PORT/",
    "http://[::ffff:127.0.0.1]:PORT/",
    "http://[::ffff:7f00:1]:PORT/",
    "http://[::127.0.0.1]:PORT/",
    "http://[64:ff9b::7f00:1]:PORT/",
    "http://[2002:7f00:1::]:PORT/",
    "http://localhost:PORT/",
    "http://localhost.:PORT/",
    "http://LocalHost:PORT/",
    "http://local\u{ad}host:PORT/",
];

fn is_refusal(rule: Rule) -> bool {
    matches!(rule, Rule::Address | Rule::Never | Rule::Url)
}

#[tokio::test]
async fn no_spelling_of_a_local_address_reaches_a_local_listener() {
    let listener = Server::start("[::]:0", |_| ok("reached")).await;
    let world = World::new();
    for name in ["localhost", "127.0.0.1.nip.io"] {
        world.names.say(name, &[&["127.0.0.1"]]);
    }
    // Scheme and port are open, though to other addresses: only the address is left to refuse.
    let elsewhere = open(&["203.0.113.0/24"], listener.port());
    let spelled = SPELLINGS.iter().map(|url| url.replace("PORT", &listener.port().to_string()));
    let named = format!("http://127.0.0.1.nip.io:{}/", listener.port());
    for url in spelled.chain([named]) {
        let error = world.get(&elsewhere, &url).await.err().unwrap_or_else(|| panic!("{url} went out"));
        assert!(is_refusal(error.rule()), "{url}: {error}");
    }
    assert_eq!(listener.connections(), 0);

    let opened = open(&["127.0.0.0/8", "::1"], listener.port());
    for url in ["http://127.0.0.1:PORT/", "http://localhost:PORT/", "http://[::1]:PORT/"] {
        let url = url.replace("PORT", &listener.port().to_string());
        assert_eq!(world.text(&opened, &url).await.unwrap(), "reached", "the listener is there: {url}");
    }
}

#[tokio::test]
async fn no_redirect_leads_to_a_local_listener() {
    let listener = Server::start("[::]:0", |_| ok("reached")).await;
    let port = listener.port().to_string();
    let spelled: Vec<String> = SPELLINGS.iter().map(|url| url.replace("PORT", &port)).collect();
    let places = spelled.clone();
    let first = Server::start("127.0.0.2:0", move |request| {
        let number: usize = path(request).trim_start_matches('/').parse().unwrap();
        let location: String = places[number].chars().filter(char::is_ascii).collect();
        redirect(302, &location)
    })
    .await;
    let world = World::new();
    world.names.say("localhost", &[&["::1", "127.0.0.1"]]);
    let way = way(
        1,
        [opening("127.0.0.2", first.port(), Scheme::Http), opening("203.0.113.0/24", listener.port(), Scheme::Http)],
    );
    // Without slashes it is a path of the host that redirects, which is no way out.
    let absolute = |url: &str| url.is_ascii() && !url.starts_with("http:127");
    for (number, url) in spelled.iter().enumerate().filter(|(_, url)| absolute(url)) {
        let error = world.get(&way, first.url(&format!("/{number}")).as_str()).await.err();
        let error = error.unwrap_or_else(|| panic!("{url} was followed"));
        assert!(is_refusal(error.rule()), "{url}: {error}");
    }
    assert_eq!(listener.connections(), 0);
}

#[tokio::test]
async fn a_name_with_one_bad_address_is_refused_whole() {
    let listener = Server::start("[::]:0", |_| ok("reached")).await;
    let world = World::new();
    let way = open(&["203.0.113.0/24"], listener.port());
    let bad = [
        "127.0.0.1",
        "::1",
        "0.0.0.0",
        "::",
        "::ffff:127.0.0.1",
        "10.0.0.1",
        "192.168.0.1",
        "172.16.0.1",
        "100.64.0.1",
        "169.254.169.254",
        "168.63.129.16",
        "fd00:ec2::254",
        "fe80::1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
    ];
    for address in bad {
        for answer in [[address].as_slice(), &["203.0.113.9", address], &[address, "203.0.113.9"]] {
            world.names.say("host.test", &[answer]);
            let error = world.get(&way, &format!("http://host.test:{}/", listener.port())).await.err().unwrap();
            assert!(is_refusal(error.rule()), "{answer:?}: {error}");
        }
    }
    assert_eq!(listener.connections(), 0);
}

#[tokio::test]
async fn metadata_services_and_own_ports_cannot_be_opened() {
    let own = Server::start("127.0.0.1:0", |_| ok("reached")).await;
    let world = World::new();
    let port = own.port();
    let way =
        open(&["0.0.0.0/0", "::/0", "metadata.google.internal", "metadata.goog", "instance-data", "inside.test"], port);
    world.names.say("inside.test", &[&["169.254.169.254"]]);
    world.names.say("metadata.google.internal", &[&["127.0.0.1"]]);
    for host in [
        "169.254.169.254",
        "168.63.129.16",
        "[fd00:ec2::254]",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "metadata.google.internal",
        "METADATA.google.internal.",
        "metadata.goog",
        "instance-data",
        "inside.test",
    ] {
        let error = world.get(&way, &format!("http://{host}:{port}/")).await.err().unwrap();
        assert_eq!(error.rule(), Rule::Never, "{host}: {error}");
    }
    assert_eq!(world.names.asked("metadata.google.internal"), 0, "not even looked up");

    let url = own.url("/").to_string();
    assert_eq!(world.text(&way, &url).await.unwrap(), "reached");
    world.connector.listen(vec![([0, 0, 0, 0], port).into()]);
    for url in [url, format!("http://127.9.9.9:{port}/"), format!("http://[::1]:{port}/")] {
        let error = world.get(&way, &url).await.err().unwrap();
        assert_eq!(error.rule(), Rule::Never, "{url}: {error}");
    }
    assert_eq!(own.connections(), 1);
}

#[tokio::test]
async fn what_is_refused_is_refused_by_its_rule_and_says_what_to_do() {
    let world = World::new();
    world.names.say("intranet.test", &[&["10.0.0.5"]]);
    world.names.say("public.test", &[&["93.184.216.34"]]);
    let nothing = way(1, []);
    let listed = way(1, []).within(toolgate_egress::HostList::parse(&["api.test"]).unwrap());
    for (way, url, rule, code, remedy) in [
        (&nothing, "ftp://public.test/", Rule::Scheme, ErrorCode::PolicyDenied, "https"),
        (&nothing, "file:///etc/passwd", Rule::Scheme, ErrorCode::PolicyDenied, "https"),
        (&nothing, "unix:/run/docker.sock", Rule::Scheme, ErrorCode::PolicyDenied, "https"),
        (&nothing, "data:text/plain,x", Rule::Scheme, ErrorCode::PolicyDenied, "https"),
        (&nothing, "gopher://public.test/", Rule::Scheme, ErrorCode::PolicyDenied, "https"),
        (&nothing, "ws://public.test/", Rule::Scheme, ErrorCode::PolicyDenied, "https"),
        (
            &nothing,
            "http://public.test/",
            Rule::Scheme,
            ErrorCode::PolicyDenied,
            "open public.test --port 80 --scheme http",
        ),
        (
            &nothing,
            "https://public.test:8443/",
            Rule::Port,
            ErrorCode::PolicyDenied,
            "open public.test --port 8443 --reason",
        ),
        (&nothing, "https://public.test:0/", Rule::Url, ErrorCode::ValidationError, "port"),
        (&nothing, "https://u:p@public.test/", Rule::Url, ErrorCode::ValidationError, "secret"),
        (
            &nothing,
            "https://intranet.test/",
            Rule::Address,
            ErrorCode::PolicyDenied,
            "open intranet.test --port 443 --reason",
        ),
        (&nothing, "https://[fd12::1]/", Rule::Address, ErrorCode::PolicyDenied, "open fd12::1 --port 443 --reason"),
        (&nothing, "https://nowhere.test/", Rule::Dns, ErrorCode::NetworkError, "name"),
        (&listed, "https://public.test/", Rule::Hosts, ErrorCode::PolicyDenied, "list"),
    ] {
        let secret = format!("{url}{}q=hunter2", if url.contains('?') { "&" } else { "?" });
        let error = world.get(way, &secret).await.err().unwrap();
        assert_eq!(error.rule(), rule, "{url}: {error}");
        assert!(error.remedy().contains(remedy), "{url}: {error}");
        let told = ToolError::from(error);
        assert_eq!(told.code, code, "{url}");
        assert!(!serde_json::to_string(&told).unwrap().contains("hunter2"), "{url}: {told:?}");
        assert!(!told.message.contains("10.0.0.5"), "an address that a name resolved to is not told: {}", told.message);
    }
    for name in ["http://public.test/", "https://public.test:8443/"] {
        assert!(world.get(&nothing, name).await.is_err());
    }
    assert_eq!(world.names.asked("public.test"), 0, "what cannot go out is not looked up");
}

#[tokio::test]
async fn an_opening_holds_for_its_tenant_tool_port_scheme_and_time() {
    let server = Server::start("127.0.0.1:0", |_| ok("reached")).await;
    let world = World::new();
    world.names.say("wiki.test", &[&["127.0.0.1"]]);
    let base = opening("wiki.test", server.port(), Scheme::Http);
    let url = format!("http://wiki.test:{}/", server.port());
    let acme = |way| crate::world::of_tenant(way, 1, "acme");
    let tool = |name: &str| name.parse::<toolgate_contracts::ToolName>().unwrap();

    let mut of_acme = base.clone();
    of_acme.tenants = Some(vec!["acme".parse().unwrap()]);
    let mut of_tool = base.clone();
    of_tool.tools = Some(vec![tool("wiki_read")]);
    let mut until = base.clone();
    until.expires_at = Some(crate::world::NOW.plus_seconds(60));
    let mut other_port = base.clone();
    other_port.port += 1;
    let mut other_scheme = base.clone();
    other_scheme.scheme = Scheme::Https;

    for (spec, way, expected) in [
        (&base, way(1, [base.clone()]), true),
        (&of_acme, acme(way(1, [of_acme.clone()])), true),
        (&of_acme, way(1, [of_acme.clone()]), false),
        (&of_acme, crate::world::of_tenant(way(1, [of_acme.clone()]), 2, "other"), false),
        (&of_tool, way(1, [of_tool.clone()]).for_tool(tool("wiki_read")), true),
        (&of_tool, way(1, [of_tool.clone()]).for_tool(tool("wiki_write")), false),
        (&of_tool, way(1, [of_tool.clone()]), false),
        (&until, way(1, [until.clone()]), true),
        (&other_port, way(1, [other_port.clone()]), false),
        (&other_scheme, way(1, [other_scheme.clone()]), false),
    ] {
        let answer = world.get(&way, &url).await;
        assert_eq!(answer.is_ok(), expected, "{spec:?}");
        if let Ok(answer) = answer {
            assert_eq!(answer.openings, [crate::world::opening_id(1)], "the use is told");
        }
    }
    world.clock.advance(60);
    assert!(world.get(&way(1, [until]), &url).await.is_err(), "it has expired");
}

#[tokio::test]
async fn an_endpoint_of_the_operator_is_open_and_what_it_redirects_to_is_not() {
    let other = Server::start("127.0.0.3:0", |_| ok("reached")).await;
    let location = other.url("/").to_string();
    let server = Server::start("127.0.0.1:0", move |request| match path(request) {
        "/" => ok("here"),
        _ => redirect(302, &location),
    })
    .await;
    let world = World::new();
    let endpoint = toolgate_egress::Endpoint::parse("127.0.0.1", server.port()).unwrap();
    let way = way(1, []).to_endpoint(endpoint);
    assert_eq!(world.text(&way, server.url("/").as_str()).await.unwrap(), "here");
    assert_eq!(world.get(&way, server.url("/away").as_str()).await.err().unwrap().rule(), Rule::Scheme);
    assert_eq!(other.connections(), 0);
    assert!(world.connector.judge(&way, &server.url("/")).is_ok());
    assert!(world.connector.judge(&way, &other.url("/")).is_err());
    assert!(world.connector.send(&way, Request::get(other.url("/"))).await.is_err());
}
