//! Expressions: pure, typed, unsigned, wrapping at their width.
//!
//! A tree in one arena per program. The width of every node is stored with it; operands of an
//! arithmetic, bitwise or comparison node have equal widths (the lowering inserts casts), so an
//! engine never guesses. A boolean is one bit. Every node costs a bounded and
//! small number of instructions; only `%` by a value that is not a power of two costs a division.

use super::SourceSpan;
use super::std_meta::StdField;
use crate::ids::*;

/// An expression with its width.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expr {
    /// The operation.
    pub kind: ExprKind,
    /// Width of the value, 1 to 128.
    pub bits: u32,
    /// Its place in the source.
    pub span: Option<SourceSpan>,
}

/// The operation of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExprKind {
    /// A constant, less than `2^bits`.
    Const(u128),
    /// A field; 0 when the header is not valid.
    Field(InstanceId, FieldId),
    /// An element of an array field; 0 when the header is not valid. An index out of range makes
    /// the packet drop with reason `array_index`.
    Element {
        /// Header.
        instance: InstanceId,
        /// Array field.
        field: FieldId,
        /// Index of the element.
        index: ExprId,
    },
    /// A field of the last valid element of a stack; 0 when the stack is empty.
    StackLast(StackId, FieldId),
    /// How many elements of the stack are valid (32 bits).
    StackDepth(StackId),
    /// Whether the header is valid.
    Valid(InstanceId),
    /// User metadata.
    Meta(MetaId),
    /// Intrinsic metadata.
    Std(StdField),
    /// A local of the body: an action parameter, a `let`, a register cell under update.
    Local(LocalId),
    /// `bits` bits of the packet from `offset_bits` beyond the parser's cursor; beyond the end of
    /// the packet is the parser error `packet_too_short`. Parser only.
    Lookahead {
        /// Distance from the cursor in bits.
        offset_bits: u32,
    },
    /// Bytes from the start of the packet to the cursor (32 bits). Parser only.
    Cursor,
    /// Bytes of the current header, including its variable part (32 bits; 0 if it is not valid).
    HeaderLength(InstanceId),
    /// The bytes of a variable part, or of a field over 128 bits; none when the header is not valid. Operand of a hash
    /// only, where all of its bytes count; its width is unused.
    Bytes(InstanceId, FieldId),
    /// The body of the packet, likewise.
    Body,
    /// Whether two such fields have the same bytes.
    SameBytes((InstanceId, FieldId), (InstanceId, FieldId)),
    /// One operand.
    Unary(UnOp, ExprId),
    /// Two operands.
    Binary(BinOp, ExprId, ExprId),
    /// `value[high:low]`, bits 0 the lowest.
    Slice {
        /// The value.
        value: ExprId,
        /// Highest bit.
        high: u32,
        /// Lowest bit.
        low: u32,
    },
    /// High part, low part.
    Concat(ExprId, ExprId),
    /// Zero-extend or truncate to this node's width.
    Cast(ExprId),
    /// `condition ? then : otherwise`, both pure.
    Mux(ExprId, ExprId, ExprId),
    /// A hash over the operands, each in whole bytes, network order, in the order written.
    Hash(HashAlgorithm, Vec<ExprId>),
}

/// Operators of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnOp {
    /// Logical not, of one bit.
    Not,
    /// Every bit inverted.
    Complement,
    /// Two's complement.
    Negate,
}

/// Operators of two operands. Shifts take any right operand; a shift by the width or more gives 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinOp {
    /// `+`, wrapping.
    Add,
    /// `-`, wrapping.
    Sub,
    /// `*`, wrapping.
    Mul,
    /// `%`; the remainder of a division by 0 is 0.
    Rem,
    /// `|+|`, saturating.
    SatAdd,
    /// `|-|`, saturating.
    SatSub,
    /// `&`.
    And,
    /// `|`.
    Or,
    /// `^`.
    Xor,
    /// `<<`.
    Shl,
    /// `>>`, logical.
    Shr,
    /// `==`, one bit.
    Eq,
    /// `!=`, one bit.
    Ne,
    /// `<`, unsigned, one bit.
    Lt,
    /// `<=`, unsigned, one bit.
    Le,
    /// `signed(a) < signed(b)`, one bit.
    SignedLt,
    /// `signed(a) <= signed(b)`, one bit.
    SignedLe,
    /// `&&` of one bit, the right side evaluated only if needed.
    LogicalAnd,
    /// `||` of one bit, the right side evaluated only if needed.
    LogicalOr,
}

impl BinOp {
    /// True when the result is one bit whatever the operands are.
    pub fn is_boolean(self) -> bool {
        use BinOp::*;
        matches!(self, Eq | Ne | Lt | Le | SignedLt | SignedLe | LogicalAnd | LogicalOr)
    }

    /// The operator as it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            BinOp::Add => "+",
            BinOp::Sub => "-",
            BinOp::Mul => "*",
            BinOp::Rem => "%",
            BinOp::SatAdd => "|+|",
            BinOp::SatSub => "|-|",
            BinOp::And => "&",
            BinOp::Or => "|",
            BinOp::Xor => "^",
            BinOp::Shl => "<<",
            BinOp::Shr => ">>",
            BinOp::Eq => "==",
            BinOp::Ne => "!=",
            BinOp::Lt => "<",
            BinOp::Le => "<=",
            BinOp::SignedLt => "<s",
            BinOp::SignedLe => "<=s",
            BinOp::LogicalAnd => "&&",
            BinOp::LogicalOr => "||",
        }
    }
}

/// Hash functions of the language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashAlgorithm {
    /// CRC-16/ARC (poly 0x8005 reflected), 16 bits.
    Crc16,
    /// CRC-32/ISO-HDLC, 32 bits.
    Crc32,
    /// Ones'-complement sum of 16-bit words, inverted (RFC 1071), 16 bits.
    Csum16,
    /// Toeplitz with the 40-byte key of Microsoft's RSS verification suite, repeated; 32 bits.
    Toeplitz,
    /// All operands concatenated, low bits kept, 64 bits.
    Identity,
    /// Exclusive or of the 16-bit words of the operands, 16 bits.
    Xor16,
}

impl HashAlgorithm {
    /// Every algorithm with its name in the language.
    pub const ALL: [(&'static str, HashAlgorithm); 6] = [
        ("crc16", HashAlgorithm::Crc16),
        ("crc32", HashAlgorithm::Crc32),
        ("csum16", HashAlgorithm::Csum16),
        ("toeplitz", HashAlgorithm::Toeplitz),
        ("identity", HashAlgorithm::Identity),
        ("xor16", HashAlgorithm::Xor16),
    ];

    /// Width of the result in bits.
    pub fn bits(self) -> u32 {
        match self {
            HashAlgorithm::Crc32 | HashAlgorithm::Toeplitz => 32,
            HashAlgorithm::Crc16 | HashAlgorithm::Csum16 | HashAlgorithm::Xor16 => 16,
            HashAlgorithm::Identity => 64,
        }
    }
}
