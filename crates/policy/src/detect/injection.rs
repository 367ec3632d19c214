//! `injection`: the marks of text that speaks to the model instead of the reader: calls to forget instructions, forged
//! roles, forged tool calls, and pictures whose address carries data away.
//!
//! Only what ordinary text has no use for; whoever writes about such attacks will match, and is asked.

use regex::Regex;
use serde::Deserialize;
use toolgate_contracts::Fault;
use toolgate_contracts::unseen::is_unseen;
use unicode_normalization::UnicodeNormalization as _;
use url::Url;

use super::walk::{Found, Leaf};
use super::{Kinds, compile};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// "Ignore all previous instructions", in several languages.
    Override,
    /// Markup by which a model tells who speaks.
    RoleTags,
    /// Markup by which a model calls tools.
    ToolMarkup,
    /// A picture that is fetched from an address with data in it.
    Exfiltration,
}

const ALL: [Kind; 4] = [Kind::Override, Kind::RoleTags, Kind::ToolMarkup, Kind::Exfiltration];

impl Kind {
    const fn shown(self) -> &'static str {
        match self {
            Self::Override => "an instruction to disregard instructions",
            Self::RoleTags => "markup that pretends to be another speaker",
            Self::ToolMarkup => "markup of a tool call",
            Self::Exfiltration => "a picture whose address could carry data away",
        }
    }

    /// Over text in lower case with single spaces.
    const fn patterns(self) -> &'static [&'static str] {
        match self {
            Self::Override => &[
                r"\b(?:ignore|disregard|forget|override|bypass|overrule) (?:(?:all|any|every|the|your|of|my|these|those|our) ){0,4}(?:previous|prior|above|earlier|preceding|former|foregoing|existing|initial|original|system) (?:(?:system|user|developer|safety) )?(?:instructions?|prompts?|rules|directions|directives?|guidelines|commands?|programming)\b",
                r"\b(?:ignore|disregard|forget) (?:everything|all|anything) (?:(?:that )?(?:was|were|you were|i|you) (?:told|said|given|instructed|written) )?(?:above|before|previously|so far)\b",
                r"\byou are (?:now|from now on) (?:in )?(?:dan\b|(?:developer|debug|god|jailbreak|unrestricted|admin) mode|jailbroken|unrestricted|unfiltered)",
                r"\b(?:reveal|print|repeat|output|show|leak|display) (?:me )?(?:all )?(?:of )?(?:your|the) (?:(?:full|entire|hidden|initial|original|exact) ){0,2}(?:system prompt|system message|hidden instructions|initial instructions)",
                r"\b(?:do not|don't|never) (?:mention|reveal|disclose|tell|report|show) (?:this|these|that|it|any of this)\b[^.!?]{0,40}\b(?:the )?user\b",
                // German, French, Spanish, Portuguese, Italian, Dutch, Polish
                r"\b(?:ignoriere?n?|vergiss|vergessen sie|missachten? sie|missachte) (?:sie )?(?:(?:alle|sämtliche|die|deine|ihre|meine) ){0,3}(?:vorherigen|vorigen|bisherigen|obigen|früheren|vorangegangenen) (?:anweisungen|instruktionen|befehle|regeln|vorgaben)",
                r"\b(?:ignore[zrs]?|oublie[zrs]?) (?:(?:toutes?|tous|les|tes|vos|mes) ){0,3}(?:instructions|consignes|directives|règles) (?:précédentes|antérieures|ci-dessus|initiales)",
                r"\b(?:ignora|ignore|ignorad|olvida|olvide) (?:(?:todas?|todos|las|los|tus|sus|mis) ){0,3}(?:instrucciones|indicaciones|órdenes|reglas) (?:anteriores|previas|precedentes|de arriba)",
                r"\b(?:ignore|ignora|esqueça|desconsidere) (?:(?:todas?|todos|as|os|suas|tuas) ){0,3}(?:instruções|orientações|ordens|regras) (?:anteriores|prévias|acima|precedentes)",
                r"\b(?:ignora|ignorate|dimentica) (?:(?:tutte|tutti|le|i|tue) ){0,3}(?:istruzioni|indicazioni|regole) (?:precedenti|di sopra|sopra|iniziali)",
                r"\b(?:negeer|vergeet) (?:(?:alle|de|je|uw) ){0,3}(?:vorige|voorgaande|eerdere|bovenstaande) (?:instructies|opdrachten|regels)",
                r"\b(?:zignoruj|ignoruj|zapomnij) (?:(?:o|wszystkie|wszystkich) ){0,2}(?:poprzednie|wcześniejsze|powyższe|poprzednich) (?:instrukcje|polecenia|instrukcjach|poleceniach)",
                // Russian, Turkish, Arabic, Chinese, Japanese, Korean
                r"(?:игнорируй|игнорируйте|проигнорируй|проигнорируйте|забудь|забудьте) (?:(?:все|всё|обо|о|про|свои|всех) ){0,3}(?:предыдущие|прежние|предшествующие|вышеуказанные|предыдущих) (?:инструкции|указания|команды|правила|инструкциях)",
                r"önceki (?:tüm )?(?:talimatları|komutları|yönergeleri) (?:yok say|unut|görmezden gel|dikkate alma)",
                r"تجاهل (?:جميع |كل )?(?:التعليمات|الأوامر|التوجيهات) (?:السابقة|أعلاه)",
                r"(?:忽略|忽視|忽视|无视|無視|忘记|忘記)(?:掉)?(?:你)?(?:所有|全部|一切)?(?:之前|以上|先前|前面|上面|上述|此前|以前)(?:的)?(?:所有|全部|一切)?(?:的)?(?:指令|指示|说明|說明|提示|命令|规则|規則|要求)",
                r"(?:以前|これまで|上記|前|今まで|先ほど)の(?:すべての|全ての|全)?(?:指示|命令|指令|プロンプト|ルール)を(?:すべて|全て)?(?:無視|忘れ)",
                r"(?:이전|위의|앞의|기존)(?:의)? ?(?:모든 )?(?:지시|명령|지침|프롬프트)(?:사항)?(?:을|를|들을)? ?(?:모두 )?(?:무시|잊)",
            ],
            Self::RoleTags => &[
                r"<\|(?:im_start|im_end|system|user|assistant|endoftext|eot_id|start_header_id|end_header_id|begin_of_text|channel|message|start|end)\|>",
                r"\[/?inst\]|<</?sys>>",
                r"</?(?:system[-_](?:prompt|reminder|message|instructions?)|developer[-_]message)>",
                r"<system>[^<]*\b(?:you|ignore|must|instructions?|assistant)\b",
                r"<important>[^<]*\b(?:tool|before using|assistant|you must|instructions?)\b",
                r"###? ?(?:system|instruction)s?:? (?:you are|you must|ignore|override|new instructions)",
                r"<!--[^>]*\b(?:ai|assistant|llm|agent|chatbot|language model)s?\b[^>]*\b(?:must|should|ignore|instructions?|execute|send|call)\b",
            ],
            Self::ToolMarkup => &[
                r"</?(?:antml:)?(?:function_calls|tool_calls?|tool_use|tool_code|function_results)>",
                r"<(?:antml:)?invoke name=",
                r"<function=[a-z_]",
                r"<\|(?:python_tag|tool_calls?_section_begin|tool_call_begin|tool_call|plugin|action_start)\|>",
                r"<｜tool▁calls?▁begin｜>",
                r"\[tool_calls\] ?\[",
            ],
            Self::Exfiltration => &[],
        }
    }
}

const PICTURES: [&str; 2] =
    [r"!\[[^\]\n]*\]\(\s*<?(https?://[^)\s>]+)", r#"(?i)<img [^>]*?src\s*=\s*["']?(https?://[^"'\s>]+)"#];

/// A value in a query that is as long as this says more than a name or a size.
const QUERY_VALUE_BYTES_MAX: usize = 100;

#[derive(Clone, Debug)]
pub struct Injection {
    marks: Vec<(Kind, Vec<Regex>)>,
    pictures: Vec<Regex>,
}

impl Injection {
    pub fn new(config: &Kinds<Kind>) -> Result<Self, Fault> {
        let mut injection = Self { marks: Vec::new(), pictures: Vec::new() };
        for kind in config.chosen(&ALL)? {
            let patterns = kind
                .patterns()
                .iter()
                .map(|pattern| compile(&by_ascii_words(pattern)))
                .collect::<Result<Vec<_>, _>>()?;
            injection.marks.push((kind, patterns));
            if kind == Kind::Exfiltration {
                injection.pictures = PICTURES.iter().map(|pattern| compile(pattern)).collect::<Result<_, _>>()?;
            }
        }
        Ok(injection)
    }

    pub fn look(&self, leaf: &Leaf<'_>, found: &mut Found) {
        let Some(text) = leaf.text() else { return };
        let plain = plain(text);
        for (kind, patterns) in &self.marks {
            if patterns.iter().any(|pattern| pattern.is_match(&plain)) {
                found.mark(kind.shown());
            }
        }
        let mut addresses = self.pictures.iter().flat_map(|pattern| pattern.captures_iter(text));
        if addresses.any(|captures| captures.get(1).is_some_and(|address| carries_data(address.as_str()))) {
            found.mark(Kind::Exfiltration.shown());
        }
    }
}

/// Unicode's word boundaries would take the fast way of matching away from every text that is not plain ASCII.
fn by_ascii_words(pattern: &str) -> String {
    pattern.replace(r"\b", r"(?-u:\b)")
}

/// One spelling: compatible forms folded, lower case, single spaces, nothing invisible, no straight or curly difference.
fn plain(text: &str) -> String {
    if text.is_ascii() {
        let spaced =
            text.split(|c: char| c.is_ascii_whitespace() || c.is_ascii_control()).filter(|word| !word.is_empty());
        return spaced.collect::<Vec<_>>().join(" ").to_ascii_lowercase();
    }
    let mut plain = String::with_capacity(text.len());
    for character in text.nfkc().flat_map(char::to_lowercase) {
        match character {
            '\u{2019}' => plain.push('\''),
            // Tags that spell ASCII, as a model reads them.
            '\u{e0020}'..='\u{e007e}' => {
                plain.extend(char::from_u32(character as u32 - 0xe0000).map(|c| c.to_ascii_lowercase()));
            }
            _ if character.is_whitespace() || character.is_control() => {
                if !plain.ends_with(' ') {
                    plain.push(' ');
                }
            }
            _ if is_unseen(character) => {}
            _ => plain.push(character),
        }
    }
    plain
}

/// A place to fill in, or more in the query than a picture needs. Signed addresses of storage services are long too.
fn carries_data(address: &str) -> bool {
    let Ok(url) = Url::parse(address) else { return false };
    let query = url.query().unwrap_or_default();
    let placeholder = ["{", "}", "%7b", "[", "$(", "<", "%3c"];
    let asks = query.split('&').filter_map(|pair| pair.split_once('=')).any(|(_, value)| {
        let value = value.to_ascii_lowercase();
        placeholder.iter().any(|mark| value.starts_with(mark))
    });
    let signed = url.query_pairs().any(|(name, _)| {
        let name = name.to_ascii_lowercase();
        name.starts_with("x-amz-")
            || name.starts_with("x-goog-")
            || ["sig", "signature", "key-pair-id"].contains(&name.as_str())
    });
    let long = url.query_pairs().any(|(_, value)| value.len() > QUERY_VALUE_BYTES_MAX);
    asks || (long && !signed)
}
