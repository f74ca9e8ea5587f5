//! Annotations that P4Info repeats, and those of `main`.

use super::super::tree::*;
use super::super::types::Const;
use super::ids::{number_of, text_of};
use super::walk::Walk;
use super::{Doc, Literal, Preamble, Structured};

/// Annotations for which P4Info has fields of their own.
const KNOWN: [&str; 4] = ["name", "id", "brief", "description"];

/// Annotations as text, but those that are known everywhere or to the entity.
pub(super) fn others(all: &[Annotation], known: &[&str]) -> Vec<String> {
    let is_other = |one: &&Annotation| {
        let name = &*one.name.value;
        !one.structured && !KNOWN.contains(&name) && !known.contains(&name)
    };
    let text = |one: &Annotation| match one.text.is_empty() {
        true => format!("@{}", one.name.value),
        false => format!("@{}({})", one.name.value, one.text),
    };
    all.iter().filter(is_other).map(text).collect()
}

/// `@brief` and `@description`.
pub(super) fn documentation(all: &[Annotation]) -> Option<Doc> {
    let [brief, description] = ["brief", "description"].map(|name| text_of(all, name));
    let is_there = brief.is_some() || description.is_some();
    let text = Option::unwrap_or_default;
    is_there.then(|| Doc { brief: text(brief), description: text(description) })
}

/// `a = "x", b = 1`: the values without their quotes, which may have commas between them.
fn pairs(text: &str) -> Vec<(String, String)> {
    let (mut quoted, mut escaped) = (false, false);
    let parts = text.split(|c: char| {
        quoted ^= c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        c == ',' && !quoted
    });
    let plain = |value: &str| value.trim().trim_matches('"').replace("\\\"", "\"");
    parts
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.trim().to_owned(), plain(value)))
        .collect()
}

impl Walk<'_> {
    /// `@name[..]`.
    pub(super) fn structured(
        &self,
        all: &[Annotation],
        known: &[&str],
    ) -> Vec<(String, Structured)> {
        let value = |one: &Annotation| {
            let named = one.args.iter().all(|arg| arg.name.is_some()) && !one.args.is_empty();
            let pair =
                |arg: &Arg| Some((arg.name.as_ref()?.value.to_string(), self.literal(&arg.value)));
            match named {
                true => Structured::Pairs(one.args.iter().filter_map(pair).collect()),
                false => {
                    Structured::List(one.args.iter().map(|arg| self.literal(&arg.value)).collect())
                }
            }
        };
        let all = all.iter().filter(|one| one.structured);
        let all = all.filter(|one| !known.contains(&&*one.name.value));
        all.map(|one| (one.name.value.to_string(), value(one))).collect()
    }

    fn literal(&self, expr: &Expr) -> Literal {
        let number = |value: &num_bigint::BigInt| i64::try_from(value).unwrap_or_default();
        match (self.checked.consts.get(&expr.id), &*expr.kind) {
            (Some(Const::Int(value)), _) | (None, ExprKind::Number(value, _)) => {
                Literal::Number(number(value))
            }
            (Some(Const::Bool(flag)), _) | (None, ExprKind::Bool(flag)) => Literal::Flag(*flag),
            (Some(Const::Text(text)), _) | (None, ExprKind::Text(text)) => {
                Literal::Text(text.to_string())
            }
            _ => Literal::Number(0),
        }
    }

    /// Names of an entity; alias and id come when all are known.
    pub(super) fn preamble(
        &self,
        name: String,
        annotations: &[Annotation],
        known: &[&str],
    ) -> Preamble {
        let id = number_of(annotations, "id");
        Preamble {
            name,
            alias: String::new(),
            id: id.unwrap_or_default() & 0x00ff_ffff,
            pinned: id.is_some(),
            doc: documentation(annotations),
            annotations: others(annotations, known),
            structured: self.structured(annotations, known),
        }
    }

    /// The annotations of the package at `main`.
    pub(super) fn package_annotations(&mut self, main: &Decl) {
        let known = ["pkginfo", "platform_property"];
        for one in main.annotations.iter() {
            let pairs = match one.structured {
                true => one
                    .args
                    .iter()
                    .filter_map(|arg| {
                        let value = match self.literal(&arg.value) {
                            Literal::Text(text) => text,
                            Literal::Number(number) => number.to_string(),
                            Literal::Flag(flag) => flag.to_string(),
                        };
                        Some((arg.name.as_ref()?.value.to_string(), value))
                    })
                    .collect(),
                false => pairs(&one.text),
            };
            match &*one.name.value {
                "pkginfo" => self.info.package.extend(pairs),
                "platform_property" => {
                    let pairs = pairs.into_iter();
                    let numbers =
                        pairs.filter_map(|(name, value)| Some((name, value.parse().ok()?)));
                    self.info.platform.extend(numbers);
                }
                _ => {}
            }
        }
        if let Some(arch) = self.info.package.remove("arch") {
            self.info.arch = arch;
        }
        self.info.package_annotations = others(&main.annotations, &known);
        self.info.package_structured = self.structured(&main.annotations, &known);
    }
}
