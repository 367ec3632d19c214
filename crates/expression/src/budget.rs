//! What one evaluation may use. The interpreter has no bounds of its own, so each expression is rewritten once: every
//! range that is walked and every value that is put into a larger one passes [`METER`], which counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, operators};
use cel::{Context, ExecutionError, Value};

/// No expression can spell it: names do not begin with `@`.
const METER: &str = "@meter";
/// For what reads a pattern each time it is evaluated.
const COSTLY: &str = "@costly";
const COSTLY_UNITS: u64 = 4 * 1024;
/// Elements walked and bytes built, together.
const UNITS_MAX: u64 = 4 * 1024 * 1024;

pub(crate) const EXHAUSTED: &str = "an expression may walk and build";

/// Makes the expression count what it does.
pub(crate) fn metered(expression: &mut IdedExpr) {
    match &mut expression.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => {}
        Expr::Call(call) => {
            call.target.iter_mut().for_each(|target| metered(target));
            call.args.iter_mut().for_each(metered);
            if walks(call) {
                call.target.iter_mut().for_each(|target| meter(target));
                call.args.iter_mut().for_each(meter);
            }
            let is_costly = call.func_name == "matches";
            if builds(call) {
                meter(expression);
            }
            if is_costly {
                wrap(expression, COSTLY);
            }
        }
        Expr::Comprehension(comprehension) => {
            metered(&mut comprehension.iter_range);
            metered(&mut comprehension.accu_init);
            metered(&mut comprehension.loop_cond);
            metered(&mut comprehension.loop_step);
            metered(&mut comprehension.result);
            meter(&mut comprehension.iter_range);
        }
        Expr::List(list) => list.elements.iter_mut().for_each(member),
        Expr::Map(map) => map.entries.iter_mut().for_each(|entry| entry_values(&mut entry.expr)),
        Expr::Struct(record) => record.entries.iter_mut().for_each(|entry| entry_values(&mut entry.expr)),
        Expr::Select(select) => metered(&mut select.operand),
    }
}

/// How many levels the expression has.
pub(crate) fn depth(expression: &IdedExpr) -> usize {
    let below: usize = match &expression.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => 0,
        Expr::Call(call) => deepest(call.target.as_deref().into_iter().chain(&call.args)),
        Expr::Comprehension(inner) => {
            deepest([&inner.iter_range, &inner.accu_init, &inner.loop_cond, &inner.loop_step, &inner.result])
        }
        Expr::List(list) => deepest(&list.elements),
        Expr::Map(map) => deepest(map.entries.iter().flat_map(|entry| entry_members(&entry.expr))),
        Expr::Struct(record) => deepest(record.entries.iter().flat_map(|entry| entry_members(&entry.expr))),
        Expr::Select(select) => depth(&select.operand),
    };
    below + 1
}

fn deepest<'a>(members: impl IntoIterator<Item = &'a IdedExpr>) -> usize {
    members.into_iter().map(depth).max().unwrap_or(0)
}

fn entry_members(entry: &EntryExpr) -> impl Iterator<Item = &IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => [Some(&field.value), None],
        EntryExpr::MapEntry(entry) => [Some(&entry.key), Some(&entry.value)],
    }
    .into_iter()
    .flatten()
}

fn entry_values(entry: &mut EntryExpr) {
    match entry {
        EntryExpr::StructField(field) => member(&mut field.value),
        EntryExpr::MapEntry(entry) => {
            member(&mut entry.key);
            member(&mut entry.value);
        }
    }
}

fn member(expression: &mut IdedExpr) {
    metered(expression);
    meter(expression);
}

/// Calls whose result may be larger than what they were given, but for the step of a macro that collects a list: the
/// interpreter knows that one by its form, and its element is metered by itself.
fn builds(call: &CallExpr) -> bool {
    let collects =
        matches!(call.args.first().map(|first| &first.expr), Some(Expr::Ident(name)) if name.starts_with('@'));
    match call.func_name.as_str() {
        operators::ADD => !collects,
        name => name.bytes().next().is_some_and(|first| first.is_ascii_alphabetic()),
    }
}

/// Calls that look at all of what they are given, however small their result.
fn walks(call: &CallExpr) -> bool {
    let compares = [
        operators::EQUALS,
        operators::NOT_EQUALS,
        operators::LESS,
        operators::LESS_EQUALS,
        operators::GREATER,
        operators::GREATER_EQUALS,
        operators::IN,
    ];
    let name = call.func_name.as_str();
    compares.contains(&name) || name.bytes().next().is_some_and(|first| first.is_ascii_alphabetic())
}

fn meter(expression: &mut IdedExpr) {
    if !matches!(expression.expr, Expr::Literal(_)) {
        wrap(expression, METER);
    }
}

fn wrap(expression: &mut IdedExpr, function: &str) {
    let wrapped = std::mem::take(expression);
    expression.id = wrapped.id;
    expression.expr = Expr::Call(CallExpr { func_name: function.to_owned(), target: None, args: vec![wrapped] });
}

/// Gives the context a budget for one evaluation; afterwards, whether it was used up.
pub(crate) fn budgeted(context: &mut Context<'_, '_>) -> impl Fn() -> bool + use<> {
    let left = Arc::new(AtomicU64::new(UNITS_MAX));
    let charge = |more: u64| {
        let left = Arc::clone(&left);
        move |value: Value| -> Result<Value, ExecutionError> {
            let most = left.load(Ordering::Relaxed);
            let mut weight = more;
            add_weight(&value, &mut weight, most);
            if weight >= most {
                left.store(0, Ordering::Relaxed);
                return Err(ExecutionError::function_error(METER, EXHAUSTED));
            }
            left.store(most - weight, Ordering::Relaxed);
            Ok(value)
        }
    };
    // The names are free: the standard environment has none that begins with `@`.
    let added = context.add_function(METER, charge(0)).and(context.add_function(COSTLY, charge(COSTLY_UNITS)));
    debug_assert!(added.is_ok());
    let left = Arc::clone(&left);
    move || left.load(Ordering::Relaxed) == 0
}

/// Adds up until it is more than there is.
fn add_weight(value: &Value, weight: &mut u64, most: u64) {
    *weight += 8;
    match value {
        Value::List(list) => {
            for item in list.iter() {
                if *weight > most {
                    return;
                }
                add_weight(item, weight, most);
            }
        }
        Value::Map(map) => {
            for (key, item) in map.map.iter() {
                if *weight > most {
                    return;
                }
                *weight += weight_of_key(key);
                add_weight(item, weight, most);
            }
        }
        Value::String(text) => *weight += text.len() as u64,
        Value::Bytes(bytes) => *weight += bytes.len() as u64,
        _ => {}
    }
}

fn weight_of_key(key: &cel::objects::Key) -> u64 {
    match key {
        cel::objects::Key::String(text) => text.len() as u64 + 8,
        _ => 8,
    }
}
