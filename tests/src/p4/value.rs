//! Types and operations as the specification of P4-16 has them, on numbers of 128 bits.

/// The types of variables and fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// `bool`
    Bool,
    /// `bit<W>`
    Bit(u32),
    /// `int<W>`
    Int(u32),
}

impl Type {
    /// How many bits a value has.
    pub fn bits(self) -> u32 {
        match self {
            Type::Bool => 1,
            Type::Bit(bits) | Type::Int(bits) => bits,
        }
    }

    /// The name in P4.
    pub fn name(self) -> String {
        match self {
            Type::Bool => "bool".to_owned(),
            Type::Bit(bits) => format!("bit<{bits}>"),
            Type::Int(bits) => format!("int<{bits}>"),
        }
    }

    /// The lowest bits of a number, as many as the type has.
    pub fn cut(self, value: u128) -> u128 {
        value & (u128::MAX >> (128 - self.bits()))
    }

    /// The number that the bits stand for.
    pub fn number(self, value: u128) -> i128 {
        match self {
            Type::Int(bits) => (value << (128 - bits)) as i128 >> (128 - bits),
            _ => value as i128,
        }
    }

    /// The bits of the nearest number that the type has.
    fn clamped(self, number: i128) -> u128 {
        let (least, most) = match self {
            Type::Int(bits) => (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1),
            _ => (0, (1_i128 << self.bits()) - 1),
        };
        self.cut(number.clamp(least, most) as u128)
    }
}

/// Operators of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is named like its operator")]
pub enum Op {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    And,
    Or,
    Xor,
    AddSaturating,
    SubSaturating,
    Left,
    Right,
    Concat,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Both,
    Either,
}

impl Op {
    /// As it is written.
    pub fn text(self) -> &'static str {
        match self {
            Op::Add => "+",
            Op::Sub => "-",
            Op::Mul => "*",
            Op::Div => "/",
            Op::Mod => "%",
            Op::And => "&",
            Op::Or => "|",
            Op::Xor => "^",
            Op::AddSaturating => "|+|",
            Op::SubSaturating => "|-|",
            Op::Left => "<<",
            Op::Right => ">>",
            Op::Concat => "++",
            Op::Equal => "==",
            Op::Unequal => "!=",
            Op::Less => "<",
            Op::LessOrEqual => "<=",
            Op::Greater => ">",
            Op::GreaterOrEqual => ">=",
            Op::Both => "&&",
            Op::Either => "||",
        }
    }

    /// The result; `result` is its type, `ty` that of the left operand. Widths of arithmetic are below 127 bits.
    pub fn of(self, result: Type, (ty, a): (Type, u128), (of_right, b): (Type, u128)) -> u128 {
        let (x, y) = (ty.number(a), ty.number(b));
        let is = |truth: bool| u128::from(truth);
        result.cut(match self {
            Op::Add => a.wrapping_add(b),
            Op::Sub => a.wrapping_sub(b),
            Op::Mul => a.wrapping_mul(b),
            Op::Div => a / b,
            Op::Mod => a % b,
            Op::And => a & b,
            Op::Or => a | b,
            Op::Xor => a ^ b,
            Op::AddSaturating => ty.clamped(x + y),
            Op::SubSaturating => ty.clamped(x - y),
            Op::Left if b >= u128::from(ty.bits()) => 0,
            Op::Left => a << b,
            Op::Right => (x >> b.min(127)) as u128,
            Op::Concat => a << of_right.bits() | b,
            Op::Equal => is(a == b),
            Op::Unequal => is(a != b),
            Op::Less => is(x < y),
            Op::LessOrEqual => is(x <= y),
            Op::Greater => is(x > y),
            Op::GreaterOrEqual => is(x >= y),
            Op::Both => a & b,
            Op::Either => a | b,
        })
    }
}
