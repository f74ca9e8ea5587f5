//! What a program does with a packet.

use std::collections::BTreeMap;

use super::tree::{
    Argument, Callable, Direction, ELEMENTS, Expr, Kind, Match, Program, Statement, Variable,
};
use super::value::{Op, Type};

/// How a statement ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
    Return,
    Exit,
}

/// A packet in the program: values by name. Names of parameters and variables are unique in a program, and none calls itself.
struct State<'p> {
    program: &'p Program,
    values: BTreeMap<&'p str, u128>,
    stack: [u128; ELEMENTS],
    is_valid: bool,
}

/// The fields of the second header begin so.
const SECOND: &str = "hdr.g.";

/// The bytes that leave for those that come in.
pub(super) fn packet(program: &Program, bytes: &[u8]) -> Vec<u8> {
    let mut state =
        State { program, values: BTreeMap::new(), stack: [0; ELEMENTS], is_valid: false };
    let mut bits = bytes.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1));
    let mut take =
        |count: u32| (0..count).fold(0, |sum, _| sum << 1 | u128::from(bits.next().unwrap_or(0)));
    for field in &program.first {
        state.values.insert(&field.name, take(field.ty.bits()));
    }
    let keys: Vec<u128> = program.select.iter().map(|key| state.value(key)).collect();
    let case = program.cases.iter().find(|(matches, _)| all_match(matches, &keys));
    if case.is_some_and(|(_, with_second)| *with_second) {
        state.is_valid = true;
        for field in &program.second {
            state.values.insert(&field.name, take(field.ty.bits()));
        }
    }
    for element in &mut state.stack {
        *element = take(8);
    }
    let mut taken: u32 = program.first.iter().map(|field| field.ty.bits()).sum();
    taken += 8 * ELEMENTS as u32;
    if state.is_valid {
        taken += program.second.iter().map(|field| field.ty.bits()).sum::<u32>();
    }
    for (local, value) in &program.locals {
        state.set(local, *value);
    }
    state.run(&program.ingress);
    state.run(&program.egress);
    let mut out = state.emitted();
    out.extend(&bytes[taken as usize / 8..]);
    out
}

fn all_match(matches: &[Match], keys: &[u128]) -> bool {
    matches.iter().zip(keys).all(|(one, key)| one.matches(*key))
}

impl<'p> State<'p> {
    fn emitted(&self) -> Vec<u8> {
        let second = if self.is_valid { self.program.second.as_slice() } else { &[] };
        let mut bits = Vec::new();
        let mut put = |value: u128, count: u32| {
            bits.extend((0..count).rev().map(|at| (value >> at & 1) as u8));
        };
        for field in self.program.first.iter().chain(second) {
            put(self.values[field.name.as_str()], field.ty.bits());
        }
        self.stack.iter().for_each(|element| put(*element, 8));
        bits.chunks(8).map(|byte| byte.iter().fold(0, |sum, bit| sum << 1 | bit)).collect()
    }

    fn get(&self, name: &str) -> u128 {
        let is_absent = name.starts_with(SECOND) && !self.is_valid;
        if is_absent { 0 } else { self.values.get(name).copied().unwrap_or(0) }
    }

    fn set(&mut self, to: &'p Variable, value: u128) {
        if self.is_valid || !to.name.starts_with(SECOND) {
            self.values.insert(&to.name, to.ty.cut(value));
        }
    }

    fn value(&mut self, expr: &'p Expr) -> u128 {
        let ty = expr.ty;
        ty.cut(match &expr.kind {
            Kind::Constant(value) => *value,
            Kind::Variable(name) => self.get(name),
            Kind::Element(index) => {
                let index = self.value(index);
                self.stack[index as usize]
            }
            Kind::IsValid => u128::from(self.is_valid),
            Kind::Not(of) => 1 - self.value(of),
            Kind::Negate(of) => self.value(of).wrapping_neg(),
            Kind::Invert(of) => !self.value(of),
            Kind::Binary(Op::Both, a, b) => u128::from(self.value(a) == 1 && self.value(b) == 1),
            Kind::Binary(Op::Either, a, b) => u128::from(self.value(a) == 1 || self.value(b) == 1),
            Kind::Binary(op, a, b) => {
                let (left, right) = (self.value(a), self.value(b));
                op.of(ty, (a.ty, left), (b.ty, right))
            }
            Kind::Cast(of) => {
                let value = self.value(of);
                of.ty.number(value) as u128
            }
            Kind::Slice(of, _, low) => self.value(of) >> low,
            Kind::Choice(which, a, b) => match self.value(which) {
                1 => self.value(a),
                _ => self.value(b),
            },
            Kind::Call(function, arguments) => {
                let (_, result) = self.call(*function, arguments);
                result
            }
        })
    }

    /// Copies in, from left to right, runs the body, and copies out; the result is evaluated in between.
    fn call(&mut self, callable: usize, arguments: &'p [Argument]) -> (Flow, u128) {
        let callable: &'p Callable = &self.program.callables[callable];
        let values: Vec<u128> = arguments
            .iter()
            .map(|argument| match argument {
                Argument::Value(expr) => self.value(expr),
                Argument::Place(place) => self.get(&place.name),
            })
            .collect();
        for ((direction, param), value) in callable.params.iter().zip(values) {
            let value = if *direction == Direction::Out { 0 } else { value };
            self.values.insert(&param.name, param.ty.cut(value));
        }
        let flow = self.run(&callable.body);
        let result = callable.result.as_ref().map_or(0, |expr| self.value(expr));
        for ((direction, param), argument) in callable.params.iter().zip(arguments) {
            let goes_back = matches!(direction, Direction::InOut | Direction::Out);
            if let (true, Argument::Place(place)) = (goes_back, argument) {
                let value = self.get(&param.name);
                self.set(place, value);
            }
        }
        (if flow == Flow::Exit { Flow::Exit } else { Flow::Next }, result)
    }

    fn run(&mut self, statements: &'p [Statement]) -> Flow {
        for statement in statements {
            let flow = self.step(statement);
            if flow != Flow::Next {
                return flow;
            }
        }
        Flow::Next
    }

    fn step(&mut self, statement: &'p Statement) -> Flow {
        match statement {
            Statement::Declare(to, expr) | Statement::Assign(to, expr) => {
                let value = self.value(expr);
                self.set(to, value);
            }
            Statement::Part(to, high, low, expr) => {
                let value = self.value(expr) << low;
                let mask = Type::Bit(high - low + 1).cut(u128::MAX) << low;
                self.set(to, self.get(&to.name) & !mask | value);
            }
            Statement::With(to, op, expr) => {
                let before = self.get(&to.name);
                let value = self.value(expr);
                self.set(to, op.of(to.ty, (to.ty, before), (expr.ty, value)));
            }
            Statement::Element(index, expr) => {
                let index = self.value(index);
                self.stack[index as usize] = self.value(expr);
            }
            Statement::Fill(exprs) => {
                let values: Vec<u128> = exprs.iter().map(|expr| self.value(expr)).collect();
                self.is_valid = true;
                let program = self.program;
                program.second.iter().zip(values).for_each(|(field, value)| self.set(field, value));
            }
            Statement::If(condition, then, or) => {
                let is_so = self.value(condition) == 1;
                return self.run(if is_so { then } else { or });
            }
            Statement::Switch(expr, cases, default) => {
                let value = self.value(expr);
                let case = cases.iter().find(|(labels, _)| labels.contains(&value));
                return self.run(case.map_or(default, |(_, body)| body));
            }
            Statement::For(variable, from, to, body, _) => {
                return self.turns(variable, (*from..=*to).collect(), body);
            }
            Statement::Each(variable, exprs, body) => {
                let values = exprs.iter().map(|expr| self.value(expr)).collect();
                return self.turns(variable, values, body);
            }
            Statement::Call(callable, arguments) => return self.call(*callable, arguments).0,
            Statement::Apply(table, hit, miss) => return self.apply(*table, hit, miss),
            Statement::Break => return Flow::Break,
            Statement::Continue => return Flow::Continue,
            Statement::Return => return Flow::Return,
            Statement::Exit => return Flow::Exit,
        }
        Flow::Next
    }

    fn turns(&mut self, variable: &'p Variable, values: Vec<u128>, body: &'p [Statement]) -> Flow {
        for value in values {
            self.set(variable, value);
            match self.run(body) {
                Flow::Next | Flow::Continue => {}
                Flow::Break => return Flow::Next,
                flow => return flow,
            }
        }
        Flow::Next
    }

    fn apply(&mut self, table: usize, hit: &'p [Statement], miss: &'p [Statement]) -> Flow {
        let program = self.program;
        let table = &program.tables[table];
        let keys: Vec<u128> = table.keys.iter().map(|(key, _)| self.value(key)).collect();
        let entry = table.entries.iter().find(|(matches, ..)| all_match(matches, &keys));
        let (action, data) =
            entry.map_or((table.default.0, &table.default.1), |(_, action, data)| (*action, data));
        let action = &program.callables[action];
        for ((_, param), value) in action.params.iter().zip(data) {
            self.values.insert(&param.name, *value);
        }
        match self.run(&action.body) {
            Flow::Exit => Flow::Exit,
            _ => self.run(if entry.is_some() { hit } else { miss }),
        }
    }
}
