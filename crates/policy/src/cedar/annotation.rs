//! What the annotations of a policy say: its name, how a person is asked, and whether it is only tried out.

use toolgate_contracts::Role;
use toolgate_contracts::caller::Principal;
use toolgate_contracts::definition::{Approvers, HitlMode};

use super::Action;
use super::finding::{Gravity, PolicyFinding, nearest, shown};
use super::rule::Effect;
use super::source::Source;

const KNOWN: [&str; 5] = ["id", "reason", "mode", "approvers", "log_only"];
const ID_CHARS_MAX: usize = 100;
const REASON_CHARS_MAX: usize = 500;
/// More approvers than anybody waits for.
const APPROVERS_NEED_MAX: u32 = 20;
/// What an ask without a policy is called; no policy may bear the name.
pub(super) const NO_PERMIT: &str = "no permit";

#[derive(Clone, Debug, Default)]
pub(super) struct Annotations {
    pub id: String,
    pub reason: Option<String>,
    pub mode: Option<HitlMode>,
    pub approvers: Option<Approvers>,
    pub log_only: bool,
}

/// One policy as far as its annotations depend on it.
pub(super) struct Annotated<'a> {
    pub place: usize,
    pub effect: Effect,
    pub actions: &'a [Action],
    pub said: Vec<(&'a str, &'a str)>,
}

impl Annotations {
    pub fn read(policy: &Annotated<'_>, source: &Source<'_>, findings: &mut Vec<PolicyFinding>) -> Self {
        let Annotated { place, effect, actions, said } = policy;
        let by_place = format!("policy {}", place + 1);
        let id = said.iter().find(|(name, _)| *name == "id").map_or(by_place, |(_, id)| (*id).to_owned());
        let mut all = Self { id: id.clone(), ..Self::default() };
        let mut find = |gravity, name: &str, message: String, remedy: String| {
            let offset = source.annotation(*place, name);
            findings.push(source.finding(gravity, "policy.annotation", Some(&id), offset, message, remedy));
        };
        for (name, value) in said {
            let refused = match *name {
                "id" => id_problem(value),
                "reason" => {
                    all.reason = Some((*value).to_owned());
                    (value.is_empty() || value.chars().count() > REASON_CHARS_MAX).then(|| {
                        (
                            "`@reason` is empty or too long".into(),
                            format!("say it in 1 to {REASON_CHARS_MAX} characters"),
                        )
                    })
                }
                "mode" => match value.parse() {
                    Ok(mode) => {
                        all.mode = Some(mode);
                        None
                    }
                    Err(why) => Some((format!("`@mode`: {why}"), "choose one of the three modes".into())),
                },
                "approvers" => match approvers(value) {
                    Ok(approvers) => {
                        all.approvers = Some(approvers);
                        None
                    }
                    Err(why) => Some((
                        format!("`@approvers`: {why}"),
                        "write `2 of role:approver` or `role:approver, user:ID`".into(),
                    )),
                },
                "log_only" => {
                    all.log_only = *value == "true";
                    log_only_problem(value, *effect)
                }
                other => Some((
                    format!("`@{}` means nothing here", shown(other)),
                    match nearest(other, KNOWN) {
                        Some(known) => format!("did you mean `@{known}`? A remark is a comment: `// …`"),
                        None => format!("known are @{}; a remark is a comment: `// …`", KNOWN.join(", @")),
                    },
                )),
            };
            if let Some((message, remedy)) = refused {
                find(Gravity::Error, name, message, remedy);
                continue;
            }
            let asks = *effect == Effect::Forbid && actions.contains(&Action::CallUnattended);
            if matches!(*name, "mode" | "approvers") && !asks {
                find(
                    Gravity::Error,
                    name,
                    format!("`@{name}` says how a person is asked, and this policy never asks"),
                    "put it on a `forbid` with `action == Action::\"call_unattended\"`, or leave it out".into(),
                );
            } else if matches!(*name, "mode" | "approvers") && actions.contains(&Action::Call) {
                find(
                    Gravity::Error,
                    name,
                    format!("`@{name}` says how a person is asked, and this policy denies the call instead"),
                    "narrow the policy to `action == Action::\"call_unattended\"`".into(),
                );
            }
        }
        all
    }
}

fn id_problem(id: &str) -> Option<(String, String)> {
    let remedy =
        format!("choose a name of 1 to {ID_CHARS_MAX} visible characters, for example `@id(\"large-payments\")`");
    if id.is_empty() || id.chars().count() > ID_CHARS_MAX || id.chars().any(char::is_control) {
        return Some(("`@id` is empty, too long or has control characters".into(), remedy));
    }
    (id == NO_PERMIT).then(|| (format!("`@id(\"{NO_PERMIT}\")` is taken: it means that no policy permits"), remedy))
}

fn log_only_problem(value: &str, effect: Effect) -> Option<(String, String)> {
    if value != "true" {
        let message = format!("`@log_only` is `{}`, expected `true`", shown(value));
        return Some((message, "write `@log_only(\"true\")`, or leave it out to enforce the policy".into()));
    }
    (effect == Effect::Permit).then(|| {
        (
            "`@log_only` on a `permit` would have no effect: a permit that is only logged permits nothing".into(),
            "leave it out, or delete the policy".into(),
        )
    })
}

/// `2 of role:approver`, `role:approver, user:ID`.
fn approvers(text: &str) -> Result<Approvers, String> {
    let (need, from) = match text.split_once(" of ") {
        None => (1, text),
        Some((need, from)) => {
            let need = need.trim();
            let read = need.parse::<u32>().ok().filter(|need| (1..=APPROVERS_NEED_MAX).contains(need));
            let wrong = || format!("`{}` is not a number from 1 to {APPROVERS_NEED_MAX}", shown(need));
            (read.ok_or_else(wrong)?, from)
        }
    };
    let mut listed = Vec::new();
    let mut has_role = false;
    for one in from.split(',').map(str::trim) {
        match one.split_once(':') {
            Some(("role", role)) => {
                role.parse::<Role>()?;
                has_role = true;
            }
            Some(("user", _)) => {
                one.parse::<Principal>().map_err(|_| format!("`{}` is not `user:` and the user's id", shown(one)))?;
            }
            _ => return Err(format!("`{}` is neither `role:ROLE` nor `user:ID`", shown(one))),
        }
        if listed.iter().any(|known| known == one) {
            return Err(format!("`{}` is listed twice", shown(one)));
        }
        listed.push(one.to_owned());
    }
    if !has_role && listed.len() < usize::try_from(need).unwrap_or(usize::MAX) {
        return Err(format!("{need} are needed and {} are listed", listed.len()));
    }
    Ok(Approvers { need, from: listed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn approvers_are_counted_and_named() {
        let user = "user:0192f0c1-7b1e-7c3a-8a55-1c2d3e4f5a6b";
        let check = |text: &str, expected: Result<(u32, &[&str]), &str>| match (approvers(text), expected) {
            (Ok(Approvers { need, from }), Ok((wanted, who))) => assert!(need == wanted && from == who, "{text}"),
            (Err(why), Err(part)) => assert!(why.contains(part), "{text}: {why}"),
            (got, _) => panic!("{text}: {got:?}"),
        };
        check("role:approver", Ok((1, &["role:approver"])));
        check("2 of role:approver", Ok((2, &["role:approver"])));
        check(&format!("role:admin, {user}"), Ok((1, &["role:admin", user])));
        check("0 of role:approver", Err("not a number from 1"));
        check("-1 of role:approver", Err("not a number from 1"));
        check("99 of role:approver", Err("not a number from 1"));
        check("role:aprover", Err("is not a role"));
        check("user:anna", Err("user's id"));
        check("anna", Err("neither"));
        check("", Err("neither"));
        check("role:admin, role:admin", Err("twice"));
        check(&format!("2 of {user}"), Err("2 are needed and 1 are listed"));
    }
}
