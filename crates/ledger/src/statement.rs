//! A log's word about something that is no head of it: a digest, signed by the log's own key as a C2SP note.
//!
//! Invariant: a statement is never taken for a head, nor a head for a statement. A head begins with the log's name, which
//! is the name of the key; a statement begins with its context, which may not be that name, and goes on with a digest in
//! hexadecimal, which is no size.

use toolgate_contracts::Digest;

use crate::broken::Broken;
use crate::note::{KeyName, Note, Signer, VerifierKey};

/// Signs that this digest is the log's, in this context: one line, the same for all statements of a kind.
pub fn sign(signer: &Signer, context: &str, digest: &Digest) -> Result<Note, Broken> {
    check_context(signer.verifier().name(), context)?;
    let text = text(context, digest);
    let signature = signer.sign(&text);
    Ok(Note::new(text, signature)?)
}

/// Which of these keys signed the digest in this context.
pub fn verify<'k>(
    note: &[u8],
    context: &str,
    digest: &Digest,
    keys: &'k [VerifierKey],
) -> Result<&'k VerifierKey, Broken> {
    let note = Note::parse(note).map_err(Broken::StatementSignature)?;
    let (signed, by) = note.open(keys).map_err(Broken::StatementSignature)?;
    if signed != text(context, digest) {
        return Err(Broken::Statement("the signature is of another content"));
    }
    let by = by.first().map(|signed| signed.by).ok_or(Broken::Statement("nobody signed it"))?;
    check_context(by.name(), context)?;
    Ok(by)
}

fn check_context(name: &KeyName, context: &str) -> Result<(), Broken> {
    let is_fit = !context.is_empty() && !context.contains(char::is_control) && context != name.as_str();
    if is_fit { Ok(()) } else { Err(Broken::Statement("a context is one line, and not the name of a log")) }
}

fn text(context: &str, digest: &Digest) -> String {
    format!("{context}\nsha256:{digest}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::Checkpoint;

    const CONTEXT: &str = "toolgate/replay/1";

    fn signer(seed: u8) -> Signer {
        Signer::from_seed("toolgate/0000000000000001/tenant".parse().unwrap(), &[seed; 32])
    }

    #[test]
    fn a_statement_holds_for_its_digest_its_context_and_its_key_alone() {
        let (ours, other) = (signer(1), signer(2));
        let digest = Digest::of(b"a bundle");
        let note = sign(&ours, CONTEXT, &digest).unwrap().to_string();
        let keys = [other.verifier().clone(), ours.verifier().clone()];
        assert_eq!(verify(note.as_bytes(), CONTEXT, &digest, &keys).unwrap(), ours.verifier());
        let refused = [
            verify(note.as_bytes(), CONTEXT, &Digest::of(b"another"), &keys),
            verify(note.as_bytes(), "toolgate/replay/2", &digest, &keys),
            verify(note.as_bytes(), CONTEXT, &digest, &keys[..1]),
            verify(note.replace("replay", "repay").as_bytes(), CONTEXT, &digest, &keys),
            verify(b"", CONTEXT, &digest, &keys),
        ];
        assert!(refused.iter().all(Result::is_err), "{refused:?}");
        // It is no checkpoint, and nobody is told so.
        let told: Vec<String> = refused.iter().filter_map(|one| one.as_ref().err()).map(ToString::to_string).collect();
        assert!(told.iter().all(|told| !told.contains("checkpoint")), "{told:?}");
    }

    #[test]
    fn a_statement_is_no_head_and_no_context_is_a_log() {
        let ours = signer(1);
        let digest = Digest::of(b"a bundle");
        let note = sign(&ours, CONTEXT, &digest).unwrap();
        assert!(Checkpoint::parse(note.unverified_text()).is_err());
        for context in ["", "two\nlines", ours.verifier().name().as_str()] {
            assert!(sign(&ours, context, &digest).is_err(), "{context:?}");
        }
    }
}
