//! What people sign in with, in the one spelling that is counted, looked up and kept.
//!
//! Deliberately absent: telling names from addresses, and what a good one looks like; whoever takes one checks that.

use unicode_normalization::UnicodeNormalization as _;

/// A name or an e-mail address, as it is compared: compatible forms are one, letters small, nothing around it.
/// INVARIANT: folding what is folded changes nothing, so a value that was kept finds itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LoginName(String);

impl LoginName {
    pub fn of(text: &str) -> Self {
        // Small letters may come apart anew and wide ones may turn out to be spaces: until nothing changes, which the
        // second round confirms for all but a handful of letters.
        let mut folded = once(text);
        loop {
            let again = once(&folded);
            if again == folded {
                return Self(folded);
            }
            folded = again;
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn once(text: &str) -> String {
    let composed: String = text.nfkc().flat_map(char::to_lowercase).nfkc().collect();
    composed.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spellings_of_one_name_are_one() {
        #[track_caller]
        fn check(text: &str, expected: &str) {
            assert_eq!(LoginName::of(text).as_str(), expected, "{text:?}");
        }
        check("ada", "ada");
        check("  Ada\t\n", "ada");
        check("\u{a0}ADA\u{3000}", "ada");
        check("Ada@Example.COM", "ada@example.com");
        check("\u{ff21}\u{ff24}\u{ff21}", "ada");
        check("ada\u{ff20}example.com", "ada@example.com");
        check("Zoe\u{308}", "zo\u{eb}");
        check("ΣΊΣΥΦΟΣ", "σίσυφοσ");
        check("\u{130}nci", "i\u{307}nci");
        check("Ada  L", "ada  l");
        check("", "");
    }

    proptest! {
        #[test]
        fn folding_what_is_folded_changes_nothing(text in any::<String>()) {
            let folded = LoginName::of(&text);
            prop_assert_eq!(LoginName::of(folded.as_str()), folded.clone());
            prop_assert_eq!(LoginName::of(&format!(" {text} ")), folded);
        }
    }
}
