//! What code gets and gives.

use crate::world::{run, sandbox, told};

#[tokio::test(flavor = "multi_thread")]
async fn the_result_is_what_main_returns_or_what_result_was_set_to() {
    let Some(sandbox) = sandbox().await else { return };
    for (code, expected) in [
        ("result = 6 * 7", "42"),
        ("def main(input):\n    return {'a': [1, 2.5, None, True, 'ü']}", r#"{"a":[1,2.5,null,true,"ü"]}"#),
        ("x = 1", "null"),
        ("result = 1\ndef main(input): return 2", "2"),
        ("import sys\nresult = 3\nsys.exit()", "3"),
    ] {
        let result = run(&sandbox, code).await;
        assert_eq!(told(&result.ended), expected, "{code}");
    }
}
