//! Rules that no program of the front end violates: each is violated here.

use super::verify;
use crate::interp::tests::build::{Build, block, body, ethernet_ipv4};
use crate::ir::*;

/// A program with a register of one cell, and a control with a local for it.
fn with_control(blocks: impl FnOnce(&mut Build, RegisterId, ExprId) -> Vec<Block>) -> Program {
    let mut b = Build::new();
    ethernet_ipv4(&mut b);
    let cell = code::Local { name: "value".into(), bits: 16 };
    let register =
        b.program.registers.push(Register { name: "r".into(), cells: vec![cell.clone()], size: 8 });
    let index = b.num(3, 32);
    let mut control = body(blocks(&mut b, register, index));
    control.locals.push(cell);
    b.program.ingress = control;
    b.program
}

fn load(register: RegisterId, index: ExprId) -> Op {
    Op::RegisterLoad { register, index, first: LocalId(0), locked: true }
}

fn store(register: RegisterId, index: ExprId) -> Op {
    Op::RegisterStore { register, index, first: LocalId(0), cells: vec![0], locked: true }
}

fn branch(b: &mut Build) -> Term {
    let cond = b.num(1, 1);
    Term::Branch { cond, then: BlockId(1), otherwise: BlockId(2) }
}

#[test]
fn a_condition_inside_an_update_is_right() {
    let program = with_control(|b, register, index| {
        let new = b.num(5, 16);
        let set = Op::Set(LValue::Local(LocalId(0)), new);
        vec![
            block(vec![load(register, index)], branch(b)),
            block(vec![set], Term::Jump(BlockId(2))),
            block(vec![store(register, index)], Term::Return),
        ]
    });
    assert_eq!(verify(&program), Vec::<String>::new());
}

#[test]
fn a_lock_is_released_on_every_way() {
    let program = with_control(|b, register, index| {
        vec![
            block(vec![load(register, index)], branch(b)),
            block(vec![store(register, index)], Term::Return),
            block(vec![], Term::Return),
        ]
    });
    assert_eq!(verify(&program), ["ingress.b2: a lock without its release"]);
}

#[test]
fn ways_meet_with_the_same_lock() {
    let program = with_control(|b, register, index| {
        vec![
            block(vec![], branch(b)),
            block(vec![load(register, index)], Term::Jump(BlockId(2))),
            block(vec![store(register, index)], Term::Return),
        ]
    });
    let found = verify(&program);
    assert!(found.iter().any(|why| why.contains("held on some ways")), "{found:?}");
}

#[test]
fn a_release_is_of_the_index_that_was_locked() {
    let program = with_control(|b, register, index| {
        let other = b.num(4, 32);
        vec![block(vec![load(register, index), store(register, other)], Term::Return)]
    });
    assert_eq!(verify(&program), ["ingress.b0: a release of what is not held"]);
}

#[test]
fn nothing_takes_a_lock_under_a_lock() {
    let twice = with_control(|_, register, index| {
        vec![block(vec![load(register, index), load(register, index)], Term::Drop(ReasonId(2)))]
    });
    assert_eq!(verify(&twice), ["ingress.b0: a lock under a lock"]);
    let called = with_control(|b, register, index| {
        let ops = vec![load(register, index), store(register, index)];
        let action = b.action("update", &[], ops, Term::Return);
        let cell = code::Local { name: "value".into(), bits: 16 };
        b.program.actions[action].body.locals.push(cell);
        let ops = vec![load(register, index), Op::Call(action, vec![]), store(register, index)];
        vec![block(ops, Term::Return)]
    });
    let found = verify(&called);
    assert!(found.len() == 1 && found[0].contains("takes a lock under a lock"), "{found:?}");
}

#[test]
fn a_pad_depends_on_what_egress_knows() {
    let mut b = Build::new();
    let (ethernet, ipv4) = ethernet_ipv4(&mut b);
    let trailer = b.header("trailer", &[("x", 8)]);
    let (carried, lost) = (b.meta("carried", 32, Some(0)), b.meta("lost", 32, None));
    let field = |b: &mut Build, instance, name: &str| {
        let value = b.field(instance, name);
        b.expr(ExprKind::Cast(value), 32)
    };
    let present = b.valid(trailer);
    let fine = [
        field(&mut b, ipv4, "ihl"),
        b.expr(ExprKind::Meta(carried), 32),
        b.std(StdField::EmitLength),
        b.expr(ExprKind::HeaderLength(ethernet), 32),
        b.expr(ExprKind::Cast(present), 32),
    ];
    let wrong = [
        field(&mut b, trailer, "x"),
        b.expr(ExprKind::Meta(lost), 32),
        b.std(StdField::PacketLength),
    ];
    let found = |b: &mut Build, bytes| {
        let pad = AfterBody::Pad { bytes, fill: 0, when: None };
        b.program.deparser.after = vec![pad, AfterBody::Header(trailer)];
        verify(&b.program)
    };
    for bytes in fine {
        assert_eq!(found(&mut b, bytes), Vec::<String>::new());
    }
    for bytes in wrong {
        let found = found(&mut b, bytes);
        assert!(found.len() == 1 && found[0].contains("a pad reads"), "{found:?}");
    }
}
