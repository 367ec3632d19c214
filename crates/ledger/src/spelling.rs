//! The two encodings that C2SP texts are made of: decimal numbers and base64, each with exactly one spelling.

use data_encoding::BASE64;
use toolgate_contracts::Digest;

use crate::tree::SIZE_MAX;

/// A size or an index: digits alone, no zero in front, at most `SIZE_MAX`.
pub fn decimal(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let plain = digits && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|number| plain && *number <= SIZE_MAX)
}

pub fn hash(text: &str) -> Option<Digest> {
    let bytes = BASE64.decode(text.as_bytes()).ok()?;
    bytes.try_into().ok().map(Digest::from_bytes)
}

pub fn base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_one_spelling() {
        assert_eq!(decimal("0"), Some(0));
        assert_eq!(decimal("20852163"), Some(20_852_163));
        assert_eq!(decimal("9223372036854775807"), Some(SIZE_MAX));
        for bad in ["", "00", "01", "+1", "-1", " 1", "1 ", "1e3", "٣", "9223372036854775808", "18446744073709551616"]
        {
            assert_eq!(decimal(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_hash_has_one_spelling() {
        let text = "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=";
        assert_eq!(hash(text).map(|digest| base64(digest.as_bytes())).as_deref(), Some(text));
        for bad in [
            "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I",
            "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2J=",
            "CsUYapGGPo4dkMgIAUqom_Xajj7h2fB2MPA3j2jxq2I=",
            "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2IA",
            "",
        ] {
            assert_eq!(hash(bad), None, "{bad}");
        }
    }
}
