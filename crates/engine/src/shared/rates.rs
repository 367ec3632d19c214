//! Rate limits by the generic cell rate algorithm: a limit of 60 in 60 s lets 60 calls through at once and then one each
//! second. What is kept for a key is how far it is ahead of its rate, as a time.
//!
//! Invariant: quotas are taken together or not at all, in memory under one lock and in Redis by one script.
//! In Redis the time is the server's, because replicas' clocks differ; in memory it is the caller's.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use redis::Script;
use toolgate_contracts::{RateLimit, Timestamp};

use super::link::{KEY_PREFIX, Link};

/// Keys kept in memory. At the bound those are dropped that have nothing left to wait for, and if that is not enough
/// those with the least.
const KEYS_MAX: usize = 100_000;
/// How many remain then: dropping is rare, since it looks at all of them.
const KEYS_KEPT: usize = KEYS_MAX / 10 * 9;
/// Calls may come a little out of order; a clock that is further back was set back.
const DISORDER_MS_MAX: i64 = 1000;
const NANOS_PER_S: u64 = 1_000_000_000;
const NANOS_PER_MS: u64 = 1_000_000;

/// One of what a call takes. INVARIANT: the keys of one `take` differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    pub key: String,
    pub limit: RateLimit,
}

/// The quota that has to be waited for longest. `limit` is the one that was asked for, also where only a share of it is
/// given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub key: String,
    pub limit: RateLimit,
    /// At least 1.
    pub retry_after_s: u64,
}

pub struct Rates {
    local: Local,
    redis: Option<(Arc<Link>, Script)>,
}

impl Rates {
    pub fn memory() -> Self {
        Self { local: Local::default(), redis: None }
    }

    pub fn redis(link: Arc<Link>) -> Self {
        Self { local: Local::default(), redis: Some((link, Script::new(TAKE))) }
    }

    /// Takes one from each, or from none. Nothing asked for costs nothing.
    pub async fn take(&self, quotas: &[Quota], now: Timestamp) -> Result<(), Refused> {
        if quotas.is_empty() {
            return Ok(());
        }
        if let Some(quota) = quotas.iter().find(|quota| quota.limit.count == 0) {
            return Err(quota.refused(u64::from(quota.limit.per_s) * NANOS_PER_S));
        }
        let Some((link, script)) = &self.redis else { return self.local.take(quotas, now, Share::Whole) };
        let ask = async |mut connection| take_of_redis(script, quotas).invoke_async(&mut connection).await;
        let answer: Option<(usize, u64)> = link.ask(ask).await;
        match answer {
            Some((0, _)) => Ok(()),
            Some((number, wait_s)) => {
                let quota = quotas.get(number - 1).unwrap_or(&quotas[0]);
                Err(quota.refused(wait_s.saturating_mul(NANOS_PER_S)))
            }
            None => self.local.take(quotas, now, Share::Half),
        }
    }
}

impl Quota {
    fn refused(&self, wait_ns: u64) -> Refused {
        let Self { key, limit } = self;
        Refused { key: key.clone(), limit: *limit, retry_after_s: wait_ns.div_ceil(NANOS_PER_S).max(1) }
    }
}

/// How much of a limit this replica may give by itself. The others give theirs: with Redis away, two replicas together
/// keep a limit, and more of them pass it by less than their number.
#[derive(Clone, Copy)]
enum Share {
    Whole,
    Half,
}

/// A limit as times. Nothing is lost by rounding while `count` squared is below `period_ns`: 31,000 a second.
struct Pace {
    period_ns: u64,
    each_ns: u64,
}

impl Pace {
    fn of(limit: RateLimit, share: Share) -> Self {
        let count = match share {
            Share::Whole => limit.count,
            Share::Half => limit.count / 2,
        };
        let period_ns = u64::from(limit.per_s.max(1)) * NANOS_PER_S;
        Self { period_ns, each_ns: (period_ns / u64::from(count.max(1))).max(1) }
    }
}

#[derive(Clone, Copy)]
struct Ahead {
    ahead_ns: u64,
    at: Timestamp,
}

impl Ahead {
    /// Brings it to now, unless it is there already: a call that comes a little late changes no time.
    fn settle(&mut self, now: Timestamp) -> u64 {
        if !(0..=DISORDER_MS_MAX).contains(&self.at.millis().saturating_sub(now.millis())) {
            *self = Self { ahead_ns: self.now(now), at: now };
        }
        self.ahead_ns
    }

    fn now(self, now: Timestamp) -> u64 {
        let elapsed_ms = u64::try_from(now.millis().saturating_sub(self.at.millis())).unwrap_or(0);
        self.ahead_ns.saturating_sub(elapsed_ms.saturating_mul(NANOS_PER_MS))
    }
}

#[derive(Default)]
struct Local {
    keys: Mutex<HashMap<String, Ahead>>,
}

impl Local {
    fn take(&self, quotas: &[Quota], now: Timestamp, share: Share) -> Result<(), Refused> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        // What each would be ahead with this call, and what is too much of it.
        let ahead = |keys: &mut HashMap<String, Ahead>, quota: &Quota| {
            let Pace { period_ns, each_ns } = Pace::of(quota.limit, share);
            // Not more than the period, should the limit have been another.
            let was = keys.get_mut(&quota.key).map_or(0, |known| known.settle(now)).min(period_ns);
            (was + each_ns, (was + each_ns).saturating_sub(period_ns))
        };
        let waits = quotas.iter().map(|quota| (ahead(&mut keys, quota).1, quota));
        if let Some((wait_ns, quota)) = waits.max_by_key(|(wait_ns, _)| *wait_ns)
            && wait_ns > 0
        {
            return Err(quota.refused(wait_ns));
        }
        for quota in quotas {
            let (ahead_ns, _) = ahead(&mut keys, quota);
            if let Some(known) = keys.get_mut(&quota.key) {
                known.ahead_ns = ahead_ns;
            } else {
                make_room(&mut keys, now);
                keys.insert(quota.key.clone(), Ahead { ahead_ns, at: now });
            }
        }
        Ok(())
    }
}

fn make_room(keys: &mut HashMap<String, Ahead>, now: Timestamp) {
    if keys.len() < KEYS_MAX {
        return;
    }
    keys.retain(|_, ahead| ahead.now(now) > 0);
    if keys.len() > KEYS_KEPT {
        let mut waits: Vec<u64> = keys.values().map(|ahead| ahead.now(now)).collect();
        let dropped = waits.len() - KEYS_KEPT;
        let (_, least_kept, _) = waits.select_nth_unstable(dropped);
        let least_kept = *least_kept;
        // Of equals enough are dropped to be below the bound again.
        let mut left = dropped;
        keys.retain(|_, ahead| {
            let drop = left > 0 && ahead.now(now) <= least_kept;
            left -= usize::from(drop);
            !drop
        });
    }
}

/// Stored is `AHEAD_NS AT_US`. Numbers are written with `%.0f`: by itself Lua writes 14 digits.
/// Answers which quota to wait for longest (counted from 1; 0: all were taken) and how many seconds.
const TAKE: &str = r"
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local refused, wait, after = 0, 0, {}
for index, key in ipairs(KEYS) do
  local period, each = tonumber(ARGV[2 * index - 1]), tonumber(ARGV[2 * index])
  local ahead, at = string.match(redis.call('GET', key) or '', '^(%d+) (%d+)$')
  local was = ahead and math.max(0, tonumber(ahead) - math.max(0, now - tonumber(at)) * 1000) or 0
  after[index] = math.min(was, period) + each
  if after[index] - period > wait then
    refused, wait = index, after[index] - period
  end
end
if refused == 0 then
  for index, key in ipairs(KEYS) do
    local stored = string.format('%.0f %.0f', after[index], now)
    redis.call('SET', key, stored, 'PX', string.format('%.0f', math.max(1, math.ceil(after[index] / 1000000))))
  end
end
return {refused, math.ceil(wait / 1000000000)}
";

fn take_of_redis<'a>(script: &'a Script, quotas: &[Quota]) -> redis::ScriptInvocation<'a> {
    let mut invocation = script.prepare_invoke();
    for Quota { key, limit } in quotas {
        let Pace { period_ns, each_ns } = Pace::of(*limit, Share::Whole);
        invocation.key(format!("{KEY_PREFIX}rate:{key}")).arg(period_ns).arg(each_ns);
    }
    invocation
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn quota(key: &str, count: u32, per_s: u32) -> Quota {
        Quota { key: key.to_owned(), limit: RateLimit { count, per_s } }
    }

    fn after(millis: i64) -> Timestamp {
        Timestamp::from_millis(START.millis() + millis)
    }

    fn take(local: &Local, quotas: &[Quota], millis: i64) -> Result<(), Refused> {
        local.take(quotas, after(millis), Share::Whole)
    }

    /// How many pass at one moment.
    fn burst(local: &Local, quotas: &[Quota], millis: i64, share: Share) -> usize {
        (0..10_000).take_while(|_| local.take(quotas, after(millis), share).is_ok()).count()
    }

    #[test]
    fn a_limit_lets_its_count_through_and_then_keeps_its_pace() {
        let (local, quotas) = (Local::default(), [quota("a", 3, 60)]);
        assert_eq!(burst(&local, &quotas, 0, Share::Whole), 3);
        let refused = take(&local, &quotas, 0).unwrap_err();
        assert_eq!(refused, Refused { key: "a".into(), limit: quotas[0].limit, retry_after_s: 20 });
        assert_eq!(take(&local, &quotas, 19_999).unwrap_err().retry_after_s, 1);
        assert_eq!(burst(&local, &quotas, 20_000, Share::Whole), 1);
        assert_eq!(burst(&local, &quotas, 200_000, Share::Whole), 3, "what is not used is not saved up");
    }

    #[test]
    fn counts_that_do_not_divide_the_time_are_exact() {
        for (count, per_s) in [(1, 1), (3, 1), (7, 1), (60, 1), (999, 1), (7, 3600), (1000, 7), (9_999, 1)] {
            let quotas = [quota("a", count, per_s)];
            assert_eq!(burst(&Local::default(), &quotas, 0, Share::Whole), count as usize, "{count} in {per_s} s");
        }
    }

    #[test]
    fn a_share_is_half_and_at_least_one() {
        for (count, expected) in [(1, 1), (2, 1), (3, 1), (10, 5)] {
            assert_eq!(burst(&Local::default(), &[quota("a", count, 60)], 0, Share::Half), expected, "of {count}");
        }
    }

    #[test]
    fn a_refusal_takes_from_nobody_and_names_the_longest_wait() {
        let local = Local::default();
        let (free, slow, slower) = (quota("free", 5, 60), quota("slow", 1, 10), quota("slower", 1, 100));
        take(&local, &[slow.clone(), slower.clone()], 0).unwrap();
        for _ in 0..50 {
            let refused = take(&local, &[free.clone(), slow.clone(), slower.clone()], 0).unwrap_err();
            assert_eq!((refused.key.as_str(), refused.retry_after_s), ("slower", 100));
        }
        assert_eq!(burst(&local, &[free], 0, Share::Whole), 5);
    }

    #[test]
    fn a_changed_limit_holds_at_once_and_owes_no_more_than_its_own_time() {
        let local = Local::default();
        assert_eq!(burst(&local, &[quota("a", 10, 3600)], 0, Share::Whole), 10);
        assert_eq!(take(&local, &[quota("a", 10, 1)], 0).unwrap_err().retry_after_s, 1);
        assert_eq!(burst(&local, &[quota("a", 10, 1)], 3_600_000, Share::Whole), 10);
    }

    #[test]
    fn a_clock_that_is_set_back_neither_frees_nor_freezes() {
        let (local, quotas) = (Local::default(), [quota("a", 2, 10)]);
        assert_eq!(burst(&local, &quotas, 0, Share::Whole), 2);
        assert!(take(&local, &quotas, -3_600_000).is_err());
        // Calls a little out of order do not count the time between them twice.
        let local = Local::default();
        take(&local, &quotas, 500).unwrap();
        take(&local, &quotas, 0).unwrap();
        assert!(take(&local, &quotas, 5_000).is_err());
        assert!(take(&local, &quotas, 5_500).is_ok());
        // Set back far, its time runs on from there.
        take(&local, &[quota("b", 1, 10)], 0).unwrap();
        let _ = take(&local, &[quota("b", 2, 10)], -3_600_000);
        assert!(take(&local, &[quota("b", 2, 10)], -3_590_000).is_ok());
    }

    #[test]
    fn nothing_and_nonsense_are_answered() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let rates = Rates::memory();
        runtime.block_on(async {
            rates.take(&[], START).await.unwrap();
            let refused = rates.take(&[quota("a", 0, 30)], START).await.unwrap_err();
            assert_eq!(refused.retry_after_s, 30);
            assert_eq!(rates.take(&[quota("a", 0, 0)], START).await.unwrap_err().retry_after_s, 1);
            rates.take(&[quota("b", u32::MAX, u32::MAX)], START).await.unwrap();
            rates.take(&[quota("c", 1, 0)], START).await.unwrap();
            assert_eq!(rates.take(&[quota("c", 1, 0)], START).await.unwrap_err().retry_after_s, 1);
        });
    }

    #[test]
    fn idle_keys_go_first_and_then_those_with_the_least_to_wait_for() {
        let local = Local::default();
        take(&local, &[quota("exhausted", 1, 3600)], 0).unwrap();
        for key in 0..KEYS_MAX {
            take(&local, &[quota(&format!("idle {key}"), 60, 60)], 0).unwrap();
        }
        // Now they are idle: one more drops them all.
        take(&local, &[quota("another", 1, 60)], 10_000).unwrap();
        assert!(local.keys.lock().unwrap().len() <= KEYS_KEPT + 2);
        for key in 0..2 * KEYS_MAX {
            take(&local, &[quota(&format!("busy {key}"), 1, 60)], 10_000).unwrap();
            assert!(local.keys.lock().unwrap().len() <= KEYS_MAX);
        }
        assert!(take(&local, &[quota("exhausted", 1, 3600)], 10_000).is_err());
    }

    proptest! {
        #[test]
        fn no_stretch_of_time_sees_more_than_the_limit_allows(
            count in 1_u32..20, per_s in 1_u32..30, steps in prop::collection::vec(0_i64..3_000, 1..200),
        ) {
            let (local, quotas) = (Local::default(), [quota("a", count, per_s)]);
            let (mut now, mut taken) = (0, Vec::new());
            for step in steps {
                now += step;
                match take(&local, &quotas, now) {
                    Ok(()) => taken.push(now),
                    Err(refused) => {
                        // Waiting as long as told is enough.
                        let again = now + i64::try_from(refused.retry_after_s).unwrap() * 1000;
                        prop_assert!(Ahead::now(local.keys.lock().unwrap()["a"], after(again))
                            + Pace::of(quotas[0].limit, Share::Whole).each_ns <= u64::from(per_s) * NANOS_PER_S);
                    }
                }
            }
            for (index, start) in taken.iter().enumerate() {
                for (further, end) in taken[index..].iter().enumerate() {
                    // At once `count`, and what the pace adds meanwhile.
                    let allowed = i64::from(count) + (end - start) * i64::from(count) / (i64::from(per_s) * 1000);
                    prop_assert!(i64::try_from(further).unwrap() < allowed + 1);
                }
            }
        }
    }
}
