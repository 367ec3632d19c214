//! Passwords: what makes one good enough, how it is kept, and how it is compared.
//!
//! Hashing takes memory and time on purpose, so few run at once and the rest wait for their turn. Deliberately absent:
//! rules about kinds of characters, and passwords that run out; both make people choose worse ones.

use std::sync::{Arc, LazyLock};

use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, Params, PasswordHasher as _, PasswordVerifier as _, Version};
use tokio::sync::Semaphore;
use toolgate_contracts::{Fault, FaultKind, Rng};
use zeroize::Zeroizing;

use crate::app::App;

/// Hashes that are computed at once, of which each takes [`MEMORY_KIB`]: 76 MiB together.
pub const HASHED_AT_ONCE_MAX: usize = 4;
/// Those that wait for their turn, of which each holds its request alone: a few seconds of hashing. Who comes then is
/// told to come back.
const WAITING_MAX: usize = 64;
const BUSY_S: u32 = 5;
pub const CHARS_MIN: usize = 10;
pub const CHARS_MAX: usize = 256;
const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;
const LANES: u32 = 1;

/// What is compared with where nobody is meant, so that it takes as long. No password fits: it is of random bytes.
static NOBODYS: LazyLock<Option<String>> = LazyLock::new(|| {
    let password = Rng::System.bytes::<32>();
    hash(&password, &Rng::System.bytes::<16>()).ok()
});

/// Whether a password may be chosen by somebody with this name and address.
pub fn check(password: &str, name: &str, email: Option<&str>) -> Result<(), Fault> {
    let wrong =
        |told: String| Err(Fault::invalid(told, "choose another password; a few words are a good one").at("/password"));
    let chars = password.chars().count();
    if !(CHARS_MIN..=CHARS_MAX).contains(&chars) {
        return wrong(format!("the password has {chars} characters, between {CHARS_MIN} and {CHARS_MAX} are expected"));
    }
    let folded = password.to_lowercase();
    let mailbox = email.and_then(|email| email.split_once('@')).map(|(mailbox, _)| mailbox);
    let own = [Some(name), email, mailbox];
    if own.into_iter().flatten().any(|own| own.to_lowercase() == folded) {
        return wrong("the password is the name or the e-mail address".to_owned());
    }
    if folded.chars().all(|c| folded.starts_with(c)) {
        return wrong("the password is one character over and over".to_owned());
    }
    Ok(())
}

impl App {
    pub(super) async fn hashed(&self, password: &str) -> Result<String, Fault> {
        let (password, salt) = (Zeroizing::new(password.to_owned()), self.rng.bytes::<16>());
        self.computed(move || hash(password.as_bytes(), &salt)).await?
    }

    /// Compares a password with what is kept, or as long with nobody's.
    pub(super) async fn fits(&self, password: &str, kept: Option<String>) -> Result<bool, Fault> {
        // What nobody can have chosen is not worth the time, and takes as little whoever is meant.
        if password.chars().count() > CHARS_MAX {
            return Ok(false);
        }
        let password = Zeroizing::new(password.to_owned());
        let known = kept.is_some();
        self.computed(move || {
            let kept =
                kept.or_else(|| NOBODYS.clone()).ok_or_else(|| Fault::internal("no password to compare with"))?;
            let kept =
                PasswordHash::new(&kept).map_err(|error| Fault::internal(format!("a password's hash: {error}")))?;
            Ok(function()?.verify_password(password.as_bytes(), &kept).is_ok() && known)
        })
        .await?
    }

    async fn computed<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
        self.hashing.turn(work).await
    }
}

/// Who may hash now, and who may wait for it.
pub struct Hashing {
    turns: Arc<Semaphore>,
    places: Semaphore,
}

impl Default for Hashing {
    fn default() -> Self {
        Self {
            turns: Arc::new(Semaphore::new(HASHED_AT_ONCE_MAX)),
            places: Semaphore::new(HASHED_AT_ONCE_MAX + WAITING_MAX),
        }
    }
}

impl Hashing {
    /// Does the work when it is its turn, or says at once that too many wait.
    async fn turn<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
        let _place = self.places.try_acquire().map_err(|_| busy())?;
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(Fault::internal)?;
        // The turn goes with the work: it goes on when whoever asked for it went away, and its memory is taken until then.
        let work = move || {
            let done = work();
            drop(turn);
            done
        };
        tokio::task::spawn_blocking(work).await.map_err(Fault::internal)
    }
}

fn busy() -> Fault {
    Fault::new(
        FaultKind::Unavailable,
        "too many passwords are being checked at the moment",
        format!("try again in {BUSY_S} seconds"),
    )
    .with_details(serde_json::json!({"retry_after_s": BUSY_S}))
}

fn hash(password: &[u8], salt: &[u8]) -> Result<String, Fault> {
    let kept: PasswordHash = function()?.hash_password_with_salt(password, salt).map_err(Fault::internal)?;
    Ok(kept.to_string())
}

fn function() -> Result<Argon2<'static>, Fault> {
    let params = Params::new(MEMORY_KIB, PASSES, LANES, None).map_err(Fault::internal)?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_long_enough_and_not_the_name() {
        #[track_caller]
        fn passes(password: &str, expected: bool) {
            assert_eq!(
                check(password, "Ada Lovelace", Some("ada.lovelace@example.com")).is_ok(),
                expected,
                "{password}"
            );
        }
        passes("correct horse", true);
        passes("ADA LOVELACE", false);
        passes("Ada.Lovelace@example.com", false);
        passes("ada.lovelace", false);
        passes("ada.lovelace1", true);
        passes("nine char", false);
        passes("10 charact", true);
        passes("ßßßßßßßßß1", true);
        passes("aaaaaaaaaaaaaa", false);
        passes(&"ab".repeat(128), true);
        passes(&"abc".repeat(86), false);
    }

    #[tokio::test]
    async fn few_hash_at_once_few_wait_and_the_rest_are_told_to_come_back() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let hashing = Arc::new(Hashing::default());
        let (open, closed) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let (at_once, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let begin = |number: usize| {
            let hashing = Arc::clone(&hashing);
            let (open, closed) = (Arc::clone(&open), Arc::clone(&closed));
            let (at_once, most) = (Arc::clone(&at_once), Arc::clone(&most));
            let handle = tokio::runtime::Handle::current();
            tokio::spawn(async move {
                let work = move || {
                    most.fetch_max(at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    handle.block_on(open.acquire()).unwrap().forget();
                    at_once.fetch_sub(1, Ordering::SeqCst);
                    closed.fetch_add(1, Ordering::SeqCst);
                    number
                };
                hashing.turn(work).await
            })
        };
        let places = HASHED_AT_ONCE_MAX + WAITING_MAX;
        let taken: Vec<_> = (0..places).map(&begin).collect();
        while at_once.load(Ordering::SeqCst) < HASHED_AT_ONCE_MAX || hashing.places.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let fault = begin(places).await.unwrap().unwrap_err();
        assert_eq!((fault.kind().status(), fault.details().unwrap()["retry_after_s"].as_u64()), (503, Some(5)));
        // Who goes away while it is computed leaves the turn taken: nobody else begins for it.
        taken[0].abort();
        taken[places - 1].abort();
        tokio::task::yield_now().await;
        open.add_permits(places);
        let mut done = 0;
        for task in taken {
            done += usize::from(task.await.is_ok_and(|worked| worked.is_ok()));
        }
        assert!(done >= places - 2, "{done}");
        assert_eq!(most.load(Ordering::SeqCst), HASHED_AT_ONCE_MAX);
    }

    #[test]
    fn a_hash_says_how_it_was_made() {
        let kept = hash(b"correct horse", &[7; 16]).unwrap();
        assert!(kept.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{kept}");
        let kept = PasswordHash::new(&kept).unwrap();
        assert!(function().unwrap().verify_password(b"correct horse", &kept).is_ok());
        assert!(function().unwrap().verify_password(b"correct house", &kept).is_err());
    }
}
