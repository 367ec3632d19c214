//! Words of a document that others wrote, made fit to stand in a definition: of one kind of line end, without control
//! characters, within a length. Invisible characters stay, so that registration refuses them where everybody sees it.

/// Several lines.
pub(super) fn text(words: &str, chars_max: usize) -> String {
    let words = words.replace("\r\n", "\n").replace('\r', "\n");
    let kept: String = words.trim().chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    cut(&kept, chars_max)
}

/// One line.
pub(super) fn line(words: &str, chars_max: usize) -> String {
    let joined = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let kept: String = joined.chars().filter(|c| !c.is_control()).collect();
    cut(&kept, chars_max)
}

/// What is longer ends after a whole word, with a mark.
fn cut(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    let head: String = text.chars().take(chars_max.saturating_sub(1)).collect();
    let end = head.rfind(char::is_whitespace).filter(|end| *end > head.len() / 2).unwrap_or(head.len());
    format!("{}…", head[..end].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_words_are_brought_into_shape() {
        assert_eq!(text(" a\r\nb\u{7}\rc ", 99), "a\nb\nc");
        assert_eq!(line("a\r\n  b\tc", 99), "a b c");
        assert_eq!(line("one two three", 9), "one two…");
        assert_eq!(line("onetwothree", 4), "one…");
    }
}
