//! The same effect-free call by several at once runs once: the first leads, the others take its answer.
//!
//! Who may share is in the [`CacheKey`], the same that guards kept results. A leader that goes away without an answer
//! (cancelled, panicked) strands nobody: one of the others leads. No lock is held while anybody waits.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::cache::CacheKey;

/// Flights at the same time. At the bound a call flies alone.
const FLIGHTS_MAX: usize = 10_000;

pub struct Flights<T>(Arc<Open<T>>);

type Open<T> = Mutex<HashMap<CacheKey, watch::Receiver<Option<T>>>>;

impl<T> Default for Flights<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

#[must_use]
pub enum Flight<T> {
    Leader(Leader<T>),
    Follower(Follower<T>),
}

/// To be answered with [`Leader::publish`]. Dropped before, it passes the lead on.
#[must_use]
pub struct Leader<T> {
    answer: watch::Sender<Option<T>>,
    /// Absent: nobody can follow.
    entry: Option<(Arc<Open<T>>, CacheKey)>,
}

#[must_use]
pub struct Follower<T>(watch::Receiver<Option<T>>);

impl<T: Clone> Flights<T> {
    pub fn join(&self, key: CacheKey) -> Flight<T> {
        let mut open = lock(&self.0);
        let full = open.len() >= FLIGHTS_MAX;
        match open.entry(key) {
            Entry::Occupied(entry) => Flight::Follower(Follower(entry.get().clone())),
            Entry::Vacant(entry) => {
                let (answer, answers) = watch::channel(None);
                let entry = (!full).then(|| {
                    entry.insert(answers);
                    (self.0.clone(), key)
                });
                Flight::Leader(Leader { answer, entry })
            }
        }
    }

    /// Runs `lead` unless somebody does already, and then gives that one's answer, with whether it is another's.
    pub async fn share<F: Future<Output = T>>(&self, key: CacheKey, lead: impl FnOnce() -> F) -> (T, Whose) {
        loop {
            match self.join(key) {
                Flight::Leader(leader) => {
                    let answer = lead().await;
                    leader.publish(answer.clone());
                    return (answer, Whose::Own);
                }
                Flight::Follower(follower) => {
                    if let Some(answer) = follower.answer().await {
                        return (answer, Whose::Anothers);
                    }
                }
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    Own,
    Anothers,
}

impl<T> Leader<T> {
    /// Gives the answer to all who followed. Who joins from now on leads: put a result that may be kept away first.
    pub fn publish(self, answer: T) {
        self.answer.send_replace(Some(answer));
    }
}

impl<T> Drop for Leader<T> {
    fn drop(&mut self) {
        // INVARIANT: only its leader removes an entry, so it is this one's. Followers learn of it after: `answer` is
        // dropped last, and who then joins again finds no old entry.
        if let Some((open, key)) = self.entry.take() {
            lock(&open).remove(&key);
        }
    }
}

impl<T: Clone> Follower<T> {
    /// `None`: the leader went away without one. Join again.
    pub async fn answer(mut self) -> Option<T> {
        self.0.wait_for(Option::is_some).await.ok().and_then(|answer| answer.clone())
    }
}

fn lock<T>(open: &Open<T>) -> MutexGuard<'_, HashMap<CacheKey, watch::Receiver<Option<T>>>> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use proptest::prelude::*;
    use tokio::sync::Barrier;
    use tokio::task::JoinSet;

    use super::*;

    fn key(number: usize) -> CacheKey {
        CacheKey::numbered(number)
    }

    fn leader<T: Clone>(flights: &Flights<T>, number: usize) -> Leader<T> {
        match flights.join(key(number)) {
            Flight::Leader(leader) => leader,
            Flight::Follower(_) => panic!("somebody leads {number} already"),
        }
    }

    fn follower<T: Clone>(flights: &Flights<T>, number: usize) -> Follower<T> {
        match flights.join(key(number)) {
            Flight::Follower(follower) => follower,
            Flight::Leader(_) => panic!("nobody leads {number}"),
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_thousand_at_once_run_once() {
        let flights = Arc::new(Flights::default());
        let (runs, all_joined) = (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(1000)));
        let mut tasks = JoinSet::new();
        for _ in 0..1000 {
            let (flights, runs, all_joined) = (flights.clone(), runs.clone(), all_joined.clone());
            tasks.spawn(async move {
                let flight = flights.join(key(1));
                all_joined.wait().await;
                match flight {
                    Flight::Leader(leader) => {
                        runs.fetch_add(1, Ordering::SeqCst);
                        leader.publish(Arc::new("answer"));
                        None
                    }
                    Flight::Follower(follower) => follower.answer().await,
                }
            });
        }
        let answers = tasks.join_all().await;
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        assert_eq!(answers.into_iter().flatten().filter(|answer| **answer == "answer").count(), 999);
        assert!(lock(&flights.0).is_empty());
    }

    /// Whenever they come and whenever it lands: nobody runs while another does.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn nobody_runs_while_another_does() {
        let (flights, running) = (Arc::new(Flights::default()), Arc::new(AtomicUsize::new(0)));
        let mut tasks = JoinSet::new();
        for _ in 0..1000 {
            let (flights, running) = (flights.clone(), running.clone());
            tasks.spawn(async move {
                let lead = async || {
                    assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0);
                    tokio::task::yield_now().await;
                    running.fetch_sub(1, Ordering::SeqCst);
                };
                flights.share(key(1), lead).await
            });
        }
        tasks.join_all().await;
        assert!(lock(&flights.0).is_empty());
    }

    #[tokio::test]
    async fn different_keys_do_not_meet() {
        let flights = Flights::default();
        let (one, two) = (leader(&flights, 1), leader(&flights, 2));
        let followers = (follower(&flights, 1), follower(&flights, 2));
        one.publish("one");
        two.publish("two");
        assert_eq!((followers.0.answer().await, followers.1.answer().await), (Some("one"), Some("two")));
    }

    #[tokio::test]
    async fn who_follows_a_cancelled_leader_leads() {
        let flights = Arc::new(Flights::default());
        let stuck = tokio::spawn({
            let flights = flights.clone();
            async move { flights.share(key(1), std::future::pending::<u32>).await }
        });
        while lock(&flights.0).is_empty() {
            tokio::task::yield_now().await;
        }
        let (joined, runs) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut followers = JoinSet::new();
        for _ in 0..100 {
            let (flights, joined, runs) = (flights.clone(), joined.clone(), runs.clone());
            followers.spawn(async move {
                joined.fetch_add(1, Ordering::SeqCst);
                let lead = async || {
                    tokio::task::yield_now().await;
                    u32::try_from(runs.fetch_add(1, Ordering::SeqCst)).unwrap()
                };
                flights.share(key(1), lead).await
            });
        }
        while joined.load(Ordering::SeqCst) < 100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(runs.load(Ordering::SeqCst), 0);
        stuck.abort();
        let answers = followers.join_all().await;
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        assert!(answers.iter().all(|(answer, _)| *answer == 0));
    }

    #[tokio::test]
    async fn a_leader_that_panics_strands_nobody() {
        let flights = Arc::new(Flights::<u32>::default());
        let leader = leader(&flights, 1);
        let follower = follower(&flights, 1);
        let panicked = tokio::spawn(async move {
            let _leader = leader;
            panic!("as a runner may");
        });
        assert!(panicked.await.is_err());
        assert_eq!(follower.answer().await, None);
        assert_eq!(flights.share(key(1), async || 7).await, (7, Whose::Own));
    }

    #[tokio::test]
    async fn above_the_bound_each_flies_alone() {
        let flights = Flights::default();
        let leaders: Vec<_> = (0..FLIGHTS_MAX).map(|number| leader(&flights, number)).collect();
        let (alone, also) = (leader(&flights, FLIGHTS_MAX), leader(&flights, FLIGHTS_MAX));
        drop(also);
        alone.publish(1);
        assert_eq!(lock(&flights.0).len(), FLIGHTS_MAX);
        drop(follower(&flights, 0));
        drop(leaders);
        assert!(lock(&flights.0).is_empty());
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Join(usize),
        Publish(usize),
        Drop(usize),
    }

    proptest! {
        /// Whatever happens in whatever order: one leader for each key, and every follower hears of its own leader.
        #[test]
        fn every_follower_hears_of_its_leader(steps in prop::collection::vec(
            (0_usize..3).prop_flat_map(|key| prop_oneof![Just(Step::Join(key)), Just(Step::Publish(key)), Just(Step::Drop(key))]),
            0..60,
        )) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let flights = Flights::default();
            let mut leaders: HashMap<usize, Leader<usize>> = HashMap::new();
            let mut waiting: HashMap<usize, Vec<Follower<usize>>> = HashMap::new();
            for (moment, step) in steps.into_iter().enumerate() {
                let (key, heard) = match step {
                    Step::Join(number) => {
                        match flights.join(key(number)) {
                            Flight::Leader(leader) => prop_assert!(leaders.insert(number, leader).is_none()),
                            Flight::Follower(follower) => {
                                prop_assert!(leaders.contains_key(&number));
                                waiting.entry(number).or_default().push(follower);
                            }
                        }
                        continue;
                    }
                    Step::Publish(number) => match leaders.remove(&number) {
                        Some(leader) => {
                            leader.publish(moment);
                            (number, Some(moment))
                        }
                        None => continue,
                    },
                    Step::Drop(number) => {
                        drop(leaders.remove(&number));
                        (number, None)
                    }
                };
                for follower in waiting.remove(&key).unwrap_or_default() {
                    prop_assert_eq!(runtime.block_on(follower.answer()), heard);
                }
            }
        }
    }
}
