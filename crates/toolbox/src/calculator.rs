//! Reads an arithmetic expression and works it out on the way, exactly: 0.1 + 0.2 is 0.3.
//!
//! Invariant: length, depth and the size of every number are bounded, so that no expression hangs or exhausts memory.

mod number;
#[cfg(test)]
mod tests;

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_contracts::ToolError;
use toolgate_engine::{Call, Outcome};

use crate::builtin::{Tools, input, invalid};
use number::{Number, Refusal};

const EXPRESSION_CHARS_MAX: usize = 1000;
/// A longer one can hold enough roots to keep a thread busy, which then is not one that serves others.
const AT_ONCE_BYTES_MAX: usize = 64;
/// Parentheses, signs and powers within each other.
const DEPTH_MAX: usize = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    expression: String,
}

pub(crate) async fn run(_tools: &Tools, call: &Call) -> Outcome {
    let expression = match input(call) {
        Ok(Input { expression }) => expression,
        Err(error) => return error.into(),
    };
    let answered = if expression.len() <= AT_ONCE_BYTES_MAX {
        answer(&expression)
    } else {
        let elsewhere = tokio::task::spawn_blocking(move || answer(&expression)).await;
        elsewhere.unwrap_or_else(|_| Err(invalid("expression", "it could not be worked out; split it")))
    };
    match answered {
        Ok(output) => Outcome::structured(output),
        Err(error) => error.into(),
    }
}

fn answer(expression: &str) -> Result<Value, ToolError> {
    let (result, exact) = evaluate(expression).map_err(ToolError::from)?.told();
    Ok(match exact {
        None => json!({"result": result}),
        Some(exact) => json!({"result": result, "exact": exact}),
    })
}

/// Why an expression has no value, and at which character, counted from 1.
#[derive(Debug, PartialEq, Eq)]
struct Mistake {
    position: usize,
    message: String,
}

impl From<Mistake> for ToolError {
    fn from(Mistake { position, message }: Mistake) -> Self {
        invalid("expression", format!("at character {position}: {message}")).with("position", position)
    }
}

fn evaluate(expression: &str) -> Result<Number, Mistake> {
    let characters: Vec<char> = expression.chars().collect();
    if characters.len() > EXPRESSION_CHARS_MAX {
        let message = format!("the expression goes on; expected at most {EXPRESSION_CHARS_MAX} characters");
        return Err(Mistake { position: EXPRESSION_CHARS_MAX + 1, message });
    }
    let mut reader = Reader { characters, at: 0, depth: 0 };
    let value = reader.sum()?;
    match reader.peek() {
        None => Ok(value),
        Some(')') => Err(reader.mistake("this `)` closes nothing")),
        Some(_) => Err(reader.expected("an operator (`+ - * / % ^`) or the end")),
    }
}

#[derive(Clone, Copy)]
enum Function {
    Abs,
    Ceil,
    Floor,
    Max,
    Min,
    Round,
    Sqrt,
}

impl Function {
    const NAMES: &str = "abs, ceil, floor, max, min, round or sqrt";

    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "abs" => Self::Abs,
            "ceil" => Self::Ceil,
            "floor" => Self::Floor,
            "max" => Self::Max,
            "min" => Self::Min,
            "round" => Self::Round,
            "sqrt" => Self::Sqrt,
            _ => return None,
        })
    }

    /// `None`: not for so many values.
    fn apply(self, values: &[Number]) -> Option<Result<Number, Refusal>> {
        let less = |left: &&Number, right: &&Number| {
            if left.is_less_than(right) { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater }
        };
        Some(match (self, values) {
            (Self::Abs, [value]) => Ok(value.clone().absolute()),
            (Self::Ceil, [value]) => Ok(value.clone().ceiling()),
            (Self::Floor, [value]) => Ok(value.clone().floor()),
            (Self::Round, [value]) => value.clone().round(None),
            (Self::Round, [value, places]) => value.clone().round(Some(places)),
            (Self::Sqrt, [value]) => value.square_root(),
            (Self::Max, values) => Ok(values.iter().max_by(less)?.clone()),
            (Self::Min, values) => Ok(values.iter().min_by(less)?.clone()),
            _ => return None,
        })
    }

    fn takes(self) -> &'static str {
        match self {
            Self::Abs | Self::Ceil | Self::Floor | Self::Sqrt => "one value",
            Self::Round => "a value, and perhaps a number of places",
            Self::Max | Self::Min => "at least one value",
        }
    }
}

/// Each level of precedence is a function that calls the next.
struct Reader {
    characters: Vec<char>,
    /// The next character.
    at: usize,
    depth: usize,
}

type Read = Result<Number, Mistake>;

impl Reader {
    fn sum(&mut self) -> Read {
        let mut left = self.product()?;
        while let Some((operator, position)) = self.take_any("+-") {
            let right = self.product()?;
            let value = if operator == '+' { left.plus(&right) } else { left.minus(&right) };
            left = refused_at(position, value)?;
        }
        Ok(left)
    }

    fn product(&mut self) -> Read {
        let mut left = self.signed()?;
        while let Some((operator, position)) = self.take_any("*/%") {
            if operator == '%' && matches!(self.peek(), None | Some('+' | '*' | '/' | '%' | '^' | ')' | ',')) {
                let message = "`%` is the remainder of a division; for a percentage write `* 15 / 100`";
                return Err(Mistake { position, message: message.to_owned() });
            }
            let right = self.signed()?;
            let value = match operator {
                '*' => left.times(&right),
                '/' => left.over(&right),
                _ => left.modulo(&right),
            };
            left = refused_at(position, value)?;
        }
        Ok(left)
    }

    /// Everything that stands within something comes by here.
    fn signed(&mut self) -> Read {
        if self.depth == DEPTH_MAX {
            let message = format!("parentheses, signs and powers go deeper than {DEPTH_MAX}; split the expression");
            return Err(self.mistake(message));
        }
        self.depth += 1;
        let value = match self.take_any("+-") {
            Some(('-', _)) => self.signed()?.negated(),
            Some(_) => self.signed()?,
            None => self.power()?,
        };
        self.depth -= 1;
        Ok(value)
    }

    /// `2 ^ 3 ^ 2` is `2 ^ 9`, and `-2 ^ 2` is `-4`.
    fn power(&mut self) -> Read {
        let base = self.single()?;
        let Some((_, position)) = self.take_any("^") else { return Ok(base) };
        let exponent = self.signed()?;
        refused_at(position, base.power(&exponent))
    }

    fn single(&mut self) -> Read {
        match self.peek() {
            Some('(') => {
                let opened = self.next_position();
                let value = self.sum()?;
                self.close(opened)?;
                Ok(value)
            }
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if c.is_alphabetic() => self.function(),
            _ => Err(self.expected("a number, a function or `(`")),
        }
    }

    fn number(&mut self) -> Read {
        let start = self.at;
        let digits = |reader: &mut Self| {
            let first = reader.at;
            while reader.characters.get(reader.at).is_some_and(char::is_ascii_digit) {
                reader.at += 1;
            }
            reader.at > first
        };
        let whole = digits(self);
        let mut complete = whole;
        if self.characters.get(self.at) == Some(&'.') {
            self.at += 1;
            complete = digits(self);
        }
        if complete && matches!(self.characters.get(self.at), Some('e' | 'E')) {
            self.at += 1;
            if matches!(self.characters.get(self.at), Some('+' | '-')) {
                self.at += 1;
            }
            complete = digits(self);
        }
        if !complete {
            return Err(self.expected("a digit"));
        }
        let text: String = self.characters.get(start..self.at).unwrap_or_default().iter().collect();
        match Number::read(&text) {
            Some(value) => refused_at(start + 1, value),
            // The exponent is so long that it is no number of ours.
            None => refused_at(start + 1, Err(Refusal::TooLarge)),
        }
    }

    fn function(&mut self) -> Read {
        let start = self.at;
        while self.characters.get(self.at).is_some_and(|c| c.is_alphanumeric() || *c == '_') {
            self.at += 1;
        }
        let name: String = self.characters.get(start..self.at).unwrap_or_default().iter().collect();
        let position = start + 1;
        let Some(function) = Function::named(&name) else {
            let name: String = name.chars().take(32).collect();
            let message = format!("`{name}` is not known; expected {}", Function::NAMES);
            return Err(Mistake { position, message });
        };
        if self.peek() != Some('(') {
            return Err(self.expected(&format!("`(` after `{name}`")));
        }
        let opened = self.next_position();
        let mut values = Vec::new();
        if self.peek() != Some(')') {
            values.push(self.sum()?);
            while self.take_any(",").is_some() {
                values.push(self.sum()?);
            }
        }
        self.close(opened)?;
        let given = values.len();
        let value = function.apply(&values).ok_or_else(|| {
            let message = format!("`{name}` takes {}, and was given {given}", function.takes());
            Mistake { position, message }
        })?;
        refused_at(position, value)
    }

    fn close(&mut self, opened: usize) -> Result<(), Mistake> {
        match self.take_any(")") {
            Some(_) => Ok(()),
            None => Err(self.expected(&format!("an operator, or `)` for the `(` at character {opened}"))),
        }
    }

    /// The next character that is no space.
    fn peek(&mut self) -> Option<char> {
        while self.characters.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
        self.characters.get(self.at).copied()
    }

    /// Takes the next character if it is one of these, and tells its position.
    fn take_any(&mut self, wanted: &str) -> Option<(char, usize)> {
        let found = self.peek().filter(|c| wanted.contains(*c))?;
        Some((found, self.next_position()))
    }

    /// Goes on by a character, whose position it tells.
    fn next_position(&mut self) -> usize {
        self.at += 1;
        self.at
    }

    fn mistake(&self, message: impl Into<String>) -> Mistake {
        Mistake { position: self.at + 1, message: message.into() }
    }

    fn expected(&mut self, what: &str) -> Mistake {
        let found = self.characters.get(self.at).map_or_else(
            || "the expression ends here".to_owned(),
            |found| format!("this is `{}`", found.escape_debug()),
        );
        self.mistake(format!("expected {what}, but {found}"))
    }
}

fn refused_at(position: usize, value: Result<Number, Refusal>) -> Read {
    value.map_err(|refusal| Mistake { position, message: refusal.to_string() })
}
