//! Pictures that clients show beside the names of tools. They travel within the list: nobody is sent anywhere to fetch one.

use std::collections::HashMap;
use std::sync::LazyLock;

use data_encoding::BASE64;
use serde_json::{Value, json};

/// A picture that a definition holds itself; a larger one is left out.
const PICTURE_CHARS_MAX: usize = 32 * 1024;
/// What it may be: pixels, nothing that could hold more.
const PICTURES: [&str; 5] = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"];

/// Written by `console/scripts/tool-icons.mjs`.
const SOURCE: &str = include_str!("icons.txt");

/// By name, as addresses that hold the picture. Of a grey that can be seen on light and on dark.
static ICONS: LazyLock<HashMap<&'static str, String>> = LazyLock::new(|| {
    let lines = SOURCE.lines().filter(|line| !line.starts_with('#'));
    let icons = lines.filter_map(|line| line.split_once(' '));
    icons
        .map(|(name, inside)| {
            let svg = format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"24\" height=\"24\" viewBox=\"0 0 24 24\" fill=\"none\" \
                 stroke=\"#808080\" stroke-width=\"2\" stroke-linecap=\"round\" stroke-linejoin=\"round\">{inside}</svg>"
            );
            (name, format!("data:image/svg+xml;base64,{}", BASE64.encode(svg.as_bytes())))
        })
        .collect()
});

/// The `icons` of a tool, by what its definition says: the name of one that is known here, or a picture. Of anything else
/// there is none.
pub(super) fn of(icon: &str) -> Option<Value> {
    if let Some(address) = ICONS.get(icon) {
        return Some(json!([{"src": address, "mimeType": "image/svg+xml", "sizes": ["any"]}]));
    }
    picture(icon).map(|kind| json!([{"src": icon, "mimeType": kind}]))
}

/// The kind of picture that an address holds itself.
pub(super) fn picture(address: &str) -> Option<&'static str> {
    let (kind, data) = address.strip_prefix("data:")?.split_once(";base64,")?;
    let kind = PICTURES.into_iter().find(|known| *known == kind)?;
    let good = address.len() <= PICTURE_CHARS_MAX && !data.is_empty() && BASE64.decode(data.as_bytes()).is_ok();
    good.then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_travels_within_the_list_or_is_not_there() {
        let calculator = of("calculator").unwrap();
        let data = calculator[0]["src"].as_str().unwrap().strip_prefix("data:image/svg+xml;base64,").unwrap();
        let svg = String::from_utf8(BASE64.decode(data.as_bytes()).unwrap()).unwrap();
        assert!(
            svg.starts_with("<svg xmlns=") && svg.contains("<rect width=\"16\"") && svg.ends_with("</svg>"),
            "{svg}"
        );
        assert_eq!(of("data:image/png;base64,AAAA").unwrap()[0]["mimeType"], "image/png");
        let large = format!("data:image/png;base64,{}", "A".repeat(PICTURE_CHARS_MAX));
        for icon in [
            "",
            "#",
            "nothing-such",
            "https://example.com/a.png",
            "data:image/svg+xml;base64,AAAA",
            "data:text/html;base64,AAAA",
            "data:image/png;base64,",
            "data:image/png;base64,<b>",
            "data:image/png,AAAA",
            &large,
        ] {
            assert!(of(icon).is_none(), "{icon}");
        }
        assert!(ICONS.len() > 50 && ICONS.keys().all(|name| !name.contains(['<', '"'])));
    }
}
