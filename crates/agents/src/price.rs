//! What an answer costs: tokens by a table that the operator writes, counted here and never taken from a report.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toolgate_contracts::Amount;

use crate::model::Usage;

/// The entry for every model that has none of its own.
const OTHERS: &str = "*";
const TOKENS: u128 = 1_000_000;

/// Per million tokens, in the tenant's currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    pub input: Amount,
    /// Of what was cached; the price of `input` where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<Amount>,
    pub output: Amount,
}

impl Prices {
    /// Exact to the millionth, and rounded up there once: what is counted is never less than what is owed.
    pub fn cost(&self, usage: Usage) -> Amount {
        let Usage { input, cached, output } = usage;
        let cached = cached.min(input);
        let owed = |price: Amount, tokens: u64| u128::from(price.micros().unsigned_abs()) * u128::from(tokens);
        let sum = owed(self.input, input - cached)
            .saturating_add(owed(self.cached_input.unwrap_or(self.input), cached))
            .saturating_add(owed(self.output, output));
        Amount::from_micros(i64::try_from(sum.div_ceil(TOKENS)).unwrap_or(i64::MAX))
    }
}

/// Models by name; `*` stands for all others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriceTable(pub BTreeMap<String, Prices>);

impl PriceTable {
    /// `None` where nobody wrote a price: that is not the same as free.
    pub fn cost(&self, model: &str, usage: Usage) -> Option<Amount> {
        self.0.get(model).or_else(|| self.0.get(OTHERS)).map(|prices| prices.cost(usage))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn prices(input: &str, cached_input: Option<&str>, output: &str) -> Prices {
        let read = |text: &str| text.parse().unwrap();
        Prices { input: read(input), cached_input: cached_input.map(read), output: read(output) }
    }

    #[test]
    fn tokens_cost_what_the_table_says_rounded_up_once() {
        #[track_caller]
        fn check(prices: Prices, (input, cached, output): (u64, u64, u64), expected: &str) {
            assert_eq!(prices.cost(Usage { input, cached, output }).to_string(), expected);
        }
        let some = prices("2.50", Some("0.25"), "10.00");
        check(some, (0, 0, 0), "0.00");
        check(some, (1_000_000, 0, 0), "2.50");
        check(some, (1_000_000, 1_000_000, 0), "0.25");
        check(some, (1000, 400, 200), "0.0036");
        check(some, (1, 0, 0), "0.000003");
        // Three thirds of a millionth are one, not three.
        check(prices("0.30", None, "0.70"), (1, 0, 1), "0.000001");
        check(prices("1.00", None, "0.00"), (10, 99, 0), "0.00001");
        check(prices("1000000", None, "1000000"), (u64::MAX, 0, u64::MAX), "9223372036854.775807");
    }

    #[test]
    fn a_model_has_its_own_price_the_price_of_all_others_or_none() {
        let usage = Usage { input: 1_000_000, cached: 0, output: 0 };
        let mut table = PriceTable(BTreeMap::from([("large".to_owned(), prices("3", None, "9"))]));
        assert_eq!(table.cost("large", usage), "3".parse().ok());
        assert_eq!(table.cost("small", usage), None);
        table.0.insert("*".to_owned(), prices("0", None, "0"));
        assert_eq!(table.cost("small", usage), Some(Amount::ZERO));
    }

    proptest! {
        #[test]
        fn parts_never_cost_less_than_the_whole(a in 0u64..1 << 40, b in 0u64..1 << 40, price in 0i64..1 << 30) {
            let prices = Prices { input: Amount::from_micros(price), cached_input: None, output: Amount::ZERO };
            let cost = |input| prices.cost(Usage { input, cached: 0, output: 0 });
            prop_assert!(cost(a) + cost(b) >= cost(a + b));
            prop_assert!((cost(a) + cost(b)).micros() <= cost(a + b).micros() + 1);
        }
    }
}
