//! Runs as the host would have recorded them, without one: what a model says and what calls give are made up here.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolgate_agents::conversation::{BoundBy, Offered, Proposed};
use toolgate_agents::replay::{
    Bundle, BundleAgent, BundleCall, BundlePolicy, BundleRun, BundleSubject, BundleTurn, FORMAT, Facts, OfferedAs,
    SealedBundle, Signature, Snapshot, SnapshotTool,
};
use toolgate_agents::{Conversation, Kind, Next, Plan, Stop, ToolCall, Turn, Usage, told};
use toolgate_contracts::definition::{EgressClass, Origin, Risk, Sink};
use toolgate_contracts::{
    CallId, Digest, Envelope, ErrorCode, Limits, Role, RunId, Status, Timestamp, ToolError, json as strict,
};
use toolgate_ledger::{Signer, statement};
use toolgate_registry::schema::{Validator, fill_defaults};
use toolgate_vault::RunKey;

pub const KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
pub const POLICY: &str = "@id(\"all\")\npermit (principal, action, resource);";
const RUN: &str = "01930000-0000-7000-8000-000000000001";
const T0: i64 = 1_800_000_000_000;

/// A run: what its model says, in order.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    turns: VecDeque<Turn>,
    limits: Limits,
    edit: Option<Value>,
    goes_on: bool,
}

pub fn say(text: &str) -> Turn {
    Turn {
        kind: Kind::OpenaiChat,
        model: "m".to_owned(),
        text: text.to_owned(),
        calls: Vec::new(),
        stop: Stop::End,
        usage: Usage { input: 10, cached: 0, output: 2 },
        usage_unknown: false,
        reported: Value::Null,
        own: json!({"role": "assistant", "content": text}),
        asked: None,
    }
}

pub fn call(tool: &str, input: &Value) -> Turn {
    say("").calling(tool, &input.to_string())
}

pub trait Saying {
    fn calling(self, tool: &str, arguments: &str) -> Turn;
    fn cut(self) -> Turn;
    fn refusing(self) -> Turn;
}

impl Saying for Turn {
    fn calling(mut self, tool: &str, arguments: &str) -> Turn {
        let id = format!("call_{}", self.calls.len());
        self.calls.push(ToolCall { id, name: tool.to_owned(), arguments: arguments.to_owned(), cut: false });
        Turn { stop: Stop::Tool, ..self }
    }

    fn cut(self) -> Turn {
        Turn { stop: Stop::Length, ..self }
    }

    fn refusing(self) -> Turn {
        Turn { stop: Stop::Refusal, ..self }
    }
}

impl Recorder {
    pub fn turn(mut self, turn: Turn) -> Self {
        self.turns.push_back(turn);
        self
    }

    pub fn turn_first(mut self, turn: Turn) -> Self {
        self.turns.push_front(turn);
        self
    }

    pub fn limits(mut self, limits: &Value) -> Self {
        self.limits = serde_json::from_value(limits.clone()).unwrap();
        self
    }

    /// A person puts this in the place of what was asked for.
    pub fn edits(mut self, input: &Value) -> Self {
        self.edit = Some(input.clone());
        self
    }

    /// What waits for a person is gone on without.
    pub fn goes_on(mut self) -> Self {
        self.goes_on = true;
        self
    }

    pub fn bundle(mut self) -> Bundle {
        let plan = self.plan();
        let mut conversation = Conversation::begin(&plan);
        let (mut turns, mut calls): (Vec<BundleTurn>, Vec<BundleCall>) = (Vec::new(), Vec::new());
        loop {
            match conversation.next() {
                Next::Ask(request) => {
                    let Some(mut response) = self.turns.pop_front() else { break };
                    response.asked = Some(request.digest());
                    conversation.heard(&response);
                    turns.push(BundleTurn { request: *request, usage: response.usage, response });
                }
                Next::Call(proposed) => {
                    let given: Vec<(Envelope, Option<Value>)> = proposed.iter().map(|one| self.given(one)).collect();
                    conversation.took(given.iter().map(|(envelope, _)| envelope.clone()).collect());
                    let made = &conversation.made()[calls.len()..];
                    calls.extend(made.iter().zip(given).map(|(made, (envelope, decision))| BundleCall {
                        seq: made.seq,
                        turn: made.turn,
                        envelope,
                        decision,
                        result_for_model: made.told.clone(),
                    }));
                }
                Next::Answered | Next::Ended(_) => break,
            }
        }
        let outputs = conversation.outputs(Some(format!("https://tools.example.com/runs/{RUN}")));
        Bundle {
            format: FORMAT.to_owned(),
            run: BundleRun {
                id: RUN.parse().unwrap(),
                agent: BundleAgent {
                    name: plan.agent.clone(),
                    id: plan.agent_id,
                    model: plan.model.clone(),
                    model_params: Map::new(),
                    system: plan.system.clone(),
                    output_tokens_max: plan.output_tokens_max,
                    by_name: false,
                },
                revision: plan.revision,
                prompt: plan.prompt.clone(),
                limits: plan.limits.clone(),
                labels: Vec::new(),
                run_key: KEY.to_owned(),
                started_at: Timestamp::from_millis(T0),
            },
            snapshot: Snapshot {
                tools: tools().into_iter().map(|(tool, class)| shown(&tool, class)).collect(),
                policy: BundlePolicy {
                    subject: Some(BundleSubject {
                        kind: "Agent".to_owned(),
                        id: "shop".to_owned(),
                        roles: vec![Role::Member],
                        workspace: Some("main".to_owned()),
                        owner: None,
                    }),
                    texts: BTreeMap::from([("1".to_owned(), POLICY.to_owned())]),
                    ..BundlePolicy::default()
                },
                guardrails: Vec::new(),
                profile: None,
            },
            turns,
            calls,
            events: Vec::new(),
            outputs,
            blobs: BTreeMap::new(),
        }
    }

    fn plan(&self) -> Plan {
        Plan {
            version: 1,
            agent: "shop".parse().unwrap(),
            agent_id: RUN.parse().unwrap(),
            revision: 3,
            model: "play/m".to_owned(),
            params: Map::new(),
            system: "Be brief.".to_owned(),
            prompt: "How many lamps?".to_owned(),
            tools: tools().into_iter().map(|(tool, _)| tool).collect(),
            by_name: false,
            limits: self.limits.effective(),
            output_tokens_max: 1_000,
            bound_by: BoundBy::default(),
        }
    }

    /// What the gate would have said, and what it decided.
    fn given(&self, proposed: &Proposed) -> (Envelope, Option<Value>) {
        let at = Timestamp::from_millis(T0 + i64::from(proposed.seq) * 1_000);
        let key = RunKey::from_base64(KEY).unwrap();
        let bare = |name: &str, version: &str, input: Value, error: Option<ToolError>| Envelope {
            id: CallId::from_uuid(RUN.parse::<RunId>().unwrap().uuid()),
            status: if error.is_some() { Status::Failed } else { Status::Completed },
            run_id: RUN.parse().unwrap(),
            call_id: String::new(),
            name: name.to_owned(),
            version: version.to_owned(),
            input,
            output: None,
            error,
            t_start: at,
            t_end: at,
            cached: false,
            truncated: false,
            attachments: Vec::new(),
            labels: Vec::new(),
            cost: None,
            receipt: None,
            warnings: Vec::new(),
            edited: false,
        };
        let id = |tool: &str, input: &Value| key.call_id(tool, &strict::canonical(input), proposed.seq);
        let input = match &proposed.input {
            Err((text, error)) => {
                let input = Value::from(text.as_str());
                let call_id = id(&proposed.tool, &input);
                return (Envelope { call_id, ..bare(&proposed.tool, "", input, Some(error.clone())) }, None);
            }
            Ok(input) => input.clone(),
        };
        let Some((tool, class)) = tools().into_iter().find(|(tool, _)| tool.tool == proposed.tool) else {
            let error = ToolError::because(ErrorCode::PolicyDenied, "not_found", "no such tool");
            let call_id = id(&proposed.tool, &input);
            return (Envelope { call_id, ..bare(&proposed.tool, "", input, Some(error)) }, None);
        };
        let mut filled = input;
        fill_defaults(&tool.input, &mut filled).unwrap();
        let call_id = id(&format!("{}@1.0.0", tool.tool), &filled);
        let mut decision =
            json!({"revision": 9, "verdict": "allow", "member": "assigned", "policy": 1, "asked_at": at});
        if !Validator::new(&tool.input).unwrap().is_valid(&filled) {
            decision["verdict"] = "deny".into();
            decision["refused_at"] = "validate".into();
            let error = ToolError::because(ErrorCode::ValidationError, "schema", "the input is not valid");
            return (Envelope { call_id, ..bare(&tool.tool, "1.0.0", filled, Some(error)) }, Some(decision));
        }
        let mut envelope = Envelope { call_id, ..bare(&tool.tool, "1.0.0", filled, None) };
        envelope.output = Some(json!({"hits": 3}));
        if class == EgressClass::Write {
            decision["verdict"] = "ask".into();
            decision["asking"] = asking("write", "");
            if self.goes_on {
                envelope.status = Status::Pending;
                envelope.output = None;
                envelope = told::pending(envelope);
            } else if let Some(edit) = &self.edit {
                envelope.input = edit.clone();
                decision["edited"] = true.into();
            }
        }
        (envelope, Some(decision))
    }
}

pub fn asking(code: &str, by: &str) -> Value {
    let mut reason = json!({"code": code, "text": "somebody asks"});
    if !by.is_empty() {
        reason["by"] = by.into();
    }
    json!({"reasons": [reason], "mode": "blocking", "person_required": true, "standing": true})
}

fn tools() -> Vec<(Offered, EgressClass)> {
    let tool = |name: &str, properties: Value| Offered {
        wire: name.to_owned(),
        tool: name.to_owned(),
        version: "1.0.0".to_owned(),
        description: "Does something.".to_owned(),
        input: json!({"type": "object", "additionalProperties": false, "properties": properties}),
    };
    let copies = json!({"to": {"type": "string"}, "copies": {"type": "integer", "default": 1}});
    vec![
        (tool("lookUp", json!({"q": {"type": "string"}})), EgressClass::ReadOnly),
        (tool("sendLetter", copies), EgressClass::Write),
    ]
}

fn shown(tool: &Offered, class: EgressClass) -> SnapshotTool {
    let Offered { wire, tool: name, version, description, input } = tool.clone();
    SnapshotTool {
        facts: Some(Facts {
            name: name.clone(),
            egress_class: class,
            risk: Risk::Safe,
            category: None,
            group: None,
            tags: Vec::new(),
            origin: Origin::Tenant,
            sink: Sink::None,
            input_schema: input.clone(),
            definition_digest: Digest::of(name.as_bytes()),
        }),
        name,
        version,
        offered: Some(OfferedAs { wire, description, input }),
    }
}

pub fn signer(seed: u8) -> Signer {
    Signer::from_seed("toolgate/0000000000000001/tenant".parse().unwrap(), &[seed; 32])
}

pub fn sealed(bundle: &Bundle, signer: &Signer) -> String {
    let digest = bundle.digest().unwrap();
    let note = statement::sign(signer, FORMAT, &digest).unwrap().to_string();
    let signature = Signature { key: signer.verifier().to_string(), note };
    serde_json::to_string(&SealedBundle { bundle: bundle.clone(), digest, signature }).unwrap()
}

/// Any run: of words and calls, good and bad ones, within any limits.
pub fn any() -> impl Strategy<Value = Recorder> {
    let tool = prop_oneof![Just("lookUp"), Just("sendLetter"), Just("noSuchTool"), Just("")];
    let arguments = prop_oneof![
        ".{0,8}".prop_map(|text| json!({"q": text}).to_string()),
        ".{0,8}".prop_map(|text| json!({"to": text}).to_string()),
        Just(json!({"q": 7}).to_string()),
        Just(json!({"to": "a", "copies": 2}).to_string()),
        ".{0,12}",
    ];
    let turn = (".{0,40}", prop::collection::vec((tool, arguments), 0..4), 0..10_u8).prop_map(|(text, calls, end)| {
        let turn = calls.iter().fold(say(&text), |turn, (tool, arguments)| turn.calling(tool, arguments));
        match end {
            0 => turn.cut(),
            1 => Turn { calls: Vec::new(), ..turn.refusing() },
            _ => turn,
        }
    });
    (prop::collection::vec(turn, 0..6), 1..6_u32, 0..8_u32, yes_or_no(), yes_or_no()).prop_map(
        |(turns, iterations, calls, goes_on, edits)| Recorder {
            turns: turns.into(),
            limits: Limits { max_iterations: Some(iterations), max_tool_calls: Some(calls), ..Limits::default() },
            edit: edits.then(|| json!({"to": "somebody else", "copies": 1})),
            goes_on,
        },
    )
}

fn yes_or_no() -> impl Strategy<Value = bool> {
    proptest::bool::ANY
}
