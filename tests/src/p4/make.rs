//! Random programs.

use super::tree::{
    Argument, Callable, Direction, Expr, Kind, Match, Program, Sort, Statement, Table, Variable,
};
use super::value::{Op, Type};
use crate::differ::random::Random;

/// The types of variables: few, so that there are arguments for parameters.
const TYPES: [Type; 9] = [
    Type::Bit(8),
    Type::Bit(8),
    Type::Bit(16),
    Type::Bit(4),
    Type::Bit(33),
    Type::Bit(60),
    Type::Int(8),
    Type::Int(16),
    Type::Bool,
];

/// How much a program does at most, about: an expression counts one, a loop as often as it turns.
const WEIGHT_MAX: usize = 700;

/// Where a statement or expression is.
pub(super) struct Maker<'r> {
    pub(super) random: &'r mut Random,
    /// What can be read, and whether it can be written.
    pub(super) scope: Vec<(Variable, bool)>,
    pub(super) callables: Vec<Callable>,
    /// What each of them does.
    pub(super) weights: Vec<usize>,
    /// Tables that are not applied yet.
    pub(super) tables: Vec<usize>,
    /// The fields of the second header, where headers can be named.
    pub(super) second: Vec<Variable>,
    /// What contains the statements, if it can be left: `None` for a parser.
    pub(super) sort: Option<Sort>,
    pub(super) is_in_loop: bool,
    pub(super) weight: usize,
    pub(super) names: usize,
}

/// A program.
pub(super) fn program(random: &mut Random) -> Program {
    let first = header(random, "hdr.h", 5);
    let second = header(random, "hdr.g", 3);
    let metadata: Vec<Variable> =
        (0..4).map(|n| Variable { name: format!("meta.m{n}"), ty: random.pick(&TYPES) }).collect();
    let scope = |of: &[&[Variable]]| -> Vec<(Variable, bool)> {
        of.iter().flat_map(|one| one.iter()).map(|one| (one.clone(), true)).collect()
    };
    let mut maker = Maker {
        random,
        scope: scope(&[&first]),
        callables: Vec::new(),
        weights: Vec::new(),
        tables: Vec::new(),
        second: Vec::new(),
        sort: None,
        is_in_loop: false,
        weight: 0,
        names: 0,
    };
    let (select, cases) = maker.select();
    for _ in 0..2 + maker.random.below(3) {
        let sort = maker.random.pick(&[Sort::Function, Sort::Function, Sort::Control]);
        maker.scope.clear();
        maker.callable(sort, false);
    }
    let locals: Vec<(Variable, u128)> = (0..3)
        .map(|_| {
            let ty = maker.random.pick(&TYPES);
            (maker.local(ty), ty.cut(maker.random.value(ty.bits())))
        })
        .collect();
    let names: Vec<Variable> = locals.iter().map(|(local, _)| local.clone()).collect();
    let all = scope(&[&first, &second, &metadata]);
    let of_ingress = [all.clone(), scope(&[&names])].concat();
    maker.second.clone_from(&second);
    for number in 0..4 {
        maker.scope.clone_from(&of_ingress);
        maker.callable(Sort::Action, number < 2);
    }
    maker.scope.clone_from(&of_ingress);
    let tables: Vec<Table> = (0..2).map(|_| maker.table()).collect();
    maker.tables = vec![0, 1];
    (maker.sort, maker.weight) = (Some(Sort::Control), 0);
    let ingress = maker.statements(14, 3);
    maker.scope = all;
    // Actions and tables are those of ingress.
    (maker.tables, maker.weight) = (Vec::new(), 0);
    maker.weights.iter_mut().zip(&maker.callables).for_each(|(weight, callable)| {
        if callable.sort == Sort::Action {
            *weight = usize::MAX;
        }
    });
    let egress = maker.statements(6, 2);
    let callables = maker.callables;
    Program { first, second, metadata, select, cases, callables, tables, locals, ingress, egress }
}

/// Fields that are whole bytes together.
fn header(random: &mut Random, name: &str, fields: usize) -> Vec<Variable> {
    let variable = |number: usize, ty: Type| Variable { name: format!("{name}.f{number}"), ty };
    let mut made: Vec<Variable> = (0..fields).map(|n| variable(n, random.pick(&TYPES))).collect();
    let bits: u32 = made.iter().map(|field| field.ty.bits()).sum();
    if !bits.is_multiple_of(8) {
        made.push(variable(fields, Type::Bit(8 - bits % 8)));
    }
    made
}

impl Maker<'_> {
    /// A new variable.
    pub(super) fn local(&mut self, ty: Type) -> Variable {
        self.names += 1;
        Variable { name: format!("x{}", self.names), ty }
    }

    /// The keys of a `select`, and its cases.
    fn select(&mut self) -> (Vec<Expr>, Vec<(Vec<Match>, bool)>) {
        let keys: Vec<Expr> = (0..1 + self.random.below(2)).map(|_| self.key()).collect();
        let cases = (0..3)
            .map(|_| {
                let kind = self.random.pick(&["ternary", "range", "exact"]);
                let matches = keys.iter().map(|key| self.matching(key.ty, kind)).collect();
                (matches, self.random.chance(70))
            })
            .collect();
        (keys, cases)
    }

    fn key(&mut self) -> Expr {
        let ty = self.random.pick(&[Type::Bit(8), Type::Bit(4), Type::Bit(16)]);
        self.expr(ty, 2)
    }

    fn matching(&mut self, ty: Type, kind: &str) -> Match {
        let mut value = || ty.cut(self.random.value(ty.bits()));
        let (a, b) = (value(), value());
        match kind {
            "ternary" => Match::Masked(a & b, b),
            "range" => Match::Range(a.min(b), a.max(b)),
            "optional" if self.random.chance(30) => Match::Masked(0, 0),
            _ => Match::Exact(a),
        }
    }

    /// A function, control or action with the parameters and what is in scope; of a table, it has data only.
    fn callable(&mut self, sort: Sort, is_of_table: bool) {
        let outer = self.scope.len();
        let mut params = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            let directions = [Direction::In, Direction::InOut, Direction::InOut, Direction::Out];
            let direction =
                if is_of_table { Direction::Data } else { self.random.pick(&directions) };
            let ty = self.random.pick(&TYPES);
            params.push((direction, self.local(ty)));
        }
        if sort == Sort::Action && !is_of_table && self.random.chance(50) {
            let ty = self.random.pick(&TYPES);
            params.push((Direction::Data, self.local(ty)));
        }
        (self.weight, self.sort) = (0, Some(sort));
        for (direction, param) in &params {
            if *direction != Direction::Out {
                self.scope.push((param.clone(), *direction == Direction::InOut));
            }
        }
        let mut body = Vec::new();
        for (_, param) in params.iter().filter(|(direction, _)| *direction == Direction::Out) {
            body.push(Statement::Assign(param.clone(), self.expr(param.ty, 2)));
            self.scope.push((param.clone(), true));
        }
        body.extend(self.statements(3, 2));
        let has_result = sort == Sort::Function && self.random.chance(85);
        let result = has_result.then(|| {
            let ty = self.random.pick(&TYPES);
            self.expr(ty, 2)
        });
        self.scope.truncate(outer);
        self.callables.push(Callable { sort, params, body, result });
        self.weights.push(self.weight);
    }

    fn table(&mut self) -> Table {
        let kinds = self.random.pick(&[
            ["exact", "exact"],
            ["exact", "ternary"],
            ["range", "optional"],
            ["ternary", "range"],
        ]);
        let keys: Vec<(Expr, &'static str)> = kinds.map(|kind| (self.key(), kind)).to_vec();
        let action = |maker: &mut Self| {
            let is_data = |callable: &Callable| {
                callable.sort == Sort::Action
                    && callable.params.iter().all(|(direction, _)| *direction == Direction::Data)
            };
            let of_tables: Vec<usize> =
                (0..maker.callables.len()).filter(|at| is_data(&maker.callables[*at])).collect();
            let action = maker.random.pick(&of_tables);
            let types = maker.callables[action].params.iter().map(|(_, param)| param.ty);
            let data = types.collect::<Vec<_>>();
            let data = data.iter().map(|ty| ty.cut(maker.random.value(ty.bits()))).collect();
            (action, data)
        };
        let mut entries: Vec<(Vec<Match>, usize, Vec<u128>)> = Vec::new();
        for _ in 0..4 {
            let matches: Vec<Match> =
                keys.iter().map(|(key, kind)| self.matching(key.ty, kind)).collect();
            let is_there =
                entries.iter().any(|(other, ..)| format!("{other:?}") == format!("{matches:?}"));
            if !is_there {
                let (action, data) = action(self);
                entries.push((matches, action, data));
            }
        }
        let default = action(self);
        Table { keys, entries, default }
    }

    pub(super) fn any_type(&mut self) -> Type {
        self.random.pick(&TYPES)
    }

    pub(super) fn constant(&mut self, ty: Type) -> Expr {
        Expr { ty, kind: Kind::Constant(ty.cut(self.random.value(ty.bits()))) }
    }

    /// A variable of the type, if there is one.
    pub(super) fn variable(&mut self, ty: Type, is_written: bool) -> Option<Variable> {
        let fits = |(one, is_place): &&(Variable, bool)| one.ty == ty && (*is_place || !is_written);
        let found: Vec<Variable> =
            self.scope.iter().filter(fits).map(|(one, _)| one.clone()).collect();
        (!found.is_empty()).then(|| self.random.pick(&found))
    }

    /// Arguments for a callable, if there are variables for its parameters and it is not too much.
    pub(super) fn arguments(&mut self, number: usize, depth: usize) -> Option<Vec<Argument>> {
        if self.weights[number].saturating_add(self.weight) > WEIGHT_MAX {
            return None;
        }
        let params = self.callables[number].params.clone();
        let argument = |(direction, param): (Direction, Variable)| match direction {
            Direction::In | Direction::Data => {
                Some(Argument::Value(self.expr(param.ty, depth.saturating_sub(1))))
            }
            Direction::InOut | Direction::Out => self.variable(param.ty, true).map(Argument::Place),
        };
        let arguments = params.into_iter().map(argument).collect::<Option<Vec<_>>>()?;
        self.weight += self.weights[number];
        Some(arguments)
    }

    pub(super) fn expr(&mut self, ty: Type, depth: usize) -> Expr {
        self.weight += 1;
        let leaf = depth == 0 || self.random.chance(12);
        if leaf {
            return match self.variable(ty, false) {
                Some(one) if self.random.chance(85) => Expr { ty, kind: Kind::Variable(one.name) },
                _ => self.constant(ty),
            };
        }
        if self.sort.is_some() && self.random.chance(12) {
            let is_of_type = |callable: &Callable| {
                callable.result.as_ref().is_some_and(|result| result.ty == ty)
            };
            let found: Vec<usize> =
                (0..self.callables.len()).filter(|at| is_of_type(&self.callables[*at])).collect();
            if !found.is_empty() {
                let number = self.random.pick(&found);
                if let Some(arguments) = self.arguments(number, depth) {
                    return Expr { ty, kind: Kind::Call(number, arguments) };
                }
            }
        }
        let depth = depth - 1;
        let kind = match ty {
            Type::Bool => self.truth(depth),
            Type::Bit(bits) => self.bits(bits, depth),
            Type::Int(bits) => self.signed(bits, depth),
        };
        Expr { ty, kind }
    }

    fn boxed(&mut self, ty: Type, depth: usize) -> Box<Expr> {
        Box::new(self.expr(ty, depth))
    }

    fn truth(&mut self, depth: usize) -> Kind {
        let both = [Op::Both, Op::Either];
        match self.random.below(8) {
            0 if !self.second.is_empty() => Kind::IsValid,
            0 | 1 => Kind::Not(self.boxed(Type::Bool, depth)),
            2 | 3 => {
                let op = self.random.pick(&both);
                Kind::Binary(op, self.boxed(Type::Bool, depth), self.boxed(Type::Bool, depth))
            }
            4 => Kind::Cast(self.boxed(Type::Bit(1), depth)),
            _ => {
                let ops = [
                    Op::Equal,
                    Op::Unequal,
                    Op::Less,
                    Op::LessOrEqual,
                    Op::Greater,
                    Op::GreaterOrEqual,
                ];
                let (op, ty) = (self.random.pick(&ops), self.random.pick(&TYPES[..8]));
                Kind::Binary(op, self.boxed(ty, depth), self.boxed(ty, depth))
            }
        }
    }

    /// What numbers with and without a sign have in common.
    fn number(&mut self, ty: Type, depth: usize) -> Kind {
        let ops = [
            Op::Add,
            Op::Sub,
            Op::Mul,
            Op::And,
            Op::Or,
            Op::Xor,
            Op::AddSaturating,
            Op::SubSaturating,
        ];
        match self.random.below(10) {
            0 => Kind::Negate(self.boxed(ty, depth)),
            1 => Kind::Invert(self.boxed(ty, depth)),
            2 => {
                let which = self.boxed(Type::Bool, depth);
                Kind::Choice(which, self.boxed(ty, depth), self.boxed(ty, depth))
            }
            3 | 4 => {
                let (op, by) =
                    (self.random.pick(&[Op::Left, Op::Right]), self.random.pick(&[4, 8]));
                Kind::Binary(op, self.boxed(ty, depth), self.boxed(Type::Bit(by), depth))
            }
            _ => {
                let op = self.random.pick(&ops);
                Kind::Binary(op, self.boxed(ty, depth), self.boxed(ty, depth))
            }
        }
    }

    fn bits(&mut self, bits: u32, depth: usize) -> Kind {
        match self.random.below(10) {
            0 if bits == 1 => Kind::Cast(self.boxed(Type::Bool, depth)),
            0 if bits == 8 && !self.second.is_empty() => {
                Kind::Element(self.boxed(Type::Bit(2), depth))
            }
            0 | 1 => {
                let wide = self.random.pick(&[8, 16, 33, 60]).max(bits);
                let low = self.random.below((wide - bits) as usize + 1) as u32;
                Kind::Slice(self.boxed(Type::Bit(wide), depth), low + bits - 1, low)
            }
            2 if bits > 1 => {
                let left = 1 + self.random.below(bits as usize - 1) as u32;
                let (a, b) = (Type::Bit(left), Type::Bit(bits - left));
                Kind::Binary(Op::Concat, self.boxed(a, depth), self.boxed(b, depth))
            }
            3 => {
                let from = self.random.pick(&[4, 8, 16, 33, 60]);
                Kind::Cast(self.boxed(Type::Bit(from), depth))
            }
            4 if matches!(bits, 8 | 16) => Kind::Cast(self.boxed(Type::Int(bits), depth)),
            5 => {
                let op = self.random.pick(&[Op::Div, Op::Mod]);
                let ty = Type::Bit(bits);
                let mut by = self.constant(ty);
                if matches!(by.kind, Kind::Constant(0)) {
                    by.kind = Kind::Constant(1);
                }
                Kind::Binary(op, self.boxed(ty, depth), Box::new(by))
            }
            _ => self.number(Type::Bit(bits), depth),
        }
    }

    fn signed(&mut self, bits: u32, depth: usize) -> Kind {
        match self.random.below(8) {
            0 => Kind::Cast(self.boxed(Type::Bit(bits), depth)),
            1 => {
                let from = self.random.pick(&[8, 16]);
                Kind::Cast(self.boxed(Type::Int(from), depth))
            }
            _ => self.number(Type::Int(bits), depth),
        }
    }
}
