//! Pipelines: tables, conditions and calls, a graph that becomes nested blocks.

use std::collections::{BTreeMap, HashMap};

use super::code::Code;
use super::flow::{END, Join, joins};
use super::json::{Json, Value};
use super::model::unknown;
use super::{Import, LEVELS_MAX};
use crate::diag::codes;
use crate::ir::SourceSpan;

/// Most levels of blocks at the end of a pipeline where some branches end early.
const ENDING_LEVELS: usize = 16;

/// A step of a pipeline.
struct Step<'j> {
    json: &'j Json,
    kind: Kind,
    /// Its successors: of a condition if true, if false; of a table by `branches`.
    next: Vec<usize>,
}

/// The kind of a step.
enum Kind {
    Condition,
    /// An action, by its place.
    Call(usize),
    /// A table, which has a name in P4.
    Table(String, Branches),
}

/// The successors of a table.
enum Branches {
    /// The same after every result.
    One(usize),
    /// Behind a hit and behind a miss.
    Hit(usize, usize),
    /// The successor of each action, by its name in P4.
    Actions(Vec<(String, usize)>),
}

/// The steps, and where their branches join.
struct Graph<'j> {
    steps: Vec<Step<'j>>,
    joins: Vec<Join>,
}

/// Steps that are written as one block: from one up to another.
#[derive(Clone, Copy)]
struct Part {
    first: usize,
    until: usize,
    depth: usize,
    /// The step around.
    place: SourceSpan,
}

impl Graph<'_> {
    /// Where the branches of a step join in a part. What ends the pipeline in blocks keeps them, `if (c) { rest }` and
    /// not `if (!c) { return; } rest`, up to a few levels.
    fn join(&self, at: usize, part: Part) -> usize {
        let join = self.joins[at];
        let keeps = join.alone && part.until == END && part.depth < ENDING_LEVELS;
        if keeps { END } else { join.at }
    }
}

impl<'j> Import<'j, '_> {
    /// The name of a pipeline's control: the prefix of the names of its tables, so that a name that must be changed
    /// gets the one of the source.
    pub(super) fn control_name(&mut self, name: &str) -> String {
        let all = self.reader.list(self.json, "pipelines");
        let found = all.iter().find(|one| one.text_of("name") == Some(name));
        let tables = found.map(|found| self.reader.list(found, "tables")).unwrap_or_default();
        let mut blocks = tables.iter().filter_map(|table| table.text_of("name")?.split_once('.'));
        let block = blocks.next().map_or(name, |(block, _)| block);
        self.model.names.fresh(block)
    }

    /// A pipeline: what it declares, and its statements.
    pub(super) fn pipeline(&mut self, name: &str, ident: &str, code: &mut Code) {
        let all = self.reader.list(self.json, "pipelines");
        let found = all.iter().find(|one| one.text_of("name") == Some(name));
        let span = found.map_or(self.json.span, |found| found.place("name"));
        let text = format!(
            "control {ident}(inout Headers hdr, inout Metadata meta, inout standard_metadata_t standard_metadata) {{"
        );
        code.put(&text, span);
        let mut body = Code::default();
        match found {
            Some(pipeline) => self.pipeline_body(pipeline, code, &mut body),
            None => _ = self.reader.error(span, format!("there is no pipeline `{name}`")),
        }
        code.put("apply {", span);
        code.append(body);
        code.put("} }", span);
    }

    fn pipeline_body(&mut self, pipeline: &'j Json, code: &mut Code, body: &mut Code) {
        let tables = self.reader.list(pipeline, "tables");
        // Actions first: a table names them, and several may name one.
        let mut actions: Vec<usize> = Vec::new();
        let mut listed: Vec<Vec<usize>> = Vec::new();
        for table in tables {
            let own = self.actions_of(table);
            for at in &own {
                let same = self.actions[*at].same;
                if !is_synthetic(table)
                    && !actions.contains(&same)
                    && !self.actions[same].is_no_action()
                {
                    actions.push(same);
                }
            }
            listed.push(own);
        }
        for at in actions {
            self.declare_action(at, tables, &listed, code);
        }
        let profiles = self.profiles(pipeline, code);
        let mut idents: Vec<Option<String>> = Vec::new();
        for (table, own) in tables.iter().zip(&listed) {
            idents.push(match is_synthetic(table) {
                true => None,
                false => self.table(table, own, &profiles, code),
            });
        }
        let Some((graph, first)) = self.graph(pipeline, tables, &listed, idents) else { return };
        let part = Part { first, until: END, depth: 0, place: pipeline.span };
        self.blocks(&graph, part, body);
    }

    fn declare_action(
        &mut self,
        at: usize,
        tables: &'j [Json],
        listed: &[Vec<usize>],
        code: &mut Code,
    ) {
        let action = &self.actions[at];
        let (name, ident, span) =
            (action.name.clone(), action.ident.clone(), action.json.place("name"));
        let is_empty =
            action.params.is_empty() && self.reader.list(action.json, "primitives").is_empty();
        let params: Vec<String> = action
            .params
            .iter()
            .zip(&action.names)
            .map(|((ident, bits), name)| match ident == name {
                true => format!("bit<{bits}> {ident}"),
                false => format!("@name({}) bit<{bits}> {ident}", super::names::quoted(name)),
            })
            .collect();
        // The meter of an entry is executed before its action.
        let mut meters: Vec<Option<&str>> = Vec::new();
        for (table, own) in tables.iter().zip(listed) {
            let meter = table.text_of("direct_meters");
            if own.iter().any(|one| self.actions[*one].same == at) && !meters.contains(&meter) {
                meters.push(meter);
            }
        }
        let mut by = tables.iter().zip(listed).filter(|(table, own)| {
            !is_synthetic(table) && own.iter().any(|one| self.actions[*one].same == at)
        });
        let hidden = match by.all(|(table, _)| self.is_hidden(table)) {
            true => "@hidden ",
            false => "",
        };
        let text = format!(
            "{hidden}@name({}) action {ident}({}) {{",
            super::names::quoted(&format!(".{name}")),
            params.join(", ")
        );
        code.put(&text, span);
        match meters.as_slice() {
            [Some(meter)] => {
                let found = self.objects.direct_meters.get(*meter).cloned();
                if let Some(found) = found
                    && let Some(target) = found.target
                {
                    code.put(&format!("{}.read({target});", found.ident), span);
                }
            }
            [] | [None] => {}
            _ if is_empty => {}
            _ => {
                let text = format!(
                    "the action `{name}` is used by a table with a meter and by others: that is not supported"
                );
                self.reader.unsupported::<()>(span, text);
            }
        }
        let body = self.action_body(at);
        code.append(body);
        code.put("}", span);
    }

    /// A table that p4c generated for a `switch`, with its actions: no name for the control plane.
    pub(super) fn is_hidden(&self, table: &Json) -> bool {
        let name = table.text_of("name").unwrap_or_default();
        let mut given = self.described.iter().flat_map(|info| &info.tables);
        name.starts_with("switch_")
            && name.ends_with("_table")
            && !name.contains('.')
            && table.get("entries").is_some()
            && !given.any(|one| one.preamble.name == name)
    }

    /// The steps of a pipeline, and the first of them.
    fn graph(
        &mut self,
        pipeline: &'j Json,
        tables: &'j [Json],
        listed: &[Vec<usize>],
        idents: Vec<Option<String>>,
    ) -> Option<(Graph<'j>, usize)> {
        let conditions = self.reader.list(pipeline, "conditionals");
        let calls = self.reader.list(pipeline, "action_calls");
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        for (at, one) in tables.iter().chain(conditions).chain(calls).enumerate() {
            let name = self.reader.text_at(one, "name")?;
            if numbers.insert(name, at).is_some() {
                let text = format!("`{}` is in this pipeline twice", crate::syntax::shown(name));
                return self.reader.report.refuse(codes::TWICE, one.place("name"), text);
            }
        }
        let mut steps = Vec::new();
        for ((table, own), ident) in tables.iter().zip(listed).zip(idents) {
            steps.push(self.table_step(table, own, ident, &numbers)?);
        }
        for one in conditions {
            let yes = self.next(one.get("true_next"), &numbers)?;
            let no = self.next(one.get("false_next"), &numbers)?;
            steps.push(Step { json: one, kind: Kind::Condition, next: vec![yes, no] });
        }
        for one in calls {
            let action = self.reader.need(one, "action_id")?;
            let action = self.action_by_id(action)?;
            let next = self.next(one.get("next_node"), &numbers)?;
            steps.push(Step { json: one, kind: Kind::Call(action), next: vec![next] });
        }
        let first = self.next(pipeline.get("init_table"), &numbers)?;
        let next: Vec<Vec<usize>> = steps.iter().map(|step| step.next.clone()).collect();
        match joins(&next, first) {
            Ok(joins) => Some((Graph { steps, joins }, first)),
            Err(step) => {
                let span = steps.get(step).map_or(pipeline.span, |step| step.json.place("name"));
                self.reader.refuse(
                    span,
                    "this pipeline comes back to this step: a packet would never leave",
                )
            }
        }
    }

    fn next(&mut self, json: Option<&Json>, numbers: &HashMap<&str, usize>) -> Option<usize> {
        let Some(json) = json else { return Some(END) };
        let name = self.reader.text(json)?;
        numbers.get(name).copied().or_else(|| {
            let known = numbers.keys().copied();
            unknown(&mut self.reader, json.span, "step of the pipeline", name, known)
        })
    }

    fn table_step(
        &mut self,
        table: &'j Json,
        own: &[usize],
        ident: Option<String>,
        numbers: &HashMap<&str, usize>,
    ) -> Option<Step<'j>> {
        let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
        if let Some(next) = table.get("next_tables") {
            let Value::Object(pairs) = &next.value else {
                return self.reader.refuse(next.span, "`next_tables` is an object");
            };
            for (name, to) in pairs {
                let to = (!matches!(to.value, Value::Null)).then_some(to);
                by_name.insert(name, self.next(to, numbers)?);
            }
        }
        let base = self.next(table.get("base_default_next"), numbers)?;
        let of = |name: &str| by_name.get(name).copied();
        let branches = match (of("__HIT__"), of("__MISS__")) {
            (None, None) => {
                let mut to: Vec<(String, usize)> = Vec::new();
                for at in own {
                    let action = &self.actions[*at];
                    to.push((action.ident.clone(), of(&action.name).unwrap_or(base)));
                }
                match to.first() {
                    None => Branches::One(base),
                    Some((_, first)) if to.iter().all(|(_, other)| other == first) => {
                        Branches::One(*first)
                    }
                    Some(_) => Branches::Actions(to),
                }
            }
            (hit, miss) => {
                let (hit, miss) = (hit.unwrap_or(base), miss.unwrap_or(base));
                if hit == miss { Branches::One(hit) } else { Branches::Hit(hit, miss) }
            }
        };
        let next = match &branches {
            Branches::One(next) => vec![*next],
            Branches::Hit(hit, miss) => vec![*hit, *miss],
            Branches::Actions(to) => to.iter().map(|(_, to)| *to).collect(),
        };
        let kind = match (ident, own) {
            (Some(ident), _) => Kind::Table(ident, branches),
            (None, [action]) if is_synthetic(table) => Kind::Call(*action),
            _ => return None,
        };
        Some(Step { json: table, kind, next })
    }

    /// The steps of a part as statements.
    fn blocks(&mut self, graph: &Graph<'j>, part: Part, code: &mut Code) {
        if part.depth > LEVELS_MAX {
            let why = format!("branches are nested deeper than {LEVELS_MAX} levels");
            code.refuse(part.place, why);
        }
        let mut at = part.first;
        while at != part.until && at != END && code.refused.is_none() {
            let Some(step) = graph.steps.get(at) else { return };
            let place = step.json.place("name");
            let join = graph.join(at, part);
            let inner = Part { first: at, until: join, depth: part.depth + 1, place };
            match &step.kind {
                Kind::Call(action) => {
                    let body = self.action_body(*action);
                    code.put("{", place);
                    code.append(body);
                    code.put("}", place);
                }
                Kind::Condition => self.condition(graph, inner, code),
                Kind::Table(ident, branches) => {
                    self.apply(graph, (ident, branches, step.json), inner, code);
                }
            }
            at = join;
        }
        // A branch that ends before the others join.
        if at != part.until {
            code.put("return;", part.place);
        }
    }

    /// An `if`, and those that are the whole `else` of the one before: a chain of them is one level deep.
    fn condition(&mut self, graph: &Graph<'j>, mut part: Part, code: &mut Code) {
        let mut at = part.first;
        while let Some(step) = graph.steps.get(at) {
            let Some(expression) = self.reader.need(step.json, "expression") else { return };
            let mut translator = self.translator();
            let read = translator.read(expression);
            let Some(text) = read.and_then(|value| translator.truth(value, expression.span)) else {
                return;
            };
            part.place = step.json.place("name");
            code.put(&format!("if ({text}) {{"), part.place);
            self.blocks(graph, Part { first: step.next[0], ..part }, code);
            at = step.next[1];
            if at == part.until || code.refused.is_some() {
                return code.put("}", part.place);
            }
            let other = graph.steps.get(at).map(|step| &step.kind);
            if !matches!(other, Some(Kind::Condition)) || graph.join(at, part) != part.until {
                code.put("} else {", part.place);
                self.blocks(graph, Part { first: at, ..part }, code);
                return code.put("}", part.place);
            }
            code.put("} else", part.place);
            // One that could be flat instead counts.
            part.depth += usize::from(graph.joins[at].alone);
        }
    }

    /// The application of a table. A statement that stands alone has one place for all of its parts, by which lowering
    /// recognises it.
    fn apply(
        &mut self,
        graph: &Graph<'j>,
        (ident, branches, json): (&str, &Branches, &'j Json),
        part: Part,
        code: &mut Code,
    ) {
        let (whole, name): (SourceSpan, SourceSpan) = (json.span, part.place);
        match branches {
            Branches::One(_) => code.put(&format!("{ident}.apply();"), name),
            Branches::Hit(hit, miss) => {
                code.put("if (", whole);
                code.put(&format!("{ident}.apply()"), name);
                code.put(".hit) {", name);
                self.blocks(graph, Part { first: *hit, ..part }, code);
                code.put("} else {", name);
                self.blocks(graph, Part { first: *miss, ..part }, code);
                code.put("}", name);
            }
            Branches::Actions(to) => {
                code.put("switch (", whole);
                code.put(&format!("{ident}.apply().action_run) {{"), name);
                // One block for all actions with one successor.
                let mut groups: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
                for (action, next) in to.iter().filter(|(_, next)| *next != part.until) {
                    let group = groups.entry(*next).or_default();
                    if !group.contains(&action.as_str()) {
                        group.push(action);
                    }
                }
                for (next, actions) in groups {
                    code.put(&format!("{}: {{", actions.join(": ")), name);
                    self.blocks(graph, Part { first: next, ..part }, code);
                    code.put("}", name);
                }
                code.put("}", name);
            }
        }
    }
}

/// A table that p4c generated for a call of an action: no key, one constant action, and no name for the control plane.
pub(super) fn is_synthetic(table: &Json) -> bool {
    let empty = |key: &str| match table.get(key) {
        Some(Json { value: Value::List(items), .. }) => items.is_empty(),
        other => other.is_none(),
    };
    let one_action = matches!(table.get("actions"), Some(Json { value: Value::List(items), .. }) if items.len() == 1);
    let name = table.text_of("name").unwrap_or_default();
    empty("key")
        && one_action
        && name.starts_with("tbl_")
        && !name.contains('.')
        && table.get("default_entry").is_some_and(|entry| entry.is("action_const"))
}
