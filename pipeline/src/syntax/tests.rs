use super::*;
use crate::ast::{Ast, AstBin, Path};
use crate::ids::{FileId, Id};

fn text(text: &str) -> Text<'_> {
    let whole = SourceSpan { file: FileId::new(0), start: 100, end: 100 + text.len() as u32 };
    Text { text, whole, start: Some(100) }
}

/// The tree as a fully bracketed text.
fn shape(expression: &AstExpr) -> String {
    let list = |items: &[AstExpr]| items.iter().map(shape).collect::<Vec<_>>().join(", ");
    match &expression.value {
        Ast::Number { value, bits: None } => value.to_string(),
        Ast::Number { value, bits: Some(bits) } => format!("{bits}w{value:x}"),
        Ast::Bool(value) => value.to_string(),
        Ast::Path(path) => path_shape(path),
        Ast::Unary(op, a) => format!("({op:?} {})", shape(a)),
        Ast::Binary(op, a, b) => format!("({} {op:?} {})", shape(a), shape(b)),
        Ast::Slice { value, high, low } => {
            format!("{}[{}:{}]", shape(value), shape(high), shape(low))
        }
        Ast::Cast(bits, value) => format!("bit<{}>({})", bits.value, shape(value)),
        Ast::Signed(value) => format!("signed({})", shape(value)),
        Ast::Mux(c, a, b) => format!("({} ? {} : {})", shape(c), shape(a), shape(b)),
        Ast::Named(name, value) => format!("{} = {}", name.value, shape(value)),
        Ast::Call(name, arguments) => format!("{}({})", name.value, list(arguments)),
    }
}

fn path_shape(path: &Path) -> String {
    let mut out = String::new();
    for part in &path.parts {
        match part {
            PathPart::Name(name) if out.is_empty() => out.push_str(&name.value),
            PathPart::Name(name) => out.push_str(&format!(".{}", name.value)),
            PathPart::Index(index) => out.push_str(&format!("[{}]", shape(index))),
        }
    }
    out
}

fn read(source: &str) -> String {
    match expression(text(source)) {
        Ok(found) => shape(&found),
        Err(error) => format!("{}..{}: {}", error.span.start, error.span.end, error.message),
    }
}

#[test]
fn precedence_is_that_of_the_reference() {
    let cases = [
        ("a + b * c", "(a Add (b Mul c))"),
        ("a - b - c", "((a Sub b) Sub c)"),
        ("a << 1 + 2", "(a Shl (1 Add 2))"),
        ("a ++ b << 1", "(a Concat (b Shl 1))"),
        ("a & b ++ c", "(a And (b Concat c))"),
        ("a ^ b & c", "(a Xor (b And c))"),
        ("a | b ^ c", "(a Or (b Xor c))"),
        ("a == b | c", "(a Eq (b Or c))"),
        ("a && b == c", "(a LogicalAnd (b Eq c))"),
        ("a || b && c", "(a LogicalOr (b LogicalAnd c))"),
        ("a || b ? c : d ? e : f", "((a LogicalOr b) ? c : (d ? e : f))"),
        ("!a.valid && ~b == -c", "((Not a.valid) LogicalAnd ((Complement b) Eq (Negate c)))"),
        ("-a[7:0]", "(Negate a[7:0])"),
        ("a |+| b |-| c", "((a SatAdd b) SatSub c)"),
        ("(a + b)[15:0][7:4]", "(a Add b)[15:0][7:4]"),
        ("bit<16>(x) >> 2", "(bit<16>(x) Shr 2)"),
        ("signed(a) < signed(b)", "(signed(a) Lt signed(b))"),
        ("hash(crc32, a.b, c[1].d)", "hash(crc32, a.b, c[1].d)"),
        ("smp.path[meta.i + 1]", "smp.path[(meta.i Add 1)]"),
        ("vlan.last.vid", "vlan.last.vid"),
        ("a>b", "(a Gt b)"),
        ("random(0, 3)", "random(0, 3)"),
    ];
    for (source, tree) in cases {
        assert_eq!(read(source), tree, "{source}");
    }
}

#[test]
fn numbers_and_addresses() {
    let cases = [
        ("0x2A", "42"),
        ("0b101010", "42"),
        ("1_000", "1000"),
        ("8w42", "8w2a"),
        ("128w0xffffffffffffffffffffffffffffffff", "128wffffffffffffffffffffffffffffffff"),
        ("02:00:00:00:00:01", "48w20000000001"),
        ("aa:bb:cc:dd:ee:0f", "48waabbccddee0f"),
        ("10.0.0.1", "32wa000001"),
        ("ff02::1", "128wff020000000000000000000000000001"),
        ("::", "128w0"),
        ("::ffff:10.0.0.1", "128wffff0a000001"),
        ("1:2:3:4:5:6:7:8", "128w10002000300040005000600070008"),
        ("c ? 1:2", "(c ? 1 : 2)"),
        ("x[7:0]", "x[7:0]"),
        ("c ? ab:cd", "(c ? ab : cd)"),
    ];
    for (source, tree) in cases {
        assert_eq!(read(source), tree, "{source}");
    }
    let wrong = [
        ("0xzz", "100..104: `0xzz` is not a number"),
        ("a + 010", "104..107: `010` is not a number"),
        ("4w16", "100..104: 16 does not fit in 4 bits"),
        ("0w1", "100..101: `0` is not a width"),
        ("129w1", "100..103: `129` is not a width"),
        ("1.5", "100..102: `1.` begins a fraction, and numbers are whole"),
        ("10.100.0/24", "100..108: `10.100.0` is not an IPv4 address"),
        ("256.0.0.1", "100..109: `256.0.0.1` is not an IPv4 address"),
        ("02:00:00:00:00:1", "100..116: `02:00:00:00:00:1` is not a MAC or IPv6 address"),
        ("02:00:00:00:00:0g", "100..117: `02:00:00:00:00:0g` is not a MAC or IPv6 address"),
        ("1::2::3", "100..107: `1::2::3` is not a MAC or IPv6 address"),
        (
            "0x1ffffffffffffffffffffffffffffffff",
            "100..135: `0x1ffffffffffffffffffffffffffffffff` is not a number",
        ),
    ];
    for (source, error) in wrong {
        assert_eq!(read(source), error, "{source}");
    }
}

#[test]
fn errors_point_at_the_sign_and_say_what_was_expected() {
    let cases = [
        ("a +", "103..103: expected an operand after `+`"),
        ("a + * b", "104..105: expected an operand after `+`, found `*`"),
        ("", "100..100: expected an operand, found nothing"),
        ("a b", "102..103: expected an operator or the end of the expression after `a`, found `b`"),
        ("(a", "102..102: expected `)` after `a`"),
        ("f(a b)", "104..105: expected `,` or `)` after `a`, found `b`"),
        ("a < b < c", "106..107: comparisons do not chain"),
        (
            "a / b",
            "102..103: expected an operator or the end of the expression after `a`, found `/`",
        ),
        ("é", "100..102: unexpected character `é`"),
        ("a.", "102..102: expected a name after `.`"),
        ("(a)[3]", "105..106: expected `:` after `3`, found `]`"),
        ("c ? a", "105..105: expected `:` after `a`"),
        ("bit<0>(x)", "104..105: expected a width of 1 to 128 bits after `<`, found `0`"),
    ];
    for (source, error) in cases {
        assert_eq!(read(source), error, "{source}");
    }
}

#[test]
fn a_changed_text_points_at_the_whole_scalar() {
    let whole = SourceSpan { file: FileId::new(3), start: 7, end: 30 };
    let error = expression(Text { text: "a +", whole, start: None }).expect_err("no operand");
    assert_eq!(error.span, whole);
}

#[test]
fn statements() {
    let assign = statement(text("ipv4.id[7:0] = a + 1")).expect("reads");
    let StmtKind::Assign(path, Some((high, low)), value) = assign else { panic!("{assign:?}") };
    assert_eq!(path.value.plain().as_deref(), Some("ipv4.id"));
    assert_eq!(
        (shape(&high), shape(&low), shape(&value)),
        ("7".into(), "0".into(), "(a Add 1)".into())
    );
    let StmtKind::Assign(path, None, _) = statement(text("flow[i].last = 1")).expect("reads")
    else {
        panic!("an assignment")
    };
    assert_eq!(path_shape(&path.value), "flow[i].last");
    assert!(matches!(statement(text("drop")), Ok(StmtKind::Drop(None))));
    assert!(
        matches!(statement(text("drop late")), Ok(StmtKind::Drop(Some(r))) if r.value == "late")
    );
    assert!(matches!(statement(text("punt arp")), Ok(StmtKind::Punt(Some(_)))));
    assert!(matches!(statement(text("exit")), Ok(StmtKind::Exit)));
    assert!(
        matches!(statement(text("route(3, 02:00:00:00:00:01)")), Ok(StmtKind::Call(_, a)) if a.len() == 2)
    );
    assert!(matches!(statement(text("let x = 1")), Ok(StmtKind::Let(..))));
    let help = |source: &str| statement(text(source)).expect_err(source).help.unwrap_or_default();
    assert!(help("a = a * 1.5").contains("`x >> 1` is a half of `x`"));
    assert!(help("a.b == 1").contains("`=` assigns"));
    assert!(help("a += 1").contains("`x = x + ..`"));
    assert!(help("a.b").contains("assigns"));
    assert!(help("a = 1;").contains("without `;`"));
}

#[test]
fn patterns_and_slices() {
    let kind = |source: &str| pattern(text(source)).map(|found| found.value);
    assert!(matches!(kind("_"), Ok(PatternDecl::Any)));
    assert!(matches!(kind("@known"), Ok(PatternDecl::Set(name)) if name.value == "known"));
    assert!(matches!(kind("0x0600 &&& 0xff00"), Ok(PatternDecl::Mask(..))));
    assert!(matches!(kind("1..5"), Ok(PatternDecl::Range(..))));
    assert!(matches!(kind("10.0.0.1..10.0.0.9"), Ok(PatternDecl::Range(..))));
    assert!(matches!(kind("ff02::1..ff02::9"), Ok(PatternDecl::Range(..))));
    assert!(matches!(kind("::/0"), Ok(PatternDecl::Prefix(_, length)) if length.value == 0));
    assert!(matches!(kind("10.0.0.0/8"), Ok(PatternDecl::Prefix(_, length)) if length.value == 8));
    assert!(matches!(kind("A | 1"), Ok(PatternDecl::Value(_))));
    assert!(kind("10.0.0.0/129").is_err());
    assert!(kind("1..").is_err());
    let slice = word_slice(text(" w2[11:8] ")).expect("reads");
    assert_eq!(slice.value, WordSlice { word: 2, high: 11, low: 8 });
    assert_eq!((slice.span.start, slice.span.end), (101, 109));
    assert_eq!(word_slice(text("w0[3]")).expect("reads").value.low, 3);
    for wrong in ["w2[8:11]", "w[1]", "2[1]", "w1[1:]", "w1", "w99999999999[0]"] {
        assert!(word_slice(text(wrong)).is_err(), "{wrong}");
    }
}

#[test]
fn names_targets_cells_counts() {
    assert_eq!(target(text("reject( bad_ihl )")).expect("reads").value, "reject(bad_ihl)");
    assert!(target(text("reject()")).is_err());
    assert!(name(text("a.b")).is_err());
    assert!(name(text("true")).is_err());
    assert_eq!(name_in_library(text("ip.parser")).expect("reads").value, "ip.parser");
    assert!(cell(text("flow[a + 1]")).is_ok());
    assert!(cell(text("flow")).is_err());
    assert_eq!(count(text("0x10")).expect("reads").value, 16);
    assert!(count(text("-1")).is_err());
    let fraction = count(text("2.5")).expect_err("a fraction");
    assert_eq!(
        (fraction.message.as_str(), fraction.help),
        ("expected a whole number, found `2.5`", None)
    );
    assert_eq!(expression(text("2.5")).expect_err("a fraction").help, None);
    assert!(count(text("8w1")).is_err());
    assert!(count(text("99999999999999999999")).is_err());
}

#[test]
fn nesting_and_length_are_limited() {
    for deep in ["(".repeat(5000), "!".repeat(400), "-".repeat(400), "a[".repeat(200)] {
        let error = expression(text(&deep)).expect_err("too deep");
        assert_eq!(error.code, codes::LIMIT, "{}", error.message);
    }
    let long = vec!["a"; 1100].join(" + ");
    assert_eq!(expression(text(&long)).expect_err("too long").code, codes::LIMIT);
    let fits = vec!["a"; 1000].join(" + ");
    let mut tree = expression(text(&fits)).expect("reads");
    let mut depth = 0;
    while let Ast::Binary(AstBin::Add, left, _) = tree.value {
        tree = *left;
        depth += 1;
    }
    assert_eq!(depth, 999);
}
