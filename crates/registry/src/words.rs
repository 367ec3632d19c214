//! The words of a name, whichever way they are joined: `sendEmail`, `send_email`, `HTTPServer`, `read-file2`.

/// In lower case, in order.
pub(crate) fn split(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut open = false;
    let mut characters = name.chars().peekable();
    let mut before = ' ';
    while let Some(c) = characters.next() {
        if c.is_alphanumeric() {
            let hump = c.is_uppercase() && before.is_lowercase();
            // The last capital of an acronym belongs to the next word: HTTP-Server.
            let after_acronym =
                c.is_uppercase() && before.is_uppercase() && characters.peek().is_some_and(|next| next.is_lowercase());
            if !open || hump || after_acronym {
                words.push(String::new());
            }
            open = true;
            if let Some(word) = words.last_mut() {
                word.extend(c.to_lowercase());
            }
        } else {
            // An apostrophe is inside a word, everything else between two.
            open = open && c == '\'';
        }
        before = c;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn every_way_of_joining_words_is_undone() {
        assert_eq!(split("sendEmail"), ["send", "email"]);
        assert_eq!(split("monorepo_cli.run-script"), ["monorepo", "cli", "run", "script"]);
        assert_eq!(split("parseHTTPRequest2"), ["parse", "http", "request2"]);
        assert_eq!(split("getURL"), ["get", "url"]);
        assert_eq!(split("Don't send an e-mail!"), ["dont", "send", "an", "e", "mail"]);
        assert_eq!(split("Überweisung ausführen"), ["überweisung", "ausführen"]);
        assert_eq!(split("--"), Vec::<String>::new());
    }
}
