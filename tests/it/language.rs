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
  - let whole = (bit<128>(a.value) << 100) % (bit<128>(b.value) << 70)
  - a.value = whole[85:70]
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

/// A variable part whose length the parser gives: here the low byte of the word before it, in bytes.
#[test]
fn a_header_is_extracted_with_a_length_of_the_parser() {
    let program = "
instances: { a: mark, first: part, second: part }
parser:
  start:
    extract: [ethernet, a]
    do: [ 'extract(first, bit<32>(a.value[7:0]) * 8)', 'extract(second, a.value[15:8] * 4)' ]
ingress:
  - std.egress_port = 2
  - if: std.parser_error != error.none
    then: [ drop bad ]
  - switch: first.kind
    cases:
      1: [ first = second ]
      2: [ set_invalid(first), set_valid(first) ]
      3: [ set_valid(first) ]
egress:
  - first.kind = bit<16>(first.length)
deparser: { emit: [ethernet, a, first, second] }
";
    let inputs: [&[u16]; 8] = [
        &[0x0402, 0, 0xaaaa, 0, 0xbbbb],
        &[0x0402, 1, 0xaaaa, 0, 0xbbbb],
        &[0x0000, 0, 1],
        &[0x0800, 1, 7, 0xcccc, 0xdddd],
        &[0x0402, 2, 0xaaaa, 0, 0xbbbb],
        &[0x0402, 3, 0xaaaa, 0, 0xbbbb],
        // Longer than the longest, and not whole bytes.
        &[0x0006, 0, 1, 2, 3, 4],
        &[0x0102, 0, 1, 2, 3, 4],
    ];
    let frames = inputs.map(|words| frame(1, words));
    let left = outcome(program, "", &frames);
    let sent: Vec<Vec<u16>> = left.sent.iter().map(|(_, frame)| words(frame)).collect();
    let expected: [&[u16]; 6] = [
        &[0x0402, 4, 0xaaaa, 0, 0xbbbb],
        &[0x0402, 4, 0xbbbb, 0, 0xbbbb],
        &[0x0000, 2, 1],
        &[0x0800, 6, 0xcccc, 0xdddd, 7, 0xcccc, 0xdddd],
        &[0x0402, 2, 0, 0xbbbb],
        &[0x0402, 4, 0xaaaa, 0, 0xbbbb],
    ];
    assert_eq!(sent, expected);
    assert_eq!(left.dropped, [("bad".to_string(), 2)]);
}

#[test]
fn the_elements_of_a_stack_keep_their_given_lengths() {
    let program = "
instances: { parts: { header: part, stack: 3 } }
parser:
  start:
    extract: ethernet
    next: one
  one:
    do: [ 'extract(parts, lookahead(16) * 8)' ]
    select: parts.last.kind
    cases: { 0: accept }
    default: one
ingress:
  - std.egress_port = 2
  - if: 'parts[0].kind == 2'
    then: [ 'push(parts, 1)', 'set_valid(parts[0])' ]
  - if: 'parts[0].kind == 4'
    then: [ 'pop(parts, 1)' ]
egress: [ 'parts[1].kind = bit<16>(parts[1].length)' ]
";
    let frames = [
        frame(1, &[2, 0xaaaa, 0]),
        frame(1, &[4, 0xbbbb, 0xcccc, 2, 0xdddd, 0]),
        frame(1, &[2, 0xaaaa, 4, 1, 1, 0]),
    ];
    let left = outcome(program, "", &frames);
    let sent: Vec<Vec<u16>> = left.sent.iter().map(|(_, frame)| words(frame)).collect();
    let expected: [&[u16]; 3] = [&[0, 4, 0xaaaa, 0], &[2, 0xdddd, 2], &[0, 4, 0xaaaa, 4, 1, 1]];
    assert_eq!(sent, expected);
}

/// P4's `header_union`.
#[test]
fn of_a_union_one_header_is_valid_at_most() {
    let program = "
instances: { first: mark, a: mark, b: long, c: mark, spare: mark, never: mark }
unions: { u: [a, b, c] }
parser:
  start:
    extract: [ethernet, first]
    select: first.value
    cases: { 1: accept }
    default: both
  both: { extract: [a, b] }
ingress:
  - std.egress_port = 2
  - set_valid(spare)
  - spare.value = 9
  - switch: first.value
    cases:
      1: [ set_valid(a), a.value = 7, set_valid(c) ]
      2: [ set_valid(c) ]
      3: [ a = spare ]
      4: [ a = never ]
      5: [ set_valid(b) ]
      6: [ set_invalid(b) ]
  - set_invalid(spare)
  - if: first.value == 99
    then: [ set_valid(never) ]
deparser: { emit: [ethernet, first, a, b, c, spare, never] }
";
    let frames: Vec<Vec<u8>> = (0..=6).map(|value| frame(1, &[value, 10, 20, 30])).collect();
    let left = outcome(program, "", &frames);
    let sent: Vec<Vec<u16>> = left.sent.iter().map(|(_, frame)| words(frame)).collect();
    let expected: [&[u16]; 7] = [
        // Extracting `b` takes `a` out of the packet.
        &[0, 20, 30],
        &[1, 0, 10, 20, 30],
        &[2, 0],
        &[3, 9],
        &[4, 20, 30],
        &[5, 20, 30],
        &[6],
    ];
    assert_eq!(sent, expected);
}

#[test]
fn an_element_of_a_stack_has_a_number_that_is_computed() {
    let program = "
instances: { which: mark, tags: { header: mark, stack: 3 }, out: mark }
parser: { start: { extract: [ethernet, which, tags, tags] } }
ingress:
  - std.egress_port = 2
  - let i = which.value[7:0]
  - switch: 'which.value[15:8]'
    cases:
      0: [ 'set_valid(out)', 'out.value = tags[i].value' ]
      1: [ 'tags[i].value = tags[i].value + 1' ]
      2: [ 'tags[i].value[11:4] = 0xff' ]
      3: [ 'out = tags[i]' ]
      4: [ 'tags[i] = tags[i - 1]' ]
      5: [ 'set_valid(tags[i])' ]
      6: [ 'set_invalid(tags[i])' ]
      7: [ 'set_valid(out)', 'out.value = tags[i].valid ++ 15w0' ]
      8: [ 'tags[tags[0].value].value = tags[tags[0].value - 1].value + 5' ]
deparser: { emit: [ethernet, which, tags, out] }
";
    let inputs: [(u16, &[u16]); 13] = [
        (0x0001, &[1, 20, 20]),
        (0x0002, &[1, 20, 0]),
        (0x00ff, &[1, 20, 0]),
        (0x0101, &[1, 21]),
        (0x01ff, &[1, 20]),
        (0x0200, &[0x0ff1, 20]),
        (0x0301, &[1, 20, 20]),
        (0x0303, &[1, 20]),
        (0x0402, &[1, 20, 20]),
        (0x0502, &[1, 20, 0]),
        (0x0600, &[20]),
        (0x0702, &[1, 20, 0]),
        (0x0800, &[1, 6]),
    ];
    let frames: Vec<Vec<u8>> = inputs.iter().map(|(which, _)| frame(1, &[*which, 1, 20])).collect();
    let left = outcome(program, "", &frames);
    for ((which, expected), (_, frame)) in inputs.iter().zip(&left.sent) {
        assert_eq!(words(frame)[1..], **expected, "{which:#06x}");
    }
    assert_eq!(left.sent.len(), inputs.len());
}

/// P4's copy in and copy out.
#[test]
fn a_control_has_parameters_that_are_copied_in_and_out() {
    let program = "
instances: { a: mark, b: mark }
metadata: { sum: 16 }
parser: { start: { extract: [ethernet, a, b] } }
controls:
  add:
    params:
      by: 16
      sum: { bits: 16, direction: inout }
      old: { bits: 16, direction: out }
    do:
      - old = old + sum
      - sum = sum + by
      - by = 0
      - if: sum == 7
        then: [ sum = 70, return ]
      - if: sum == 9
        then: [ drop nine ]
      - sum = sum + 100
  twice:
    params: { x: { bits: 16, direction: inout } }
    do:
      - call: add(old = meta.sum, by = 2, sum = x)
      - call: add(x, x, meta.sum)
  plain: [ std.egress_port = 2 ]
ingress:
  - call: plain
  - if: a.value == 1
    then: [ { call: twice(b.value) }, a.value = meta.sum ]
    else: { call: 'add(a.value, b.value, a.value)' }
deparser: { emit: [ethernet, a, b] }
";
    let inputs: [&[u16]; 4] = [&[4, 5], &[3, 4], &[1, 10], &[2, 7]];
    let frames = inputs.map(|words| frame(1, words));
    let left = outcome(program, "", &frames);
    let sent: Vec<Vec<u16>> = left.sent.iter().map(|(_, frame)| words(frame)).collect();
    let expected: [&[u16]; 2] = [&[4, 70], &[112, 324]];
    assert_eq!(sent, expected);
    assert_eq!(left.dropped, [("nine".to_string(), 2)]);
}

#[test]
fn arguments_of_actions_stand_in_order_or_have_names() {
    let program = "
instances: { a: mark, b: mark }
parser: { start: { extract: [ethernet, a, b] } }
actions:
  put: { params: { port: port, left: 16, right: 16 }, do: [ std.egress_port = port, a.value = left, b.value = right ] }
tables:
  t:
    key: { a.value: exact }
    actions: [put, nop]
    default: put(right = 4, left = 3, port = 3)
    entries:
      - { match: { a.value: 1 }, action: 'put(left = 5, right = 6, port = 1)' }
ingress:
  - apply: t
  - if: b.value == 8
    then: [ 'put(right = 1, port = 2, left = b.value)' ]
";
    let entries = "
entries: { t: [ { match: { a.value: 2 }, action: 'put(port = 1, right = 8, left = 7)' } ] }
";
    let frames = [1, 2, 3].map(|value| frame(1, &[value, 0]));
    let left = outcome(program, entries, &frames);
    let sent: Vec<_> = left.sent.iter().map(|(port, frame)| (*port, words(frame))).collect();
    assert_eq!(sent, [(1, vec![5, 6]), (2, vec![8, 1]), (3, vec![3, 4])]);
}

#[test]
fn a_constant_is_a_width() {
    let program = "
const: { HALF: 4 * 2, WORD: HALF * 2 }
metadata: { x: HALF }
registers: { r: { bits: WORD, size: 2 } }
instances: { a: mark }
actions: { put: { params: { low: HALF }, do: [ meta.x = low + 1 ] } }
parser: { start: { extract: [ethernet, a] } }
ingress:
  - std.egress_port = 2
  - put(255)
  - 'r[1] = a.value + 65535'
  - let y = r[1]
  - 'a.value = meta.x == 0 ? y : 7'
";
    let left = outcome(program, "", &[frame(1, &[5])]);
    assert_eq!(words(&left.sent[0].1), [4], "8 bits wrap, and so do 16");
}

#[test]
fn a_constant_is_a_size() {
    let program = |index| {
        format!(
            "
const: {{ TWO: 1 + 1, FOUR: TWO * 2 }}
instances: {{ a: {{ header: mark, stack: TWO }} }}
registers: {{ r: {{ bits: 16, size: FOUR }} }}
counters: {{ c: TWO }}
parser: {{ start: {{ extract: [ethernet, a, a] }} }}
actions: {{ put: {{ do: [ 'a[1].value = 9' ] }} }}
tables: {{ t: {{ key: {{ 'a[0].value': exact }}, actions: [put], size: TWO }} }}
ingress:
  - std.egress_port = 2
  - 'r[{index}] = 7'
  - count(c, 1)
  - apply: t
"
        )
    };
    let entry = |value: u16| format!("{{ match: {{ 'a[0].value': {value} }}, action: put }}");
    let left =
        outcome(&program(3), &format!("entries: {{ t: [{}] }}", entry(5)), &[frame(1, &[5, 6])]);
    assert_eq!(words(&left.sent[0].1), [5, 9]);
    let loaded = |text: &str| wireyard_switch::program::from_text("sizes.yaml", text);
    let whole = format!(
        "pipeline: p\ninclude: [ethernet]\nheaders: {{ mark: {{ fields: {{ value: 16 }} }} }}{}",
        program(3)
    );
    let loaded = loaded(&whole).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(loaded.program.tables.iter().map(|table| table.size).collect::<Vec<_>>(), [2]);
    assert_eq!(loaded.program.registers.iter().map(|array| array.size).collect::<Vec<_>>(), [4]);
}

/// Without a deparser, headers leave in the order of the parser, and a stack as a whole.
#[test]
fn elements_that_are_extracted_by_number_leave_once() {
    for parser in [
        "start: { extract: [ethernet, \"s[0]\", \"s[1]\"] }",
        "start: { extract: [ethernet, s, \"s[1]\"] }",
        "{ start: { extract: ethernet, select: ethernet.dst, cases: { 1: other }, default: stack }, \
         other: { extract: \"s[2]\", next: accept }, stack: { extract: s, next: again }, again: { extract: s, next: accept } }",
    ] {
        let braces =
            if parser.starts_with('{') { parser.to_owned() } else { format!("{{ {parser} }}") };
        let program = format!(
            "instances: {{ s: {{ header: mark, stack: 4 }} }}\nparser: {braces}\ningress: [ std.egress_port = 2 ]\n"
        );
        let sent = frame(1, &[0xaabb, 0x99, 0x1234]);
        let found = outcome(&program, "", std::slice::from_ref(&sent));
        assert_eq!(found.sent, [(2, sent)], "{parser}");
    }
}

/// A constant may name parser errors.
#[test]
fn a_constant_of_an_error_is_its_number() {
    let program = "
const: { SHORT: error.packet_too_short }
parser: { start: { extract: ethernet } }
ingress:
  - std.egress_port = 2
  - { if: std.parser_error == SHORT, then: [ std.egress_port = 3 ] }
";
    let found = outcome(program, "", &[frame(1, &[]), vec![2, 0, 0]]);
    assert_eq!(found.sent.iter().map(|(port, _)| *port).collect::<Vec<_>>(), [2, 3]);
}

/// A header that only `set_valid` of the parser makes valid leaves where the parser made it.
#[test]
fn a_header_that_the_parser_makes_valid_leaves_with_the_packet() {
    let program = "
instances: { a: mark, shim: mark }
parser:
  start: { extract: ethernet, do: [ set_valid(shim) ], next: more }
  more: { extract: a }
ingress: [ shim.value = 5, std.egress_port = 2 ]
";
    let left = outcome(program, "", &[frame(1, &[7])]);
    assert_eq!(words(&left.sent[0].1), [5, 7]);
}

#[test]
fn a_trailer_of_a_union_makes_the_others_invalid() {
    let program = "
instances: { a: mark, b: mark }
unions: { u: [a, b] }
parser:
  start: { extract: [ethernet, a], extract_at: { b: 16 }, body_end: 16 }
ingress:
  - std.egress_port = 2
  - if: a.valid || !b.valid
    then: [ drop two_members ]
deparser: { emit: [ethernet, a], after: [b] }
";
    let left = outcome(program, "", &[frame(1, &[1, 2])]);
    assert_eq!(left.dropped, []);
    assert_eq!(left.sent.len(), 1);
}

#[test]
fn a_header_that_the_parser_makes_valid_has_no_variable_part() {
    let program = "
instances: { a: mark, first: part }
parser:
  start:
    extract: [ethernet, a]
    do: [ 'extract(first, 32)', 'set_invalid(first)', 'set_valid(first)' ]
ingress: [ std.egress_port = 2 ]
egress: [ first.kind = bit<16>(first.length) ]
deparser: { emit: [ethernet, a, first] }
";
    let left = outcome(program, "", &[frame(1, &[1, 2, 0xaaaa, 0xbbbb, 5])]);
    assert_eq!(words(&left.sent[0].1), [1, 2, 5]);
}

#[test]
fn a_stack_has_a_last_element_where_any_is_valid() {
    let program = "
instances: { which: mark, tags: { header: mark, stack: 2 } }
parser: { start: { extract: [ethernet, which, tags, tags] } }
ingress:
  - std.egress_port = 2
  - switch: which.value
    cases:
      1: [ 'set_invalid(tags[0])' ]
      2: [ 'set_invalid(tags[0])', 'set_invalid(tags[1])' ]
  - if: tags.last.valid
    then: [ which.value = tags.last.value ]
    else: [ which.value = 0xffff ]
deparser: { emit: [ethernet, which, tags] }
";
    let frames = [0, 1, 2].map(|which| frame(1, &[which, 10, 20]));
    let left = outcome(program, "", &frames);
    let sent: Vec<Vec<u16>> = left.sent.iter().map(|(_, frame)| words(frame)).collect();
    assert_eq!(sent, [vec![20, 10, 20], vec![20, 20], vec![0xffff]]);
}

#[test]
fn the_number_of_an_element_is_computed_with_32_bits() {
    for index in ["3 + -meta.d", "meta.d - which.value", "-meta.d + which.value + 2"] {
        let program = format!(
            "
instances: {{ which: mark, tags: {{ header: mark, stack: 2 }} }}
metadata: {{ d: 8 }}
parser: {{ start: {{ extract: [ethernet, which, tags, tags], do: [ 'meta.d = ethernet.dst[7:0]' ] }} }}
ingress:
  - std.egress_port = 2
  - 'which.value = tags[{index}].value'
deparser: {{ emit: [ethernet, which, tags] }}
"
        );
        let left = outcome(&program, "", &[frame(2, &[1, 10, 20])]);
        assert_eq!(words(&left.sent[0].1), [20, 10, 20], "{index}");
    }
}

#[test]
fn a_binding_replaces_an_element_that_is_extracted_by_number() {
    let program = "
instances: { inner: { header: mark, stack: 2 }, tags: { header: mark, stack: 2 } }
parsers:
  second: { start: { extract: 'tags[1]' } }
parser:
  start: { extract: ethernet, call: second, bind: { tags: inner } }
ingress: [ std.egress_port = 2, 'inner[1].value = 9' ]
";
    let left = outcome(program, "", &[frame(1, &[7])]);
    assert_eq!(words(&left.sent[0].1), [9]);
}

/// A sum is written behind those whose fields it covers, whatever the order of the declarations.
#[test]
fn a_sum_over_the_field_of_another_one_is_right() {
    let sums = |update: &str| {
        format!(
            "
instances: {{ outer: mark, inner: mark, data: mark }}
parser: {{ start: {{ extract: [ethernet, outer, inner, data] }} }}
ingress: [ std.egress_port = 2, data.value = 5 ]
deparser: {{ emit: [ethernet, outer, inner, data] }}
checksums:
  - {{ field: outer.value, over: [outer, inner, data], update: {update} }}
  - {{ field: inner.value, over: [inner, data], update: {update} }}
"
        )
    };
    for update in ["always", "incremental"] {
        let left = outcome(&sums(update), "", &[frame(1, &[0, 0xfffe, 1])]);
        assert_eq!(words(&left.sent[0].1), [0, 0xfffa, 5], "{update}");
    }
    let crc = "
instances: { sum: mark, crc: mark, data: mark }
parser: { start: { extract: [ethernet, sum, crc, data] } }
ingress: [ std.egress_port = 2 ]
deparser: { emit: [ethernet, sum, crc, data] }
checksums: [ { field: sum.value, over: [sum, crc, data], update: always } ]
crcs:
  check:
    field: crc.value
    params: { width: 16, poly: 0x8005, init: 0, reflect: true, xor_out: 0 }
    over: [ data ]
    update: always
";
    let left = outcome(crc, "", &[frame(1, &[0, 7, 0x3132])]);
    // CRC-16/ARC of the two bytes.
    let crc = 0x4594u16;
    let sum = u32::from(crc) + 0x3132;
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    assert_eq!(words(&left.sent[0].1), [sum, crc, 0x3132]);
}
