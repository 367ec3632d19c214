//! What a program writes, as text: shown while it comes, and whole at its end.
//!
//! Bytes that are no UTF-8 become replacement characters; a character that comes in two pieces stays one.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use toolgate_engine::runner::OutputSink;
use toolgate_sandbox::Stream;

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Where a program's output goes, and what carries it on until there is no more. What it holds is bounded by what the
/// program may write. Once the call is cancelled nobody is waited for.
pub(super) fn relay(
    shown: OutputSink,
    cancel: CancellationToken,
) -> (toolgate_sandbox::OutputSink, impl Future<Output = ()>) {
    let (sender, mut pieces) = mpsc::unbounded_channel::<(Stream, Vec<u8>)>();
    let sink: toolgate_sandbox::OutputSink = Arc::new(move |stream, bytes: &[u8]| {
        // Nobody listens any more: then it is in the result, or nowhere.
        let _ = sender.send((stream, bytes.to_vec()));
    });
    let relayed = async move {
        let (mut stdout, mut stderr) = (Pieces::default(), Pieces::default());
        while let Some((stream, bytes)) = pieces.recv().await {
            let text = match stream {
                Stream::Stdout => stdout.take(bytes),
                Stream::Stderr => stderr.take(bytes),
            };
            show(&shown, &cancel, text).await;
        }
        for rest in [text(&stdout.rest), text(&stderr.rest)] {
            show(&shown, &cancel, rest).await;
        }
    };
    (sink, relayed)
}

async fn show(shown: &OutputSink, cancel: &CancellationToken, text: String) {
    if text.is_empty() {
        return;
    }
    tokio::select! {
        () = shown.append(text) => {}
        () = cancel.cancelled() => {}
    }
}

/// The beginning of a character whose end has not come yet.
#[derive(Default)]
struct Pieces {
    rest: Vec<u8>,
}

impl Pieces {
    fn take(&mut self, bytes: Vec<u8>) -> String {
        let mut all = std::mem::take(&mut self.rest);
        all.extend(bytes);
        let begun = all.utf8_chunks().last().map(|chunk| chunk.invalid()).filter(|invalid| is_begun(invalid));
        self.rest = all.split_off(all.len() - begun.map_or(0, <[u8]>::len));
        text(&all)
    }
}

/// Whether more bytes could make a character of these.
fn is_begun(bytes: &[u8]) -> bool {
    !bytes.is_empty() && std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_in_pieces_stays_one() {
        let whole = "aä€😀z".as_bytes();
        for cut in 0..=whole.len() {
            let (first, second) = whole.split_at(cut);
            let mut pieces = Pieces::default();
            let text = pieces.take(first.to_vec()) + &pieces.take(second.to_vec());
            assert_eq!((text.as_str(), pieces.rest.as_slice()), ("aä€😀z", &[][..]), "{cut}");
        }
        let mut pieces = Pieces::default();
        assert_eq!(pieces.take(vec![b'a', 0xff, 0xe2, 0x82]), "a\u{fffd}");
        assert_eq!(pieces.take(vec![b'b']), "\u{fffd}b");
    }
}
