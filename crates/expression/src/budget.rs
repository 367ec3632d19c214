//! What one evaluation may use. The interpreter has no bounds of its own, so each expression is rewritten once: every
//! range that is walked and every value that is put into a larger one passes [`METER`], which counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, operators};
use cel::{Context, ExecutionError, Value};

/// No expression can spell it: names do not begin with `@`.
const METER: &str = "@meter";
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
            if builds(call) {
                meter(expression);
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

fn meter(expression: &mut IdedExpr) {
    if matches!(expression.expr, Expr::Literal(_)) {
        return;
    }
    let metered = std::mem::take(expression);
    expression.id = metered.id;
    expression.expr = Expr::Call(CallExpr { func_name: METER.to_owned(), target: None, args: vec![metered] });
}

/// Gives the context a budget for one evaluation; afterwards, whether it was used up.
pub(crate) fn budgeted(context: &mut Context<'_, '_>) -> impl Fn() -> bool + use<> {
    let left = Arc::new(AtomicU64::new(UNITS_MAX));
    let counted = Arc::clone(&left);
    let meter = move |value: Value| -> Result<Value, ExecutionError> {
        let weight = weight(&value);
        let enough =
            counted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(weight)).is_ok();
        if enough {
            return Ok(value);
        }
        counted.store(0, Ordering::Relaxed);
        Err(ExecutionError::function_error(METER, EXHAUSTED))
    };
    // The name is free: the standard environment has none that begins with `@`.
    let added = context.add_function(METER, meter);
    debug_assert!(added.is_ok());
    move || left.load(Ordering::Relaxed) == 0
}

fn weight(value: &Value) -> u64 {
    match value {
        Value::List(list) => list.iter().map(weight).sum::<u64>() + 8,
        Value::Map(map) => map.map.iter().map(|(key, value)| weight_of_key(key) + weight(value)).sum::<u64>() + 16,
        Value::String(text) => text.len() as u64 + 8,
        Value::Bytes(bytes) => bytes.len() as u64 + 8,
        _ => 8,
    }
}

fn weight_of_key(key: &cel::objects::Key) -> u64 {
    match key {
        cel::objects::Key::String(text) => text.len() as u64 + 8,
        _ => 8,
    }
}
