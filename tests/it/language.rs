//! What statements and expressions of the language mean, on every engine at every level: each test has the values that it
//! expects from the page (`programs/README.md`), not from an engine.

use crate::semantics::{frame, outcome, words};

/// What a program sends for these words behind the Ethernet header, which are `in[0]`, `in[1]` and so on: `out[0]`.
fn results(parser: &str, ingress: &str, inputs: &[&[u16]]) -> Vec<Vec<u16>> {
    let program = format!(
        "
instances: {{ a: mark, b: mark, out: mark }}
{parser}
ingress:
  - std.egress_port = 2
{ingress}
deparser: {{ emit: [ethernet, a, b, out] }}
"
    );
    let frames: Vec<Vec<u8>> = inputs.iter().map(|words| frame(1, words)).collect();
    outcome(&program, "", &frames).sent.iter().map(|(_, frame)| words(frame)).collect()
}

const TWO: &str = "parser: { start: { extract: [ethernet, a, b] } }";

#[test]
fn a_remainder_is_that_of_the_division_and_0_where_the_divisor_is_0() {
    let ingress = "
  - set_valid(out)
  - out.value = a.value % b.value
  - let wide = (bit<128>(a.value) << 100) % (bit<128>(b.value) << 70)
  - a.value = wide[85:70]
  - b.value = b.value % 16
";
    let inputs: [&[u16]; 4] = [&[100, 7], &[7, 100], &[65535, 1], &[5, 0]];
    let found = results(TWO, ingress, &inputs);
    let wide = |a: u128, b: u128| ((a << 100).checked_rem(b << 70).unwrap_or(0) >> 70) as u16;
    let expected = inputs.map(|words| {
        let (a, b) = (words[0], words[1]);
        vec![wide(a.into(), b.into()), b % 16, a.checked_rem(b).unwrap_or(0)]
    });
    assert_eq!(found, expected);
    assert_eq!(expected[0], [2, 7, 2], "100 * 2^30 mod 7, 7 mod 16, 100 mod 7");
}

/// P4's `hash(result, algorithm, base, data, max)`.
#[test]
fn a_hash_goes_into_a_range_by_its_remainder() {
    let ingress = "
  - set_valid(out)
  - out.value = 1000 + hash(csum16, a.value, b.value) % 10
";
    let found = results(TWO, ingress, &[&[0x1234, 0x0001], &[0xffff, 0x0000]]);
    // The ones' complement of 0x1235 is 0xedca, of 0xffff it is 0.
    assert_eq!(found[0][2], 1000 + 0xedca % 10);
    assert_eq!(found[1][2], 1000);
}

#[test]
fn a_case_with_several_labels_is_taken_for_each_of_them() {
    let ingress = "
  - set_valid(out)
  - switch: a.value
    cases:
      1: [ out.value = 10 ]
      '2, 0x30, 2 + 2': [ out.value = 20 ]
    default: [ out.value = 30 ]
";
    let inputs: [&[u16]; 5] = [&[1, 0], &[2, 0], &[0x30, 0], &[4, 0], &[3, 0]];
    let found: Vec<u16> = results(TWO, ingress, &inputs).iter().map(|words| words[2]).collect();
    assert_eq!(found, [10, 20, 20, 20, 30]);
}

#[test]
fn actions_share_what_comes_behind_them() {
    let program = "
instances: { a: mark }
parser: { start: { extract: [ethernet, a] } }
actions:
  one: { do: [ std.egress_port = 1 ] }
  two: { do: [ std.egress_port = 2 ] }
  three: { do: [ std.egress_port = 3 ] }
tables:
  t:
    key: { a.value: exact }
    actions: [one, two, three, drop]
    default: drop
    entries:
      - { match: { a.value: 1 }, action: one }
      - { match: { a.value: 2 }, action: two }
      - { match: { a.value: 3 }, action: three }
ingress:
  - apply: t
    actions:
      'one, two': [ a.value = a.value + 10 ]
      three: [ a.value = a.value + 20 ]
";
    let frames = [1, 2, 3, 4].map(|value| frame(1, &[value]));
    let left = outcome(program, "", &frames);
    let sent: Vec<_> = left.sent.iter().map(|(port, frame)| (*port, words(frame)[0])).collect();
    assert_eq!(sent, [(1, 11), (2, 12), (3, 23)]);
}
