//! The one list of characters that do not show themselves to a reader: whoever decides, or reads a name, must see what
//! is there.
//!
//! The console has the same ranges in `console/src/lib/unseen.ts`; a test here compares the two. Deliberately absent:
//! letters that look like other letters, which [`crate::FoldedName`] is about, and where a script needs an unseen
//! character, which whoever judges texts decides.

use crate::fault::Fault;

/// Controls, what joins, separates, or turns the direction, fillers, selectors, tags, and what no font has.
pub const UNSEEN: [(u32, u32); 27] = [
    (0x0000, 0x001F),
    (0x007F, 0x009F),
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x2028, 0x202E),
    (0x2060, 0x206F),
    (0x2800, 0x2800),
    (0x3164, 0x3164),
    (0xE000, 0xF8FF),
    (0xFDD0, 0xFDEF),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFC),
    (0xFFFE, 0xFFFF),
    (0x13430, 0x1343F),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0x1FFFE, 0x1FFFF),
    (0xE0000, 0xE0FFF),
    (0xF0000, 0xFFFFF),
    (0x0010_0000, 0x0010_FFFF),
];

/// Spaces that look like the plain one and are not.
pub const BLANK: [(u32, u32); 6] =
    [(0x00A0, 0x00A0), (0x1680, 0x1680), (0x2000, 0x200A), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000)];

/// Whether a character does not show itself. Line ends and tabs do not either.
pub fn is_unseen(character: char) -> bool {
    // Nearly all there is to look at is this.
    !matches!(character, ' '..='~') && is_in(&UNSEEN, character)
}

/// The same in a text of several lines, where line ends and tabs are no riddle.
pub fn is_unseen_in_text(character: char) -> bool {
    !matches!(character, '\n' | '\r' | '\t') && is_unseen(character)
}

/// Whether a character looks like a space and is another.
pub fn is_blank(character: char) -> bool {
    !character.is_ascii() && is_in(&BLANK, character)
}

fn is_in(ranges: &[(u32, u32)], character: char) -> bool {
    let code = u32::from(character);
    ranges.iter().any(|(first, last)| (*first..=*last).contains(&code))
}

/// Refuses what people type for others to read where it holds what others would not see: `what` says which text it is,
/// as in `a name`.
pub fn check_seen(what: &str, text: &str) -> Result<(), Fault> {
    match text.chars().find(|character| is_unseen(*character) || is_blank(*character)) {
        None => Ok(()),
        Some(found) => Err(Fault::invalid(
            format!("{what} has a character that others would not see, U+{:04X}", u32::from(found)),
            "type it again without control, invisible or direction characters and with plain spaces",
        )),
    }
}

/// The same for a text of several lines: line ends, other spaces, and the joiners and selectors that scripts and emoji
/// need may stand in it. `member` is where it was sent.
pub fn check_text(member: &str, text: &str) -> Result<(), Fault> {
    let allowed =
        |character| matches!(character, '\n' | '\r' | '\t' | '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}');
    match text.chars().find(|character| is_unseen(*character) && !allowed(*character)) {
        None => Ok(()),
        Some(found) => Err(Fault::invalid(
            format!("`{member}` has a character that others would not see, U+{:04X}", u32::from(found)),
            "write it again without control, invisible or direction characters",
        )
        .at(format!("/{member}"))),
    }
}

/// Refuses a name that others could not read as it is: empty, too long, with spaces around it or with what nobody sees.
pub fn check_name(name: &str, chars_max: usize) -> Result<(), Fault> {
    if name.is_empty() || name.chars().count() > chars_max {
        return Err(Fault::invalid(format!("a name has 1 to {chars_max} characters"), "choose another name"));
    }
    check_seen("the name", name)?;
    if name.trim() != name {
        return Err(Fault::invalid("the name has a space before or after it", "leave the space out"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shows_itself_is_seen_and_nothing_else() {
        for seen in ["a ~é日本語", "हिन्दी", "עברית", "العربية", "👩🚀🏳", "€°²½\u{fffd}"]
        {
            assert!(!seen.chars().any(|c| is_unseen(c) || is_blank(c)), "{seen}");
        }
        for unseen in [
            '\0',
            '\t',
            '\n',
            '\u{1b}',
            '\u{7f}',
            '\u{85}',
            '\u{ad}',
            '\u{34f}',
            '\u{61c}',
            '\u{200b}',
            '\u{200d}',
            '\u{200e}',
            '\u{2028}',
            '\u{202e}',
            '\u{2060}',
            '\u{2066}',
            '\u{2800}',
            '\u{3164}',
            '\u{e000}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{ffa0}',
            '\u{fffb}',
            '\u{e0041}',
            '\u{e01ef}',
            '\u{f0000}',
            '\u{10ffff}',
        ] {
            assert!(is_unseen(unseen) && !is_blank(unseen), "{unseen:?}");
        }
        for blank in ['\u{a0}', '\u{2003}', '\u{202f}', '\u{205f}', '\u{3000}'] {
            assert!(is_blank(blank) && !is_unseen(blank), "{blank:?}");
        }
        for plain in ['\n', '\r', '\t'] {
            assert!(is_unseen(plain) && !is_unseen_in_text(plain));
        }
        assert!(is_unseen_in_text('\u{200b}') && is_unseen_in_text('\0') && !is_unseen_in_text('a'));
        // Whatever Rust takes for a control or another space is in one of the two.
        for character in (0..=u32::from(char::MAX)).filter_map(char::from_u32) {
            if (character.is_control() || character.is_whitespace()) && character != ' ' {
                assert!(is_unseen(character) != is_blank(character), "{character:?}");
            }
        }
    }

    #[test]
    fn a_name_is_what_others_read() {
        #[track_caller]
        fn check(name: &str, legal: bool) {
            assert_eq!(check_name(name, 8).is_ok(), legal, "{name:?}");
        }
        check("Ada L", true);
        check("Zoë 日本", true);
        check("", false);
        check(" ", false);
        check(" Ada", false);
        check("Ada ", false);
        check("Ada\u{a0}L", false);
        check("Ada\nL", false);
        check("Ada\u{202e}L", false);
        check("Ada\u{200b}", false);
        check("A\u{e0042}", false);
        check("12345678", true);
        check("123456789", false);
        for (text, legal) in [
            ("a\nb\tc", true),
            ("👩\u{200d}🚀 ❤\u{fe0f}", true),
            ("a\u{a0}b", true),
            ("a\u{202e}b", false),
            ("a\0", false),
        ] {
            assert_eq!(check_text("reason", text).is_ok(), legal, "{text:?}");
        }
        let told = check_name("Ada\u{202e}", 8).unwrap_err();
        assert_eq!(told.told(), "the name has a character that others would not see, U+202E");
    }

    #[test]
    fn the_console_has_the_same_list() {
        let text = include_str!("../../../console/src/lib/unseen.ts");
        let ranges = |name: &str| -> Vec<(u32, u32)> {
            let from = text.split_once(&format!("export const {name}")).unwrap().1;
            let list = from.split_once("= [").unwrap().1.split_once("\n]").unwrap().0;
            let numbers: Vec<u32> = list
                .split("0x")
                .skip(1)
                .map(|part| {
                    let digits: String = part.chars().take_while(char::is_ascii_hexdigit).collect();
                    u32::from_str_radix(&digits, 16).unwrap()
                })
                .collect();
            numbers.chunks(2).map(|pair| (pair[0], pair[1])).collect()
        };
        assert_eq!(ranges("UNSEEN"), UNSEEN);
        assert_eq!(ranges("BLANK"), BLANK);
        for list in [&UNSEEN[..], &BLANK[..]] {
            assert!(list.iter().all(|(first, last)| first <= last) && list.is_sorted());
        }
    }
}
