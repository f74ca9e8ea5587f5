//! What each pass removes and what it must keep.

use super::{Options, PASSES, optimised, run};
use crate::ids::*;
use crate::interp::tests::build::{Build, block, body, ethernet_ipv4};
use crate::ir::*;
use wireyard_tables::{Match, MatchKind};

/// Options for one pass alone.
fn only(name: &str) -> Options {
    let others = PASSES.iter().filter(|pass| pass.name != name);
    Options { without: others.map(|pass| pass.name.to_string()).collect() }
}

fn sets(body: &Body) -> Vec<&LValue> {
    let ops = body.blocks.iter().flat_map(|block| &block.ops);
    ops.filter_map(|op| match &op.op {
        Op::Set(to, _) => Some(to),
        _ => None,
    })
    .collect()
}

#[test]
fn levels_are_nested() {
    assert_eq!(Options::level(0).without.len(), PASSES.len());
    assert_eq!(Options::level(super::LEVEL_MAX), Options::all());
    let one = Options::level(1).without;
    assert!(one.contains(&"dead-code".to_string()) && !one.contains(&"fold".to_string()));
}

#[test]
fn what_nothing_reads_is_not_assigned() {
    let mut b = Build::new();
    let (_, ipv4) = ethernet_ipv4(&mut b);
    let scratch = b.header("scratch", &[("x", 8), ("y", 8)]);
    let (unread, chained, read, carried) = (
        b.meta("unread", 8, None),
        b.meta("chained", 8, None),
        b.meta("read", 8, None),
        b.meta("carried", 8, Some(0)),
    );
    let (ttl, x) = (b.field(ipv4, "ttl"), b.field(scratch, "x"));
    let chained_value = b.expr(ExprKind::Meta(chained), 8);
    let cond = b.expr(ExprKind::Meta(read), 8);
    let ops = vec![
        // Only a removed assignment reads `chained`, so that both are removed.
        Op::Set(LValue::Meta(chained), ttl),
        Op::Set(LValue::Meta(unread), chained_value),
        Op::Set(LValue::Meta(read), ttl),
        Op::Set(LValue::Meta(carried), ttl),
        b.set(scratch, "x", ttl),
        b.set(scratch, "y", ttl),
        b.set(ipv4, "ttl", x),
    ];
    let term = Term::Switch { value: cond, cases: vec![(1, BlockId(1))], default: BlockId(1) };
    b.program.ingress = body(vec![block(ops, term), block(vec![], Term::Return)]);
    assert_eq!(run(&mut b.program, &only("dead-code")), ["dead-code"]);
    let expected = [
        LValue::Meta(read),
        LValue::Meta(carried),
        LValue::Field(scratch, FieldId(0)),
        LValue::Field(ipv4, b.fid(ipv4, "ttl")),
    ];
    assert_eq!(sets(&b.program.ingress), expected.iter().collect::<Vec<_>>());
}

#[test]
fn a_local_is_assigned_only_where_it_is_read_later() {
    let mut b = Build::new();
    let (_, ipv4) = ethernet_ipv4(&mut b);
    let (one, two) = (b.num(1, 8), b.num(2, 8));
    let local = b.local(0, 8);
    let to = LValue::Local(LocalId(0));
    let cond = b.valid(ipv4);
    let first = vec![Op::Set(to.clone(), one), Op::Set(to.clone(), two)];
    let reads = vec![b.set(ipv4, "ttl", local), Op::Set(to.clone(), one)];
    let mut control = body(vec![
        block(first, Term::Branch { cond, then: BlockId(1), otherwise: BlockId(2) }),
        block(reads, Term::Jump(BlockId(2))),
        block(vec![], Term::Return),
    ]);
    control.locals.push(code::Local { name: "l".into(), bits: 8 });
    b.program.ingress = control;
    assert_eq!(run(&mut b.program, &only("dead-code")), ["dead-code"]);
    let left: Vec<usize> = b.program.ingress.blocks.iter().map(|block| block.ops.len()).collect();
    assert_eq!(left, [1, 1, 0]);
    assert!(
        matches!(b.program.ingress.blocks[BlockId(0)].ops[0].op, Op::Set(_, value) if value == two)
    );
}

#[test]
fn an_assignment_that_may_end_the_pass_stays() {
    let mut b = Build::new();
    let (_, _) = ethernet_ipv4(&mut b);
    let meta = b.meta("unread", 8, None);
    let value = element(&mut b);
    b.program.ingress = body(vec![block(vec![Op::Set(LValue::Meta(meta), value)], Term::Return)]);
    assert!(run(&mut b.program, &only("dead-code")).is_empty());
}

/// A value that may end the pass: an element of an array, of 8 bits.
fn element(b: &mut Build) -> ExprId {
    let array = b.header("array", &[("index", 8)]);
    let ty = b.type_of(array);
    let layout = FieldLayout::Array { bit: 8, bits: 8, count: 4 };
    let element = Field { name: "e".into(), bits: 8, layout, display: Display::Hex, part_of: None };
    let field = b.program.headers[ty].fields.push(element);
    b.program.headers[ty].fixed_bytes = 5;
    b.program.headers[ty].max_bytes = 5;
    let index = b.num(9, 32);
    b.expr(ExprKind::Element { instance: array, field, index }, 8)
}

#[test]
fn a_decision_of_one_way_goes_unless_its_value_may_end_the_pass() {
    let mut b = Build::new();
    let (_, ipv4) = ethernet_ipv4(&mut b);
    let (valid, ttl, element) = (b.valid(ipv4), b.field(ipv4, "ttl"), element(&mut b));
    let to_last = |value| Term::Switch { value, cases: vec![(1, BlockId(3))], default: BlockId(3) };
    let one_way = Term::Branch { cond: valid, then: BlockId(3), otherwise: BlockId(3) };
    // The first block is left with one target once the two others are removed.
    let control = |b1| {
        let first = Term::Branch { cond: valid, then: BlockId(1), otherwise: BlockId(2) };
        let last = block(vec![Op::Set(LValue::Std(StdField::Ect), valid)], Term::Return);
        let middle = [first, b1, one_way.clone()].map(|term| block(vec![], term));
        body(middle.into_iter().chain([last]).collect())
    };
    b.program.ingress = control(to_last(ttl));
    b.program.egress = control(to_last(element));
    assert_eq!(run(&mut b.program, &only("dead-blocks")), ["dead-blocks"]);
    let terms = |body: &Body| body.blocks.iter().map(|b| b.term.clone()).collect::<Vec<_>>();
    assert_eq!(terms(&b.program.ingress), [Term::Jump(BlockId(1)), Term::Return]);
    let [Term::Branch { then, .. }, Term::Switch { value, .. }, Term::Return] =
        terms(&b.program.egress)[..]
    else {
        panic!("{:?}", b.program.egress)
    };
    assert_eq!((then, value), (BlockId(1), element));
}

/// A table of two constant entries in front of a block for hits, one for misses, one for an action.
fn with_table(change: impl FnOnce(&mut Table)) -> Program {
    let mut b = Build::new();
    let (ethernet, ipv4) = ethernet_ipv4(&mut b);
    let port = b.local(0, 16);
    let set = vec![Op::Set(LValue::Std(StdField::EgressPort), port)];
    let send = b.action("send", &[("port", 16)], set, Term::Return);
    let (kind, ttl) = (b.field(ethernet, "ether_type"), b.field(ipv4, "ttl"));
    let keys = [(kind, MatchKind::Exact), (ttl, MatchKind::Exact)];
    let table = b.table("t", &keys, &[ActionId(0), send], ActionId(0));
    let entry = |value: u128, ttl: u128, port: u128| TableEntry {
        matches: vec![Match::Exact(value), Match::Exact(ttl)],
        priority: 0,
        call: ActionCall { action: send, args: vec![port] },
        idle_timeout_ms: 0,
        meter: None,
        is_const: false,
    };
    let declared = &mut b.program.tables[table];
    declared.entries = vec![entry(0x800, 64, 2), entry(0x800, 1, 3)];
    (declared.const_entries, declared.const_default) = (true, true);
    change(declared);
    let by_action = vec![(send, BlockId(1))];
    let apply = Term::Apply { table, by_action, hit: BlockId(2), miss: BlockId(2) };
    b.program.ingress = body(vec![
        block(vec![], apply),
        block(vec![], Term::Drop(ReasonId(2))),
        block(vec![], Term::Return),
    ]);
    b.program
}

#[test]
fn a_small_constant_table_becomes_a_switch() {
    let program = optimised(&with_table(|_| {}), 2);
    let Term::Switch { value, cases, default } = &program.ingress.blocks[BlockId(0)].term else {
        panic!("{}", print::program(&program));
    };
    assert_eq!(program.exprs[*value].bits, 24);
    assert_eq!(cases.iter().map(|(value, _)| *value).collect::<Vec<_>>(), [0x08_0040, 0x08_0001]);
    assert!(!cases.iter().any(|(_, to)| to == default));
    let ends = |id: BlockId| match program.ingress.blocks[id].term {
        Term::Jump(to) => program.ingress.blocks[to].term.clone(),
        ref other => other.clone(),
    };
    assert_eq!(ends(cases[0].1), Term::Drop(ReasonId(2)));
    assert_eq!(ends(*default), Term::Return);
}

#[test]
fn a_table_that_may_change_or_counts_stays_a_table() {
    let changes: [fn(&mut Table); 5] = [
        |table| table.const_entries = false,
        |table| table.const_default = false,
        |table| table.counters = true,
        |table| table.idle_timeout_ms = Some(1),
        |table| table.keys[0].field.kind = MatchKind::Ternary,
    ];
    for change in changes {
        let program = optimised(&with_table(change), 2);
        assert!(matches!(program.ingress.blocks[BlockId(0)].term, Term::Apply { .. }));
    }
    let program = optimised(&with_table(|_| {}), 1);
    assert!(matches!(program.ingress.blocks[BlockId(0)].term, Term::Apply { .. }), "level 1");
}

#[test]
fn the_only_entry_of_a_table_without_keys_is_always_hit() {
    let program = optimised(
        &with_table(|table| {
            table.keys.clear();
            table.entries.truncate(1);
            table.entries[0].matches.clear();
        }),
        2,
    );
    // The action's block drops.
    let terms = program.ingress.blocks.iter().map(|block| &block.term);
    assert!(
        terms.clone().any(|term| *term == Term::Drop(ReasonId(2))),
        "{}",
        print::program(&program)
    );
    assert!(!terms.clone().any(|term| matches!(term, Term::Apply { .. } | Term::Return)));
}
