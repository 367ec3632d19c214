//! Edits of YAML: tables of what each does to the lines around it, and that no other line changes whatever the file.

use proptest::prelude::*;
use serde_json::json;

use super::*;

#[track_caller]
fn sets(before: &str, pointer: &str, new: Value, after: &str) {
    assert_eq!(set(before, pointer, &new).as_deref(), Ok(after), "{pointer} of\n{before}");
}

#[track_caller]
fn deletes(before: &str, pointer: &str, after: &str) {
    assert_eq!(delete(before, pointer).as_deref(), Ok(after), "{pointer} of\n{before}");
}

#[test]
fn a_value_is_replaced_where_it_stands() {
    sets("a: 1 # one\nb: 2\n", "/a", json!(3), "a: 3 # one\nb: 2\n");
    sets("a: 'x'\n", "/a", json!("it's"), "a: 'it''s'\n");
    sets("a: \"x\"\n", "/a", json!("y"), "a: \"y\"\n");
    sets("a: x", "/a", json!("yes"), "a: \"yes\"");
    sets("a: x\n", "/a", json!("2026-01-02"), "a: \"2026-01-02\"\n");
    sets("a: x\n", "/a", json!("registry.test/app:1.25"), "a: registry.test/app:1.25\n");
    sets("a:\nb: 2\n", "/a", json!(1), "a: 1\nb: 2\n");
    sets("a: # why\nb: 2\n", "/a", json!(1), "a: 1 # why\nb: 2\n");
    sets("a: plain\n  goes on # c\nb: 2\n", "/a", json!(null), "a: null # c\nb: 2\n");
    sets("a: | # lines\n  one\n  two\n\nb: 2\n", "/a", json!("x"), "a: x # lines\n\nb: 2\n");
    sets("a: >-\n  one\nb: 2\n", "/a", json!(["x"]), "a:\n  - x\nb: 2\n");
    sets("a:\n  long\nb: 2\n", "/a", json!(5), "a:\n  5\nb: 2\n");
    sets("- a\n- b # x\n", "/1", json!("c"), "- a\n- c # x\n");
    sets("-\n- b\n", "/0", json!({"k": 1, "l": 2}), "- k: 1\n  l: 2\n- b\n");
    sets("l:\n- a\n- b\n", "/l/0", json!([1]), "l:\n- - 1\n- b\n");
    sets("ü: {ö: ä, x: [1, 2]} # c\n", "/ü/x/1", json!("a, b"), "ü: {ö: ä, x: [1, \"a, b\"]} # c\n");
    sets("m: {a, b: }\n", "/m/a", json!(1), "m: {a: 1, b: }\n");
    sets("m: {a, b: }\n", "/m/b", json!(1), "m: {a, b: 1 }\n");
    sets("a/b:\n  m~n: 1\n", "/a~1b/m~0n", json!(2), "a/b:\n  m~n: 2\n");
    sets("# only\n1: x\n", "/1", json!("z"), "# only\n1: z\n");
    sets("a: 1\r\nb: 2 # c\r\n", "/a", json!({"x": 1}), "a:\r\n  x: 1\r\nb: 2 # c\r\n");
    sets("---\na: 1\n...\n", "/a", json!(2), "---\na: 2\n...\n");
}

#[test]
fn a_block_takes_the_place_of_a_scalar_and_the_reverse() {
    sets(
        "a: 1 # one\nb: 2\n",
        "/a",
        json!({"x": [1, {"w": 2, "z": []}]}),
        "a: # one\n  x:\n    - 1\n    - w: 2\n      z: []\nb: 2\n",
    );
    sets("a: # c\n  # inner\n  x: 1\n  y: 2 # last\nb: 2\n", "/a", json!(1), "a: 1 # c\nb: 2\n");
    sets("a:\n    x: 1\n    y: 2\n# b\nb: 2\n", "/a", json!({"z": 1, "w": 2}), "a:\n    z: 1\n    w: 2\n# b\nb: 2\n");
    sets("- a: 1\n  b: 2\n- c\n", "/0", json!("x"), "- x\n- c\n");
    sets("- a: 1\n  b: 2\n- c\n", "/0", json!({"d": 1, "e": 2}), "- d: 1\n  e: 2\n- c\n");
    sets("a: 1\n", "", json!({"b": 2}), "b: 2\n");
}

#[test]
fn something_new_comes_behind_what_is_there() {
    sets(
        "a:\n  x: 1 # one\n\n  # about b\nb: 2\n",
        "/a/w",
        json!(2),
        "a:\n  x: 1 # one\n  w: 2\n\n  # about b\nb: 2\n",
    );
    sets("a: 1", "/b", json!([1, 2]), "a: 1\nb:\n  - 1\n  - 2");
    sets("l:\n- a # one\n# end\n", "/l/-", json!("b"), "l:\n- a # one\n- b\n# end\n");
    sets("l:\n  -   a\n", "/l/-", json!({"k": 1}), "l:\n  -   a\n  - k: 1\n");
    sets("- a: 1\n- b: 1\n", "/0/c", json!(2), "- a: 1\n  c: 2\n- b: 1\n");
    sets("m: {}\nl: []\n", "/m/a", json!(1), "m: {a: 1}\nl: []\n");
    sets("m: {}\nl: [ ]\n", "/l/-", json!({"a": "b c"}), "m: {}\nl: [{a: b c}]\n");
    sets("m: { a: 1 }\n", "/m/b", json!([1]), "m: { a: 1, b: [1] }\n");
    sets("", "/a", json!(1), "a: 1\n");
    sets("# later\n", "/a", json!({"b": 1}), "# later\na:\n  b: 1\n");
    sets("a: |\n  one\n\n\n# c\n", "/b", json!(1), "a: |\n  one\nb: 1\n\n\n# c\n");
    sets("a: 1\n", "/x y", json!("on"), "a: 1\nx y: \"on\"\n");
    sets("a: 1\n", "/b", json!("line\nother\t\u{7}"), "a: 1\nb: \"line\\nother\\t\\u0007\"\n");
}

#[test]
fn what_is_deleted_goes_with_its_lines() {
    deletes("a: 1\n# about b\nb: 2 # two\nc: 3\n", "/b", "a: 1\n# about b\nc: 3\n");
    deletes("a: 1\nb:\n  c: 1\n  # in\n  d:\n    - x\n", "/b", "a: 1\n");
    deletes("a: 1\nb: 2", "/b", "a: 1");
    deletes("a:\n  b: 1 # c\nd: 1\n", "/a/b", "a: {}\nd: 1\n");
    deletes("a:\n- 1\nd: 1\n", "/a/0", "a: []\nd: 1\n");
    deletes("- a: 1 # x\n  b: 2\n", "/0/a", "- b: 2\n");
    deletes("- a: 1\n  # about b\n  b: 2\n", "/0/a", "- \n  # about b\n  b: 2\n");
    deletes("l:\n  - a\n  # about b\n  - b\n  -\n", "/l/1", "l:\n  - a\n  # about b\n  -\n");
    deletes("l:\n  - a\n  -\n  - c\n", "/l/1", "l:\n  - a\n  - c\n");
    deletes("- - x\n  - y\n", "/0/0", "- - y\n");
    deletes("a:\n  b: 1\n  # in\n\n    # in\n# behind\nc: 1\n", "/a", "# behind\nc: 1\n");
    deletes("a: |\n  x\nb:\n    c: 1\n    # in", "/b", "a: |\n  x");
    deletes("m: {a: 1, b: 2, c}\n", "/m/b", "m: {a: 1, c}\n");
    deletes("m: {a: 1, b: 2}\n", "/m/b", "m: {a: 1}\n");
    deletes("m: [1]\n", "/m/0", "m: []\n");
    deletes("t: |\n  one\n  two\n\nu: 1\n", "/t", "\nu: 1\n");
}

#[test]
fn a_merge_patch_sets_deletes_and_goes_deeper() {
    let before = "# app\nname: app\nlimits: # soft\n  cpu: 1\n  memory: 2 # GiB\nlabels: {a: b}\n";
    let patch =
        json!({"limits": {"cpu": 4, "memory": null, "disk": {"x": 1, "y": null}}, "labels": {"c": "d"}, "gone": null});
    let after = "# app\nname: app\nlimits: # soft\n  cpu: 4\n  disk:\n    x: 1\nlabels: {a: b, c: d}\n";
    assert_eq!(merge(before, "", &patch).as_deref(), Ok(after));
    assert_eq!(merge(before, "/limits", &json!({"cpu": 4})).unwrap(), before.replace("cpu: 1", "cpu: 4"));
    assert_eq!(merge("a: [1]\n", "/a", &json!({"b": 1})).as_deref(), Ok("a:\n  b: 1\n"));
    assert_eq!(merge(before, "", &json!({"name": "app"})).as_deref(), Ok(before), "nothing changes");
    assert_eq!(merge("", "", &json!({"a": 1})).as_deref(), Ok("a: 1\n"));
}

#[test]
fn places_that_are_not_there_are_told() {
    let text = "a: {b: 1}\nl: [1]\ns: x\n";
    let check = |refused: Result<String, Refused>, message: &str| {
        assert_eq!(refused, Err(Refused::Place(message.to_owned())));
    };
    check(set(text, "/x/y", &json!(1)), "there is nothing at `/x`; set that first");
    check(set(text, "/s/y", &json!(1)), "`/s` is neither a mapping nor a list, so nothing can be put in it");
    check(set(text, "/l/1", &json!(1)), "`/l` has 1 items and none is `1`; `-` adds one at the end");
    check(set(text, "/l/00", &json!(1)), "`/l` has 1 items and none is `00`; `-` adds one at the end");
    check(set(text, "a", &json!(1)), "`a` is no JSON Pointer; it begins with `/`");
    check(delete(text, "/a/c"), "there is nothing at `/a/c`");
    check(delete(text, "/l/-"), "there is nothing at `/l/-`");
    check(delete(text, ""), "the whole file cannot be deleted; name a member");
    check(merge(text, "/x", &json!({})), "there is nothing at `/x`");
}

#[test]
fn files_that_readers_read_differently_are_refused() {
    let check = |text: &str, message: &str| {
        assert_eq!(set(text, "/a", &json!(1)), Err(Refused::File(message.to_owned())), "{text}");
    };
    check("a: &x 1\n", "line 1: an anchor (`&name`) is used, so that one change could change two places");
    check("a: 1\nb: *x\n", "line 2: an alias (`*name`) is used, so that one change could change two places");
    check("a: !!str 1\n", "line 1: a tag (`!name`) is used, and what it means is not known here");
    check("a: 1\n---\nb: 1\n", "line 2: a second document begins here, and only files with one can be changed");
    check("a: 1\nb: 2\na: 3\n", "line 3: the key `a` appears twice in one mapping");
    check("a:\n  <<: {b: 1}\n", "line 2: a merge key (`<<`) is used");
    check("? [a]\n: 1\n", "line 1: a list or mapping is used as a key");
    check("\u{feff}a: 1\n", "it begins with a byte order mark; save it without one");
    assert!(matches!(set("%YAML 1.1\n---\na: 1\n", "/a", &json!(2)), Err(Refused::File(_))));
    assert!(matches!(set("a: [1\n", "/a", &json!(2)), Err(Refused::File(_))));
    assert!(matches!(set(&"[".repeat(100_000), "/a", &json!(2)), Err(Refused::File(_))));
    // Lines that are part of a value cannot have something put behind them.
    assert!(matches!(set("a: |+\n  x\n\n", "/b", &json!(2)), Err(Refused::File(_))));
}

/// Decides how a file is written: comments, blank lines, styles.
struct Layout {
    state: u64,
    comments: usize,
}

impl Layout {
    fn one_of(&mut self, count: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % count
    }

    fn comment(&mut self) -> String {
        self.comments += 1;
        format!("# comment {}", self.comments)
    }

    fn end_line(&mut self, out: &mut String, column: usize) {
        if self.one_of(4) == 0 {
            *out += " ";
            *out += &self.comment();
        }
        out.push('\n');
        if self.one_of(6) == 0 {
            out.push('\n');
        }
        if self.one_of(5) == 0 {
            out.extend([format!("{}{}\n", " ".repeat(column), self.comment())]);
        }
    }

    /// Behind `key:` or `-`, whose own column is `column`.
    fn value(&mut self, value: &Value, column: usize, is_item: bool, out: &mut String) {
        match value {
            Value::Array(items) if !items.is_empty() && self.one_of(3) > 0 => {
                let inner = if is_item || self.one_of(2) == 0 { column + 2 } else { column };
                if is_item && self.one_of(2) == 0 {
                    out.push(' ');
                    return self.items(items, column + 2, true, out);
                }
                self.end_line(out, inner);
                self.items(items, inner, false, out);
            }
            Value::Object(members) if !members.is_empty() && self.one_of(3) > 0 => {
                let inner = column + 2 + usize::try_from(self.one_of(2)).unwrap() * 2;
                if is_item && self.one_of(2) == 0 {
                    out.push(' ');
                    return self.members(members, column + 2, true, out);
                }
                self.end_line(out, inner);
                self.members(members, inner, false, out);
            }
            Value::Null if self.one_of(2) == 0 => self.end_line(out, column),
            Value::String(text) if !text.is_empty() && self.one_of(3) == 0 => {
                *out += " |-\n";
                for line in text.lines() {
                    out.extend([format!("{}{line}\n", " ".repeat(column + 2))]);
                }
            }
            Value::String(text) if self.one_of(2) == 0 => {
                out.extend([format!(" '{}'", text.replace('\'', "''"))]);
                self.end_line(out, column);
            }
            other => {
                *out += " ";
                *out += &render::inline(other, None);
                self.end_line(out, column);
            }
        }
    }

    fn items(&mut self, items: &[Value], column: usize, on_line: bool, out: &mut String) {
        for (at, item) in items.iter().enumerate() {
            if at > 0 || !on_line {
                *out += &" ".repeat(column);
            }
            out.push('-');
            self.value(item, column, true, out);
        }
    }

    fn members(&mut self, members: &Map<String, Value>, column: usize, on_line: bool, out: &mut String) {
        for (at, (key, value)) in members.iter().enumerate() {
            if at > 0 || !on_line {
                *out += &" ".repeat(column);
            }
            *out += &render::word(key);
            out.push(':');
            self.value(value, column, false, out);
        }
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-1000_i64..1000).prop_map(Value::from),
        prop_oneof!["[a-z]{1,6}", "[ -~]{1,8}", Just("ä ö".to_owned()), Just("yes".to_owned()), Just("1.5".to_owned())]
            .prop_filter("blanks at the ends of lines are not kept", |text: &String| text.trim() == text
                && !text.is_empty())
            .prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,3}|[ -~]{1,5}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Every place in a value.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Array(items) => items.iter().enumerate().map(|(at, item)| (at.to_string(), item)).collect(),
        Value::Object(members) => {
            members.iter().map(|(key, value)| (toolgate_contracts::json::escape(key), value)).collect()
        }
        _ => return,
    };
    for (token, child) in children {
        let place = format!("{at}/{token}");
        places(child, &place, found);
        found.push(place);
    }
}

/// The first and the last line of a member or item, its key or dash included.
fn lines_of(text: &str, place: &str) -> (usize, usize) {
    let mut node = parse(text).unwrap().unwrap();
    let mut start = node.start;
    for token in place.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        (start, node) = match node.kind {
            Kind::Mapping { pairs, .. } => {
                let pair = pairs.into_iter().find(|pair| pair.key == token).unwrap();
                (pair.key_start, pair.node)
            }
            Kind::Sequence { items, .. } => {
                let item = items.into_iter().nth(token.parse().unwrap()).unwrap();
                (item.head.saturating_sub(1).min(item.node.start), item.node)
            }
            Kind::Scalar(..) => unreachable!(),
        };
    }
    let line = |at: usize| text[..at].matches('\n').count();
    (line(start), line(node.end.max(start)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_file_a_change_gives_its_value_and_touches_its_own_lines_alone(
        members in prop::collection::btree_map("[a-z]{1,3}", any_value(), 1..5),
        new in any_value(),
        seed in any::<u64>(),
        chosen in any::<prop::sample::Index>(),
        deleting in any::<bool>(),
    ) {
        let root: Map<String, Value> = members.into_iter().collect();
        let mut text = String::new();
        let mut layout = Layout { state: seed, comments: 0 };
        layout.members(&root, 0, false, &mut text);
        let root = Value::Object(root);
        prop_assert_eq!(&value(&text).unwrap(), &root, "the test writes what it means:\n{}", text);

        let mut all = Vec::new();
        places(&root, "", &mut all);
        let place = chosen.get(&all);
        let edited = if deleting { delete(&text, place) } else { set(&text, place, &new) };
        let edited = edited.map_err(|refused| TestCaseError::fail(format!("{place}: {refused:?} of\n{text}")))?;

        // Set and delete check the value themselves; this is about the lines.
        let (first_line, last) = lines_of(&text, place);
        let before: Vec<&str> = text.lines().collect();
        let after: Vec<&str> = edited.lines().collect();
        // Deleting the only member makes its holder `{}` or `[]`, one line up at most.
        let (holder, _) = lines_of(&text, place.rsplit_once('/').unwrap().0);
        let first = if deleting { first_line.min(holder) } else { first_line };
        prop_assert!(after.starts_with(&before[..first]), "{}\n--- before\n{}\n--- after\n{}", place, text, edited);
        // What shares its line with a dash makes room for the next member, which comes up.
        let column = before[first_line].len() - before[first_line].trim_start().len();
        let deeper = |line: &&str| line.len() - line.trim_start().len() > column && line.trim_start().starts_with('#');
        let own = before[last + 1..].iter().take_while(|line| line.is_empty() || deeper(line)).collect::<Vec<_>>();
        let own = own.iter().rposition(|line| deeper(line)).filter(|_| deleting).map_or(0, |at| at + 1);
        let behind = &before[last + 1 + own..];
        let blank = behind.iter().take_while(|line| line.is_empty()).count();
        let up = behind.get(blank + 1..).filter(|_| deleting);
        let is_kept = after.ends_with(behind) || up.is_some_and(|behind| after.ends_with(behind));
        prop_assert!(is_kept, "{}\n--- before\n{}\n--- after\n{}", place, text, edited);
    }

    #[test]
    fn no_text_makes_an_edit_break_down(text in "([a-c]: |- |  |[#\\[\\]{},&*!|>'\"%@~?:-]|\\n|x|ä|1){0,40}") {
        for pointer in ["/a", "/0", "/a/b", "/a/-", ""] {
            let _ = set(&text, pointer, &json!({"x": [1]}));
            let _ = delete(&text, pointer);
        }
    }
}
