//! `prompts/list` and `prompts/get`: the skills that this caller has, as prompts that its user can choose.
//!
//! An address that is narrowed to a group of tools has none: a group is of tools, and it never widens.

use data_encoding::BASE64URL_NOPAD;
use serde_json::{Map, Value, json};
use toolgate_contracts::{Digest, Fault, Skill, SkillArgument, json as strict};
use toolgate_store::skills::StoredSkill;

use super::tools::cursor;
use super::{Client, Surface, page, text};
use crate::wire::{Revision, RpcError};

const PAGE_PROMPTS: usize = 100;
/// Under which a filled-in text says which skill it is of.
const SKILL: &str = "dev.toolgate/skill";

impl Surface {
    pub(super) fn list_prompts(&self, client: &Client, params: &Map<String, Value>) -> Result<Value, RpcError> {
        let after = cursor(params)?;
        let snapshot = self.registry.snapshot();
        let registry = snapshot.tenant(client.caller.tenant)?;
        // In the order of names, so that two lists of the same skills are the same bytes.
        let all = registry.skills_of(&client.caller).filter(|_| client.narrowed.group.is_none());
        let rest = all.filter(|skill| after.as_deref().is_none_or(|after| skill.spec.name.as_str() > after));
        let listed: Vec<&StoredSkill> = rest.take(PAGE_PROMPTS + 1).map(AsRef::as_ref).collect();
        let next = (listed.len() > PAGE_PROMPTS).then(|| listed.get(PAGE_PROMPTS - 1)).flatten();
        let next = next.map(|last| BASE64URL_NOPAD.encode(last.spec.name.as_str().as_bytes()));
        let items = listed.iter().take(PAGE_PROMPTS).map(|skill| shown(&skill.spec, client.revision)).collect();
        Ok(page("prompts", items, next, client.revision))
    }

    /// All pages of them, in short.
    pub(super) fn all_prompts(&self, client: &Client) -> Digest {
        let snapshot = self.registry.snapshot();
        let all: Vec<Value> = match snapshot.tenant(client.caller.tenant) {
            Ok(registry) if client.narrowed.group.is_none() => {
                registry.skills_of(&client.caller).map(|skill| shown(&skill.spec, client.revision)).collect()
            }
            _ => Vec::new(),
        };
        strict::digest(&all.into())
    }

    pub(super) async fn get_prompt(&self, client: &Client, params: &Map<String, Value>) -> Result<Value, RpcError> {
        let name = text(params, "name")?;
        if client.narrowed.group.is_some() {
            return Err(Fault::not_found("skill", name).into());
        }
        let none = Map::new();
        let arguments = match params.get("arguments") {
            None | Some(Value::Null) => &none,
            Some(Value::Object(arguments)) => arguments,
            Some(_) => return Err(RpcError::invalid_params("`arguments` has to be an object")),
        };
        let filled = self.registry.fill_skill(&client.caller, name, arguments).await?;
        Ok(json!({
            "description": filled.skill.spec.description,
            "messages": [{"role": "user", "content": {"type": "text", "text": filled.text}}],
            "_meta": {SKILL: {"name": name, "digest": filled.skill.digest, "tools": filled.skill.spec.tools}},
        }))
    }
}

fn shown(skill: &Skill, revision: Revision) -> Value {
    let Skill { name, title, description, arguments, tools: _, icon } = skill;
    let mut prompt = Map::new();
    prompt.insert("name".into(), name.as_str().into());
    if let Some(title) = title.as_ref().filter(|_| revision.has_structure()) {
        prompt.insert("title".into(), title.as_str().into());
    }
    prompt.insert("description".into(), description.as_str().into());
    let arguments: Vec<Value> = arguments.iter().map(|argument| taken(argument, revision)).collect();
    prompt.insert("arguments".into(), arguments.into());
    if let Some(icon) = icon.as_ref().filter(|_| revision.has_icons()) {
        prompt.insert("icons".into(), json!([{"src": icon}]));
    }
    Value::Object(prompt)
}

fn taken(argument: &SkillArgument, revision: Revision) -> Value {
    let SkillArgument { name, title, description, required, values: _ } = argument;
    let mut taken = Map::new();
    taken.insert("name".into(), name.as_str().into());
    if let Some(title) = title.as_ref().filter(|_| revision.has_structure()) {
        taken.insert("title".into(), title.as_str().into());
    }
    if let Some(description) = description {
        taken.insert("description".into(), description.as_str().into());
    }
    taken.insert("required".into(), (*required).into());
    Value::Object(taken)
}
