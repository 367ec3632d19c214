//! Servers of others by the command line: one that cannot be read yet is kept, shown and named, and nothing waits for it.

use serde_json::json;

use crate::commands::Tour;

pub fn tour(tour: &mut Tour) {
    let header = "Authorization: Bearer ISSUES_TOKEN";
    let added =
        tour.ok(&["upstream", "add", "issues", "--url", "https://mcp.example.com/mcp", "--secret-header", header]);
    let expected = json!([{"name": "Authorization", "secret": "ISSUES_TOKEN", "scheme": "Bearer"}]);
    assert_eq!((&added["headers"], &added["moved"]), (&expected, &json!(false)), "{added}");
    assert!(added["problem"].as_str().unwrap().contains("ISSUES_TOKEN"), "{added}");
    assert_eq!(tour.ok(&["upstream", "list"])["items"][0]["name"], "issues");
    assert_eq!(tour.ok(&["upstream", "show", "issues"])["offers"], json!([]));
    tour.run(&["upstream", "test", "issues"], 1);
    tour.run(&["upstream", "refresh", "issues"], 1);
    assert_eq!(tour.ok(&["upstream", "review", "issues"])["suggestions"], json!([]));
    tour.run(&["upstream", "review", "issues", "--class", "search=read_only", "--reason", "looked"], 1);
    let spec = json!({"version": 1, "transport": {"kind": "sse", "url": "https://mcp.example.com/sse"}}).to_string();
    let file = tour.home.write("issues.json", &spec);
    assert_eq!(tour.ok(&["upstream", "add", "issues", "--file", &file])["moved"], json!(true));
    tour.run(&["upstream", "accept", "issues"], 2);
    let seen = tour.ok(&["upstream", "show", "issues"])["seen"].as_str().unwrap().to_owned();
    let other = "0000000000000000000000000000000000000000000000000000000000000000";
    tour.run(&["upstream", "accept", "issues", "--seen", other], 1);
    tour.run(&["upstream", "accept", "issues", "--seen", &seen, "--tool", "search"], 2);
    tour.run(&["upstream", "refuse", "issues"], 2);
    tour.run(&["upstream", "refuse", "issues", "--seen", &seen, "--reason", "nothing waits there"], 1);
    assert_eq!(tour.ok(&["upstream", "accept", "issues", "--seen", &seen])["accepted"], json!([]));
    assert_eq!(tour.ok(&["upstream", "show", "issues"])["moved"], json!(false));
    tour.run(&["upstream", "add", "files", "--entry", "nothing"], 2);
    tour.run(&["upstream", "connect", "issues", "--answer", "http://127.0.0.1:9/callback?code=x"], 1);
    let wanting =
        ["upstream", "add", "mail", "--url", "https://mail.example.com/mcp", "--oauth", "--oauth-per", "user"];
    assert_eq!(tour.ok(&wanting)["auth"], json!({"oauth": {"grant": "code", "per": "user"}}));
    tour.run(&["upstream", "connect", "mail", "--answer", "http://127.0.0.1:9/callback?code=x"], 1);
    tour.run(&["upstream", "disconnect", "mail", "--scope", "user"], 1);
    assert_eq!(tour.ok(&["upstream", "show", "mail"])["connections"], json!([]));
    assert_eq!(tour.ok(&["upstream", "remove", "mail"])["name"], "mail");
    assert_eq!(tour.ok(&["upstream", "remove", "issues"])["name"], "issues");
    tour.run(&["upstream", "show", "issues"], 1);
}
