//! What is shown against what was printed.

/// `Err` says which shown line has no counterpart. Runs of blanks count as one, since columns move with their contents.
pub fn compare(shown: &[String], printed: &str) -> Result<(), String> {
    let shown: Vec<String> = trimmed(shown.iter().map(|line| single_spaced(line)).collect());
    let printed: Vec<String> = trimmed(printed.lines().map(single_spaced).collect());
    let mut farthest = 0;
    if follow(&shown, &printed, 0, &mut farthest) {
        return Ok(());
    }
    Err(match shown.get(farthest) {
        Some(line) => format!("this shown line was not printed in its place:\n    {line}"),
        None => "more was printed than is shown (end with `…` if that is meant)".to_owned(),
    })
}

fn single_spaced(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn trimmed(mut lines: Vec<String>) -> Vec<String> {
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

fn follow(shown: &[String], printed: &[String], at: usize, farthest: &mut usize) -> bool {
    *farthest = (*farthest).max(at);
    match shown.get(at).map(String::as_str) {
        None => printed.is_empty(),
        Some("…") => (0..=printed.len()).any(|skipped| follow(shown, &printed[skipped..], at + 1, farthest)),
        Some(line) => {
            printed.first().is_some_and(|first| fits(line, first)) && follow(shown, &printed[1..], at + 1, farthest)
        }
    }
}

fn fits(shown: &str, printed: &str) -> bool {
    let mut parts = shown.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = printed.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(found) => rest = &rest[found + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[test]
fn shown_lines_come_in_their_place() {
    #[track_caller]
    fn check(shown: &[&str], printed: &str, expected: bool) {
        let shown: Vec<String> = shown.iter().map(|line| (*line).to_owned()).collect();
        assert_eq!(compare(&shown, printed).is_ok(), expected, "{shown:?} against {printed:?}");
    }
    check(&["a", "b"], "a\nb\n", true);
    check(&["a"], "a\nb\n", false);
    check(&["b"], "a\nb\n", false);
    check(&["a", "…"], "a\nb\nc\n", true);
    check(&["…", "c"], "a\nb\nc\n", true);
    check(&["a", "…", "b"], "a\nb\n", true);
    check(&["NAME  X"], "NAME       X\n", true);
    check(&["id … ok", "made at …"], "id 12 34 ok\nmade at now", true);
    check(&["id … ok"], "id 12 34 okay", false);
    check(&["a…a"], "a", false);
}
