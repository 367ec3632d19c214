//! What an expression asks for by name, so that whoever saves one hears of a name that is not there before anybody calls.

use std::collections::BTreeSet;
use std::sync::Arc;

use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use cel::{Context, Env, ExecutionError};

/// What is asked for, root first: `input.user.name` is `["input", "user", "name"]`.
pub type Path = Vec<String>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    /// Each of them as far as it is written out.
    pub paths: BTreeSet<Path>,
    /// Functions that there are none of.
    pub no_functions: BTreeSet<String>,
}

impl Names {
    /// INVARIANT: of what the author wrote, before it was rewritten to count.
    pub fn of(expression: &IdedExpr, environment: &Arc<Env>) -> Self {
        let mut walk = Walk { names: Self::default(), bound: Vec::new(), context: &bare(environment) };
        walk.expression(expression);
        walk.names
    }
}

/// Without any variable: what has a value here is the language's own, such as the names of types.
fn bare(environment: &Arc<Env>) -> Context<'static, 'static> {
    Context::with_env(Arc::clone(environment))
}

struct Walk<'c> {
    names: Names,
    /// What macros such as `map` name for their own part.
    bound: Vec<String>,
    context: &'c Context<'static, 'static>,
}

impl Walk<'_> {
    fn expression(&mut self, expression: &IdedExpr) {
        if let Some(path) = path(expression) {
            self.found(path);
            return;
        }
        match &expression.expr {
            Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => {}
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(inner) => {
                self.expression(&inner.iter_range);
                self.expression(&inner.accu_init);
                let outer = self.bound.len();
                self.bound.extend([inner.iter_var.clone(), inner.accu_var.clone()]);
                self.bound.extend(inner.iter_var2.clone());
                for part in [&inner.loop_cond, &inner.loop_step, &inner.result] {
                    self.expression(part);
                }
                self.bound.truncate(outer);
            }
            Expr::List(list) => list.elements.iter().for_each(|element| self.expression(element)),
            Expr::Map(map) => map.entries.iter().for_each(|entry| self.entry(&entry.expr)),
            Expr::Struct(record) => record.entries.iter().for_each(|entry| self.entry(&entry.expr)),
            Expr::Select(select) => self.expression(&select.operand),
        }
    }

    fn entry(&mut self, entry: &EntryExpr) {
        match entry {
            EntryExpr::StructField(field) => self.expression(&field.value),
            EntryExpr::MapEntry(entry) => {
                self.expression(&entry.key);
                self.expression(&entry.value);
            }
        }
    }

    fn call(&mut self, call: &CallExpr) {
        let is_word = call.func_name.bytes().next().is_some_and(|first| first.is_ascii_alphabetic());
        if is_word && !self.is_function(call) {
            self.names.no_functions.insert(call.func_name.clone());
        }
        for part in call.target.as_deref().into_iter().chain(&call.args) {
            self.expression(part);
        }
    }

    /// The interpreter knows which there are, and says so only when it is asked to call one.
    fn is_function(&self, call: &CallExpr) -> bool {
        let nothing = || IdedExpr { id: 0, expr: Expr::Literal(LiteralValue::Null) };
        let tried = CallExpr {
            func_name: call.func_name.clone(),
            target: call.target.as_ref().map(|_| Box::new(nothing())),
            args: call.args.iter().map(|_| nothing()).collect(),
        };
        let tried = self.context.resolve(&IdedExpr { id: 0, expr: Expr::Call(tried) });
        !matches!(tried, Err(ExecutionError::UndeclaredReference(_)))
    }

    fn found(&mut self, path: Path) {
        let Some(root) = path.first() else { return };
        let is_type = || {
            let name = IdedExpr { id: 0, expr: Expr::Ident(root.clone()) };
            self.context.resolve(&name).is_ok()
        };
        if !self.bound.contains(root) && !is_type() {
            self.names.paths.insert(path);
        }
    }
}

/// A name and what is asked for within it, by `.member` or by `['member']`; what `has` asks for ends before the member.
fn path(expression: &IdedExpr) -> Option<Path> {
    match &expression.expr {
        Expr::Ident(name) => Some(vec![name.clone()]),
        Expr::Select(select) => {
            let mut path = path(&select.operand)?;
            if !select.test {
                path.push(select.field.clone());
            }
            Some(path)
        }
        Expr::Call(CallExpr { func_name, target: None, args }) if func_name == operators::INDEX => {
            let [inner, IdedExpr { expr: Expr::Literal(LiteralValue::String(member)), .. }] = args.as_slice() else {
                return None;
            };
            let mut path = path(inner)?;
            path.push(member.inner().to_owned());
            Some(path)
        }
        _ => None,
    }
}
