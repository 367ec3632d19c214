//! Nodes that ask nobody: what they give follows from what arrived.

use serde_json::{Map, Value, json};
use toolgate_contracts::workflow::{ConditionConfig, OutputConfig, ToolConfig};
use toolgate_contracts::{ErrorCode, ToolError};
use toolgate_expression::{Expression, Text};
use toolgate_registry::schema::Validator;

use crate::handles::{ELSE, INPUT, VALUE, place_in_input};

/// Items of one map. More are refused: a list that long belongs into a tool.
pub const MAP_ITEMS_MAX: usize = 1000;

pub fn invalid(message: impl Into<String>) -> ToolError {
    ToolError::because(ErrorCode::ValidationError, "schema", message)
}

/// The case that is taken, with what arrived.
pub fn condition(config: &ConditionConfig, inputs: &Map<String, Value>) -> Result<Map<String, Value>, ToolError> {
    let value = inputs.get(VALUE).cloned().unwrap_or_default();
    for case in &config.cases {
        let expression = Expression::parse(&case.when)
            .map_err(|why| invalid(format!("the case `{}` cannot be read: {why}", case.name)))?;
        let holds = expression
            .holds(&[(VALUE, &value)])
            .map_err(|why| invalid(format!("the case `{}` has no result: {why}", case.name)))?;
        if holds {
            return Ok(Map::from_iter([(case.name.clone(), value)]));
        }
    }
    Ok(Map::from_iter([(ELSE.to_owned(), value)]))
}

/// What a graph gives back, if it is what it says.
pub fn output(config: &OutputConfig, inputs: &Map<String, Value>) -> Result<Map<String, Value>, ToolError> {
    let validator = Validator::new(&config.schema).map_err(|finding| invalid(finding.message))?;
    match validator.validate(&Value::Object(inputs.clone())).into_iter().next() {
        None => Ok(inputs.clone()),
        Some(violation) => {
            let message = format!("the output is not what its schema says: {}", violation.message);
            Err(invalid(message).with("pointer", violation.pointer))
        }
    }
}

/// The list that a map works through.
pub fn items(inputs: &Map<String, Value>) -> Result<&Value, ToolError> {
    match inputs.get(crate::handles::ITEMS) {
        Some(list @ Value::Array(items)) if items.len() <= MAP_ITEMS_MAX => Ok(list),
        Some(Value::Array(items)) => {
            Err(invalid(format!("`items` has {} items, {MAP_ITEMS_MAX} at most are worked through", items.len())))
        }
        Some(_) => Err(invalid("`items` is not a list; choose a `path` to one")),
        None => Err(invalid("nothing arrived at `items`")),
    }
}

/// The input of a tool: what is set beforehand, over it what arrived as a whole, over it what arrived at its places.
pub fn tool_input(config: &ToolConfig, inputs: &Map<String, Value>) -> Result<Value, ToolError> {
    let mut input = config.input.as_object().cloned().unwrap_or_default();
    match inputs.get(INPUT) {
        None => {}
        Some(Value::Object(members)) => input.extend(members.clone()),
        Some(_) => return Err(invalid("what arrived at `input` is not an object; lead it to `input/NAME`")),
    }
    let mut input = Value::Object(input);
    for (handle, value) in inputs {
        let Some(place) = place_in_input(handle) else { continue };
        let target = place.split('/').skip(1).try_fold(&mut input, |at, token| {
            let token = token.replace("~1", "/").replace("~0", "~");
            if at.is_null() {
                *at = json!({});
            }
            at.as_object_mut().map(|members| members.entry(token).or_insert(Value::Null))
        });
        match target {
            Some(target) => *target = value.clone(),
            None => return Err(invalid(format!("`{handle}` leads through something that is not an object"))),
        }
    }
    Ok(input)
}

/// A text with what arrived in its places.
pub fn text(template: &str, inputs: &Map<String, Value>) -> Result<String, ToolError> {
    let rendered = Text::parse(template).and_then(|text| text.render(&Value::Object(inputs.clone())));
    rendered.map_err(|why| invalid(format!("a text cannot be filled in: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrives_is_laid_over_what_is_set() {
        let check = |set: Value, arrived: Value, made: Result<Value, &str>| {
            let config = ToolConfig { tool: "t".to_owned(), input: set, secrets: Vec::new() };
            match (tool_input(&config, arrived.as_object().unwrap()), made) {
                (Ok(input), Ok(made)) => assert_eq!(input, made),
                (Err(error), Err(told)) => assert!(error.message.contains(told), "{}", error.message),
                (input, made) => panic!("{input:?} is not {made:?}"),
            }
        };
        check(json!({"a": 1}), json!({}), Ok(json!({"a": 1})));
        check(json!({"a": 1}), json!({"input": {"b": 2}, "input/a": 3}), Ok(json!({"a": 3, "b": 2})));
        check(json!({}), json!({"input/a/b~1c": 3}), Ok(json!({"a": {"b/c": 3}})));
        check(json!({"a": 1}), json!({"input/a/b": 3}), Err("not an object"));
        check(json!({}), json!({"input": 3}), Err("not an object"));
    }

    #[test]
    fn the_first_case_that_holds_is_taken() {
        let config: ConditionConfig = toolgate_contracts::json::decode(json!({"cases": [
            {"name": "invalid", "when": "value.code == 'VALIDATION_ERROR'"}, {"name": "any", "when": "has(value.code)"}]}))
        .unwrap();
        let taken = |value: Value| {
            let inputs = Map::from_iter([(VALUE.to_owned(), value)]);
            condition(&config, &inputs).map(|taken| taken.keys().next().cloned().unwrap()).map_err(|error| error.code)
        };
        assert_eq!(taken(json!({"code": "VALIDATION_ERROR"})), Ok("invalid".to_owned()));
        assert_eq!(taken(json!({"code": "TIMEOUT"})), Ok("any".to_owned()));
        assert_eq!(taken(json!({"other": 1})), Err(ErrorCode::ValidationError));
        assert_eq!(taken(json!({"code": 1})), Ok("any".to_owned()));
    }
}
