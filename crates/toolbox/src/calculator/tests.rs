//! What the calculator answers and refuses; against fractions of 128 bits as an oracle, and against noise.

use num_bigint::BigInt;
use num_rational::{BigRational, Ratio};
use num_traits::{CheckedAdd as _, CheckedDiv as _, CheckedMul as _, CheckedSub as _, Zero as _};
use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(expression: &str, expected: Value) {
    let answer = answer(expression).unwrap_or_else(|error| panic!("{expression}: {}", error.message));
    assert_eq!(answer, expected, "{expression}");
}

#[track_caller]
fn check_result(expression: &str, result: impl Into<Value>) {
    check(expression, json!({"result": result.into()}));
}

#[track_caller]
fn refused(expression: &str, position: usize, message: &str) {
    let mistake = evaluate(expression).map(|value| value.told()).unwrap_err();
    assert_eq!((mistake.position, mistake.message.as_str()), (position, message), "{expression}");
}

#[test]
fn sums_are_exact() {
    check_result("2 + 3 * 4", 14);
    check_result("0.1 + 0.2", 0.3);
    check_result("0.1 + 0.2 - 0.3", 0);
    check_result("1.10 * 3", 3.3);
    check_result("19.99 * 100", 1999);
    check_result("1 / 3 * 3", 1);
    check_result("200 * 15 / 100", 30);
    check_result("4.35 * 100", 435);
    check_result("1.004 ^ 360 * 0 + 7", 7);
    check_result("-0", 0);
    check_result("1e3 + 1.5E-1 + .5", 1000.65);
    check_result("9007199254740991", 9_007_199_254_740_991_i64);
    check_result("-9007199254740991", -9_007_199_254_740_991_i64);
    check_result("10 ^ 20", "100000000000000000000");
}

#[test]
fn precedence_is_the_usual_one() {
    check_result("2 ^ 3 ^ 2", 512);
    check_result("-2 ^ 2", -4);
    check_result("(-2) ^ 2", 4);
    check_result("2 ^ -2", 0.25);
    check_result("2 * -3", -6);
    check_result("10 - 4 - 3", 3);
    check_result("100 / 10 / 5", 2);
    check_result("--5 + +3", 8);
    check_result("((((7))))", 7);
    check_result(" \t2+\n2 ", 4);
}

#[test]
fn a_remainder_has_the_sign_of_the_divisor() {
    check_result("7 % 3", 1);
    check_result("-7 % 3", 2);
    check_result("7 % -3", -2);
    check_result("-7 % -3", -1);
    check_result("5.5 % 2", 1.5);
    check_result("10 ^ 100 % 7", 4);
}

#[test]
fn functions_do_what_they_are_called() {
    check_result("abs(-3.5)", 3.5);
    check_result("ceil(1.2) + ceil(-1.2)", 1);
    check_result("floor(1.8) + floor(-1.2)", -1);
    check_result("round(2.5) + round(-2.5)", 0);
    check_result("round(2.5)", 3);
    check_result("round(1.005, 2)", 1.01);
    check_result("round(1234.5, -2)", 1200);
    check_result("max(1, 3, 2) - min(4, 0.5)", 2.5);
    check_result("min(7)", 7);
    check_result("sqrt(16) + sqrt(2.25)", 5.5);
    check("sqrt(4 / 9)", json!({"result": 2.0 / 3.0, "exact": "2/3"}));
    check_result("sqrt(2)", std::f64::consts::SQRT_2);
    check_result("sqrt(2) ^ 2", 2);
    check_result("sqrt(10 ^ 30)", 1_000_000_000_000_000_i64);
    check_result("sqrt(2) * 10 ^ 20", "1.4142135623730951e20");
}

#[test]
fn powers_may_be_fractions() {
    check_result("8 ^ (1 / 3)", 2);
    check_result("8 ^ (2 / 3)", 4);
    check_result("4 ^ -0.5", 0.5);
    check_result("0 ^ 0", 1);
    check_result("0 ^ 0.5", 0);
    // 2 ^ (1 / 12): a semitone.
    check_result("2 ^ (1 / 12)", 1.059_463_094_359_295_2);
    // What a deposit grows to in thirty years of months.
    check_result("round(1000 * (1 + 0.05 / 12) ^ 360, 2)", 4467.74);
    check_result("round(1.05 ^ (1 / 365), 12)", 1.000_133_680_617);
    check_result("1 ^ 1000000000", 1);
    check_result("(-1) ^ 999999999", -1);
}

#[test]
fn what_a_json_number_cannot_say_is_written_out_beside_it() {
    check_result("2 ^ 64", "18446744073709551616");
    check_result("-9007199254740992", "-9007199254740992");
    check_result("10 ^ 16 + 1 / 3", "30000000000000001/3");
    check_result("10 ^ 16 - 0.5", "9999999999999999.5");
    check("-1 / 3", json!({"result": -1.0 / 3.0, "exact": "-1/3"}));
    check("1.00000000000000000001", json!({"result": 1, "exact": "1.00000000000000000001"}));
    check("-0.00000000000000000000125 * 1e3 - 1", json!({"result": -1, "exact": "-1.00000000000000000125"}));
    let long = "9".repeat(300);
    check_result(&long, long.as_str());
}

#[test]
fn a_mistake_is_told_with_its_place_and_what_was_expected() {
    refused("", 1, "expected a number, a function or `(`, but the expression ends here");
    refused("2 +", 4, "expected a number, a function or `(`, but the expression ends here");
    refused("2 + * 3", 5, "expected a number, a function or `(`, but this is `*`");
    refused("1,000 + 2", 2, "expected an operator (`+ - * / % ^`) or the end, but this is `,`");
    refused("2 × 3", 3, "expected an operator (`+ - * / % ^`) or the end, but this is `×`");
    refused("2 3", 3, "expected an operator (`+ - * / % ^`) or the end, but this is `3`");
    refused("(2 + 3", 7, "expected an operator, or `)` for the `(` at character 1, but the expression ends here");
    refused("2 + 3)", 6, "this `)` closes nothing");
    refused("1 / 0", 3, "division by zero");
    refused("1 % (2 - 2)", 3, "division by zero");
    refused("0 ^ -1", 3, "division by zero");
    refused("2 + sin(1)", 5, "`sin` is not known; expected abs, ceil, floor, max, min, round or sqrt");
    refused("sqrt 4", 6, "expected `(` after `sqrt`, but this is `4`");
    refused("sqrt(1, 2)", 1, "`sqrt` takes one value, and was given 2");
    refused("max()", 1, "`max` takes at least one value, and was given 0");
    refused("round(1, 2, 3)", 1, "`round` takes a value, and perhaps a number of places, and was given 3");
    refused("round(1, 0.5)", 1, "the number of places is not a whole number from -300 to 300");
    refused("sqrt(-1)", 1, "a negative number has no real root");
    refused("(-8) ^ (1 / 3)", 6, "a negative number has no real root");
    refused("1.", 3, "expected a digit, but the expression ends here");
    refused("1.2.3", 4, "expected an operator (`+ - * / % ^`) or the end, but this is `.`");
    refused("1e", 3, "expected a digit, but the expression ends here");
    let percentage = "`%` is the remainder of a division; for a percentage write `* 15 / 100`";
    refused("200 * 15%", 9, percentage);
    refused("15% * 200", 3, percentage);
    let error = answer("1 +").unwrap_err();
    let details = json!({"reason": "schema", "pointer": "/expression", "position": 4});
    assert_eq!((error.code, error.details), (toolgate_contracts::ErrorCode::ValidationError, Some(details)));
}

#[test]
fn nothing_grows_without_end() {
    let too_large = Refusal::TooLarge.to_string();
    let too_small = Refusal::TooSmall.to_string();
    let exponent = Refusal::Exponent.to_string();
    refused("9^9^9^9", 4, &too_large);
    refused("9^9^9", 2, &too_large);
    refused("0.9^9^9", 4, &too_small);
    refused("2^10^10", 2, &exponent);
    refused("2^0.0001", 2, &exponent);
    refused("1e999999999999999999999", 1, &too_large);
    refused("1e-999", 1, &too_small);
    refused(&"9".repeat(1000), 1, &too_large);
    check_result("1e300 / 1e300 * 1e-300", 1e-300);
    let deep = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    check_result(&deep(DEPTH_MAX - 1), 1);
    refused(&deep(DEPTH_MAX), DEPTH_MAX + 1, "parentheses, signs and powers go deeper than 64; split the expression");
    assert!(evaluate(&"-".repeat(1000)).is_err());
    assert!(evaluate(&"2^".repeat(500)).is_err());
    let long = format!("1{}", "+1".repeat(499));
    check_result(&long, 500);
    refused(&format!("{long}  "), 1001, "the expression goes on; expected at most 1000 characters");
    // As much work as fits into an expression.
    assert!(evaluate(&format!("1{}", "*3^(1/997)".repeat(99))).is_ok());
    assert!(evaluate(&format!("1{}", "+1/7^300".repeat(124))).is_ok());
}

/// An expression as it is meant, worked out in another way: fractions of 128 bits along the tree.
#[derive(Clone, Debug)]
enum Tree {
    Number(i64, u32),
    Negative(Box<Tree>),
    Binary(char, Box<Tree>, Box<Tree>),
    Power(Box<Tree>, u32),
}

impl Tree {
    /// `None` where it has no value, or none of 128 bits.
    fn value(&self) -> Option<Ratio<i128>> {
        Some(match self {
            Self::Number(digits, places) => Ratio::new((*digits).into(), 10_i128.pow(*places)),
            Self::Negative(inner) => Ratio::zero().checked_sub(&inner.value()?)?,
            Self::Binary(operator, left, right) => {
                let (left, right) = (left.value()?, right.value()?);
                match operator {
                    '+' => left.checked_add(&right)?,
                    '-' => left.checked_sub(&right)?,
                    '*' => left.checked_mul(&right)?,
                    _ if right.is_zero() => return None,
                    '/' => left.checked_div(&right)?,
                    _ => left.checked_sub(&left.checked_div(&right)?.floor().checked_mul(&right)?)?,
                }
            }
            Self::Power(base, times) => {
                let base = base.value()?;
                (0..*times).try_fold(Ratio::from_integer(1), |power, _| power.checked_mul(&base))?
            }
        })
    }

    fn precedence(&self) -> u8 {
        match self {
            Self::Binary('+' | '-', ..) => 0,
            Self::Binary(..) => 1,
            Self::Negative(_) => 2,
            Self::Power(..) => 3,
            Self::Number(..) => 4,
        }
    }

    /// With no more parentheses than it needs.
    fn text(&self, at_least: u8) -> String {
        let text = match self {
            Self::Number(digits, 0) => digits.to_string(),
            Self::Number(digits, places) => {
                let width = *places as usize + 1;
                let digits = format!("{digits:0>width$}");
                let (whole, fraction) = digits.split_at(digits.len() - *places as usize);
                format!("{whole}.{fraction}")
            }
            Self::Negative(inner) => format!("-{}", inner.text(2)),
            Self::Binary(operator, left, right) => {
                let own = self.precedence();
                format!("{} {operator} {}", left.text(own), right.text(own + 1))
            }
            Self::Power(base, times) => format!("{}^{times}", base.text(4)),
        };
        if self.precedence() < at_least { format!("({text})") } else { text }
    }
}

fn trees() -> impl Strategy<Value = Tree> {
    let number = (0..10_000_i64, 0..4_u32).prop_map(|(digits, places)| Tree::Number(digits, places));
    number.prop_recursive(5, 24, 2, |inner| {
        let inner = inner.prop_map(Box::new).boxed();
        prop_oneof![
            1 => inner.clone().prop_map(Tree::Negative),
            6 => (prop::sample::select(vec!['+', '-', '*', '/', '%']), inner.clone(), inner.clone())
                .prop_map(|(operator, left, right)| Tree::Binary(operator, left, right)),
            1 => (inner, 0..4_u32).prop_map(|(base, times)| Tree::Power(base, times)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn it_agrees_with_fractions_along_the_tree(tree in trees()) {
        let text = tree.text(0);
        prop_assume!(text.len() <= EXPRESSION_CHARS_MAX);
        if let Some(expected) = tree.value() {
            let expected = BigRational::new(BigInt::from(*expected.numer()), BigInt::from(*expected.denom()));
            let found = evaluate(&text);
            prop_assert_eq!(found.as_ref().map(Number::exact_value), Ok(Some(&expected)), "{}", text);
        }
    }

    #[test]
    fn nothing_makes_it_panic(text in any::<String>()) {
        let _ = answer(&text);
    }

    #[test]
    fn nor_what_looks_like_an_expression(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "1", "0", "9", "2.5", ".1", "1e9", "1e-300", "+", "-", "*", "/", "%", "^", "(", ")", ",", " ",
                "sqrt(", "max(", "round(", "abs(", "min(", "ceil(", "floor(", "0.5",
            ]),
            0..60,
        )
    ) {
        let _ = answer(&parts.concat());
    }

    /// Every double comes back as itself, by its shortest digits.
    #[test]
    fn a_double_is_read_back(double in any::<f64>()) {
        prop_assume!(double == 0.0 || (1e-290..1e300).contains(&double.abs()));
        let answer = answer(&format!("{double:e}")).unwrap();
        let result = &answer["result"];
        let told = result.as_str().map_or_else(|| result.as_f64(), |text| text.parse().ok());
        prop_assert_eq!(told, Some(double));
        prop_assert_eq!(answer.get("exact"), None);
    }
}
