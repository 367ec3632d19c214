//! What can be seen of Python code without reading it as Python: whether it gives anything back.
//!
//! Deliberately absent: whether it is Python at all. Only the interpreter that would run it knows, and it is asked, in its
//! sandbox, when a tool is made ready.

use crate::finding::Finding;

/// The names whose values are a result.
const RESULTS: [&str; 2] = ["main", "result"];
/// With these, any name can be set.
const SETTERS: [&str; 4] = ["exec", "globals", "locals", "vars"];

/// Code that names neither `main` nor `result` gives back nothing, whatever else it does.
pub fn gives_back(code: &str, findings: &mut Vec<Finding>) {
    let mut words = code.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    if !code.trim().is_empty() && !words.any(|word| RESULTS.contains(&word) || SETTERS.contains(&word)) {
        findings.push(Finding::warning(
            "runner.result",
            "/runner/code",
            "the code defines neither `main` nor `result`, so every call gives back null",
            "define `def main(input):` and return the result, or assign it to `result`",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_without_a_result_is_told() {
        let check = |code: &str, expected: &[&str]| {
            let mut findings = Vec::new();
            gives_back(code, &mut findings);
            let codes: Vec<&str> = findings.iter().map(|finding| finding.code.as_ref()).collect();
            assert_eq!(codes, expected, "{code}");
        };
        check("def main(input):\n    return 1", &[]);
        check("result = 1", &[]);
        check("if input:\n    result=1", &[]);
        check("exec(input['code'])", &[]);
        check("def run(input):\n    return 1", &["runner.result"]);
        check("results = domain = 1", &["runner.result"]);
        check("print('hello')", &["runner.result"]);
        check(" ", &[]);
    }
}
