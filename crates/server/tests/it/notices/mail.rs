//! Mail to those who decide, over a relay that the test plays.

use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use toolgate_contracts::{ApprovalId, CallId, Clock, Id, NoticeType, Rng, RunId};
use toolgate_engine::notify::News;
use toolgate_server::App;
use toolgate_server::deliver::Courier;
use toolgate_store::Change;
use tower::ServiceExt as _;

use super::SENTINEL;
use crate::world::{Answer, As, send, with_settings};

/// One mail as the relay took it.
#[derive(Clone, Debug)]
struct Taken {
    from: String,
    to: Vec<String>,
    text: String,
}

struct Relay {
    port: u16,
    taken: Arc<Mutex<Vec<Taken>>>,
    /// Recipients that it refuses.
    refuses: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Relay {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (taken, refuses) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let shared = (Arc::clone(&taken), Arc::clone(&refuses));
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (taken, refuses) = (Arc::clone(&shared.0), Arc::clone(&shared.1));
                tokio::spawn(async move { speak(stream, &taken, &refuses).await });
            }
        });
        Self { port, taken, refuses, task }
    }

    fn taken(&self) -> Vec<Taken> {
        std::mem::take(&mut self.taken.lock().unwrap())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn speak(stream: TcpStream, taken: &Mutex<Vec<Taken>>, refuses: &Mutex<Vec<String>>) {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    let mut mail = Taken { from: String::new(), to: Vec::new(), text: String::new() };
    write.write_all(b"220 relay.test\r\n").await.unwrap();
    while let Ok(Some(line)) = lines.next_line().await {
        let word = line.split([' ', ':']).next().unwrap_or_default().to_ascii_uppercase();
        let answer = match word.as_str() {
            "EHLO" => "250-relay.test\r\n250 8BITMIME",
            "MAIL" => {
                mail.from = line;
                "250 ok"
            }
            "RCPT" if refuses.lock().unwrap().iter().any(|refused| line.contains(refused.as_str())) => "550 nobody",
            "RCPT" => {
                mail.to.push(line.split(['<', '>']).nth(1).unwrap().to_owned());
                "250 ok"
            }
            "DATA" => {
                write.write_all(b"354 go on\r\n").await.unwrap();
                while let Ok(Some(line)) = lines.next_line().await {
                    if line == "." {
                        break;
                    }
                    mail.text += &line;
                    mail.text.push('\n');
                }
                taken.lock().unwrap().push(mail.clone());
                "250 taken"
            }
            "QUIT" => "221 bye",
            _ => "250 ok",
        };
        write.write_all(format!("{answer}\r\n").as_bytes()).await.unwrap();
    }
}

async fn user(app: &App, name: &str, roles: &[&str], email: Option<&str>) -> Answer {
    let body = json!({"name": name, "roles": roles, "email": email, "workspaces": ["main"]});
    send(app.router(), &As::Owner, "POST", "/api/v1/users", body).await
}

/// As a call that is parked tells of itself; its arguments are nowhere in it.
async fn ask(app: &App, notice_type: NoticeType) -> ApprovalId {
    let snapshot = app.registry.snapshot();
    let registry = snapshot.tenant_by_slug("default").unwrap();
    let (approval, call): (ApprovalId, CallId) = (id(), id());
    let run: RunId = id();
    let mut change = Change::new(registry.tenant.id);
    let workspace = registry.workspaces.keys().next().copied();
    let news = News::of_approval(notice_type, approval, call, run, "send_email", "pending").in_workspace(workspace);
    app.engine.tell(&mut change, registry, news);
    app.store.commit(change).await.unwrap();
    approval
}

fn id<K>() -> Id<K> {
    Id::new(&Clock::System, &Rng::System)
}

async fn deliver(app: &App) {
    Courier::new(app.clone()).deliver_due().await.map_err(|fault| format!("{fault:?}")).unwrap();
}

async fn app_with(relay: &Relay, public_url: &str) -> (App, tempfile::TempDir) {
    let smtp = format!("smtp://127.0.0.1:{}?tls=none", relay.port);
    let settings =
        [("smtp", smtp.as_str()), ("mail_from", "Toolgate <toolgate@example.com>"), ("public_url", public_url)];
    let opened = with_settings(&settings).await;
    for (name, roles, email) in [
        ("ann", ["approver"].as_slice(), Some("ann@example.com")),
        ("bob", &["admin"], Some("bob@example.com")),
        ("cat", &["member"], Some("cat@example.com")),
        ("dan", &["approver"], None),
    ] {
        user(&opened.0, name, roles, email).await.ok();
    }
    opened
}

#[tokio::test]
async fn those_who_decide_get_a_mail_with_a_link_that_holds_no_argument() {
    let relay = Relay::start().await;
    let (app, _folder) = app_with(&relay, "https://tools.example.com").await;
    let approval = ask(&app, NoticeType::ApprovalRequested).await;
    deliver(&app).await;
    let mut taken = relay.taken();
    taken.sort_by(|one, other| one.to.cmp(&other.to));
    let to: Vec<&[String]> = taken.iter().map(|mail| mail.to.as_slice()).collect();
    assert_eq!(to, [["ann@example.com"], ["bob@example.com"]], "one mail each, to those who may decide");
    for mail in &taken {
        assert!(mail.from.contains("<toolgate@example.com>"), "{mail:?}");
        assert!(mail.text.contains("Subject: Toolgate: send_email waits for approval"), "{}", mail.text);
        assert!(mail.text.contains(&format!("https://tools.example.com/approvals/{approval}\n")), "{}", mail.text);
        assert!(!mail.text.contains(SENTINEL) && !mail.text.contains('#'), "{}", mail.text);
    }
    deliver(&app).await;
    assert_eq!(relay.taken().len(), 0, "once");
    ask(&app, NoticeType::ApprovalReminder).await;
    ask(&app, NoticeType::ApprovalDecided).await;
    deliver(&app).await;
    let reminders = relay.taken();
    assert_eq!(reminders.len(), 2, "of a decision nobody is told by mail");
    assert!(reminders[0].text.contains("still waits"), "{}", reminders[0].text);
}

#[tokio::test]
async fn where_no_link_would_lead_here_the_mail_names_the_command() {
    for public_url in ["", "http://localhost:8787", "https://127.0.0.1", "http://[::1]:8787"] {
        let relay = Relay::start().await;
        let (app, _folder) = app_with(&relay, public_url).await;
        let approval = ask(&app, NoticeType::ApprovalRequested).await;
        deliver(&app).await;
        let mail = relay.taken().remove(0);
        assert!(mail.text.contains(&format!("toolgate approvals show {approval}")), "{}", mail.text);
        assert!(!mail.text.contains("http"), "{public_url}: {}", mail.text);
    }
}

#[tokio::test]
async fn whom_the_relay_refuses_is_tried_again_and_nobody_gets_it_twice() {
    let relay = Relay::start().await;
    let (app, _folder) = app_with(&relay, "https://tools.example.com").await;
    relay.refuses.lock().unwrap().push("ann@".into());
    ask(&app, NoticeType::ApprovalRequested).await;
    deliver(&app).await;
    assert_eq!(relay.taken().iter().map(|mail| mail.to.clone()).collect::<Vec<_>>(), [["bob@example.com"]]);
    relay.refuses.lock().unwrap().clear();
    deliver(&app).await;
    assert_eq!(relay.taken().len(), 0, "not before its time");
    app.clock.advance(5);
    deliver(&app).await;
    assert_eq!(relay.taken().iter().map(|mail| mail.to.clone()).collect::<Vec<_>>(), [["ann@example.com"]]);
}

#[tokio::test]
async fn a_tenant_may_do_without_mail_and_without_a_relay_none_is_written() {
    let relay = Relay::start().await;
    let (app, _folder) = app_with(&relay, "https://tools.example.com").await;
    send(app.router(), &As::Owner, "PUT", "/api/v1/settings", json!({"mail_approvers": false})).await.ok();
    ask(&app, NoticeType::ApprovalRequested).await;
    deliver(&app).await;
    assert_eq!(relay.taken().len(), 0);
    let (without, _folder) = with_settings(&[]).await;
    ask(&without, NoticeType::ApprovalRequested).await;
    assert_eq!(without.store.due_addressees(without.clock.now(), 10).await.unwrap(), []);
}

/// Test 56: whatever reads a mail before people do opens its link, and nothing is decided.
#[tokio::test]
async fn opening_the_link_of_a_mail_decides_nothing() {
    let relay = Relay::start().await;
    let (app, _folder) = app_with(&relay, "https://tools.example.com").await;
    ask(&app, NoticeType::ApprovalRequested).await;
    deliver(&app).await;
    let mail = relay.taken().remove(0);
    let link = mail.text.lines().find_map(|line| line.trim().strip_prefix("https://tools.example.com")).unwrap();
    let entries = async || {
        let listed = send(app.router(), &As::Owner, "GET", "/api/v1/audit/entries?limit=500", json!(null)).await.ok();
        listed["items"].as_array().unwrap().len()
    };
    let before = entries().await;
    for method in ["GET", "HEAD", "POST"] {
        let request = axum::http::Request::builder().method(method).uri(link).header("host", "tools.example.com");
        let request = request.body(axum::body::Body::empty()).unwrap();
        let response = toolgate_server::outer(&app).oneshot(request).await.unwrap();
        assert!(response.headers().get("set-cookie").is_none(), "{method} signs nobody in");
    }
    assert_eq!(entries().await, before, "nothing happened that the log would have");
}

/// What the mail says behind `marker`, once lines are whole again.
fn link_in(mail: &Taken, marker: &str) -> String {
    let text = mail.text.replace("=\n", "").replace("=3D", "=");
    let (_, rest) = text.split_once(marker).unwrap_or_else(|| panic!("no {marker} in {text}"));
    rest.split_whitespace().next().unwrap().to_owned()
}

#[tokio::test]
async fn invitations_and_links_for_new_passwords_go_by_mail_where_there_is_a_relay() {
    let relay = Relay::start().await;
    let (app, _folder) = app_with(&relay, "https://tools.example.com").await;
    let post = async |who: &As, path: &str, body| send(app.router(), who, "POST", path, body).await;
    let sent = post(&As::Owner, "/api/v1/invitations", json!({"name": "eve", "email": "eve@example.com"})).await.ok();
    assert_eq!((sent["mailed_to"].as_str(), sent.get("url")), (Some("eve@example.com"), None));
    let mail = relay.taken().pop().unwrap();
    assert_eq!(mail.to, ["eve@example.com"]);
    let token = link_in(&mail, "https://tools.example.com/invite#");
    let password = "a lamp in the hall";
    let accepted =
        post(&As::Nobody, "/api/v1/session/invitation/accept", json!({"token": token, "password": password}));
    assert_eq!(accepted.await.status, 204);
    // Shown on request, and where there is no address.
    for body in [json!({"name": "f", "email": "f@example.com", "show": true}), json!({"name": "g"})] {
        assert!(post(&As::Owner, "/api/v1/invitations", body).await.ok()["url"].is_string());
    }
    // What the relay refuses is shown instead, with the reason.
    relay.refuses.lock().unwrap().push("h@example.com".to_owned());
    let sent = post(&As::Owner, "/api/v1/invitations", json!({"name": "h", "email": "h@example.com"})).await.ok();
    assert!(sent["url"].is_string() && sent["mail_failed"].is_string(), "{sent:#}");
    assert!(relay.taken().is_empty());

    // Whoever asks for a new password gets it at the address that is known, and nowhere else.
    for user in ["eve", "nobody", "dan", "EVE@example.com"] {
        assert_eq!(post(&As::Nobody, "/api/v1/session/reset", json!({"user": user})).await.status, 202);
    }
    let mut mails = Vec::new();
    while mails.len() < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        mails.extend(relay.taken());
    }
    assert!(mails.iter().all(|mail| mail.to == ["eve@example.com"]), "{mails:?}");
    let token = link_in(&mails[0], "https://tools.example.com/reset#");
    let finish = json!({"token": token, "password": "a chair by the door"});
    assert_eq!(post(&As::Nobody, "/api/v1/session/reset/finish", finish).await.status, 204);
    let sent = post(&As::Owner, "/api/v1/users/eve/reset", json!({})).await.ok();
    assert_eq!(sent["mailed_to"], "eve@example.com");
    assert_eq!(relay.taken().len(), 1);
}
