//! Graphviz text.

use super::{Graph, NodeKind};
use std::fmt::Write;

/// All graphs as clusters of one `digraph`.
pub fn write(graphs: &[Graph]) -> String {
    let mut out = String::from("digraph pipeline {\n  node [fontname=\"sans-serif\"];\n");
    for (g, graph) in graphs.iter().enumerate() {
        let _ = writeln!(out, "  subgraph cluster_{g} {{\n    label={};", quote(&graph.title));
        for (n, node) in graph.nodes.iter().enumerate() {
            let shape = match node.kind {
                NodeKind::Plain => "box",
                NodeKind::Table => "cylinder",
                NodeKind::Branch => "diamond",
                NodeKind::Terminal => "oval",
            };
            let label = quote(&node.lines.join("\n"));
            let _ = writeln!(out, "    g{g}n{n} [shape={shape}, label={label}];");
        }
        for edge in &graph.edges {
            let label = quote(&edge.label);
            let _ = writeln!(out, "    g{g}n{} -> g{g}n{} [label={label}];", edge.from, edge.to);
        }
        out.push_str("  }\n");
    }
    out.push_str("}\n");
    out
}

fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_what_dot_would_read() {
        let mut graph = Graph { title: "a \"b\"".into(), ..Graph::default() };
        let a = graph.node(NodeKind::Branch, vec!["x == 1".into(), "y".into()]);
        graph.edge(a, a, "back\\slash");
        let text = write(&[graph]);
        assert!(text.contains(r#"label="a \"b\"""#));
        assert!(text.contains(r#"label="x == 1\ny""#));
        assert!(text.contains(r#"g0n0 -> g0n0 [label="back\\slash"]"#));
    }
}
