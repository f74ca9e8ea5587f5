//! The files that a scenario names: flows, distributions of sizes, topologies.
//!
//! They are read before the scenario: their errors are shown as in every other file, so they are among the files of the
//! diagnostics.

use std::path::Path;

use wireyard_pipeline::ast::Sp;
use wireyard_pipeline::diag::safe::shown;
use wireyard_pipeline::diag::{Files, codes};
use wireyard_pipeline::ids::FileId;
use wireyard_pipeline::ir::{SourceFile, SourceSpan};
use wireyard_pipeline::source::decode::Decoder;
use wireyard_pipeline::source::node::{Node, NodeKind};
use wireyard_pipeline::source::{DATA_BYTES_MAX, Loader, ReadError};

use crate::lab::workload::Sizes;

/// The files that a scenario names, by the place of the name.
#[derive(Default)]
pub(super) struct Sheets(Vec<(SourceSpan, Result<FileId, String>)>);

impl Sheets {
    /// Reads every `file` and file of `sizes` below `flows`, and that of the topology.
    pub(super) fn read(scenario: &Node, folder: &Path, loader: &Loader, files: &mut Files) -> Self {
        let flows = child(scenario, "flows");
        let items = flows.map_or(&[][..], |flows| match &flows.kind {
            NodeKind::List(items) => items,
            _ => std::slice::from_ref(flows),
        });
        let sizes = |item| child(item, "sizes").filter(|node| is_file(node));
        let names = items.iter().flat_map(|item| [child(item, "file"), sizes(item)]);
        let topology = child(scenario, "topology").and_then(|node| child(node, "file"));
        Sheets(
            names
                .chain([topology])
                .flatten()
                .filter_map(|node| Some((node.span, sheet(node, folder, loader, files)?)))
                .collect(),
        )
    }

    /// The file that is named here; a read error is reported.
    pub(super) fn text_of(&self, decoder: &mut Decoder<'_>, node: &Node) -> Option<FileId> {
        match self.0.iter().find(|(place, _)| *place == node.span).map(|(_, sheet)| sheet)? {
            Ok(id) => Some(*id),
            Err(problem) => decoder.refuse(codes::FILE_NOT_READ, node.span, problem.clone()),
        }
    }
}

/// True for a name that is not that of a built-in distribution.
pub(super) fn is_file(node: &Node) -> bool {
    matches!(&node.kind, NodeKind::Scalar(name) if Sizes::named(&name.text).is_none())
}

fn child<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    let NodeKind::Map(map) = &node.kind else { return None };
    map.pairs.iter().find(|(known, _)| known.scalar.text == key).map(|(_, node)| node)
}

fn sheet(
    node: &Node,
    folder: &Path,
    loader: &Loader,
    files: &mut Files,
) -> Option<Result<FileId, String>> {
    let NodeKind::Scalar(name) = &node.kind else { return None };
    let path = folder.join(&name.text);
    let text = loader.read(&path, DATA_BYTES_MAX).map_err(|error| why(&error));
    let text = text.and_then(|bytes| {
        String::from_utf8(bytes).map_err(|_| "it is no text in UTF-8".to_owned())
    });
    Some(match text {
        Ok(text) => Ok(files.push(SourceFile::read_from(&path, text))),
        Err(why) => Err(format!("{}: {why}", shown(&path))),
    })
}

/// Why a file was not read.
fn why(error: &ReadError) -> String {
    match error {
        ReadError::NotFound => "there is no such file".to_owned(),
        ReadError::TooLarge(most) => format!("it has more than {most} bytes"),
        ReadError::Other(text) => text.clone(),
    }
}

/// A line of a file in words, each at its place; empty lines and comments (`#`) are left out.
pub(super) fn lines(file: FileId, text: &str) -> Vec<Vec<Sp<String>>> {
    let (mut lines, mut start) = (Vec::new(), 0);
    for whole in text.split_inclusive('\n') {
        let text = whole.split('#').next().unwrap_or_default();
        let words = text.split_ascii_whitespace().map(|word| {
            let first = start + (word.as_ptr() as usize - whole.as_ptr() as usize);
            let end = (first + word.len()) as u32;
            Sp::new(word.to_owned(), SourceSpan { file, start: first as u32, end })
        });
        let words: Vec<Sp<String>> = words.collect();
        start += whole.len();
        if !words.is_empty() {
            lines.push(words);
        }
    }
    lines
}

/// The place of the words of a line, of which there is at least one.
pub(super) fn whole(words: &[Sp<String>]) -> SourceSpan {
    let (first, last) = (&words[0], &words[words.len() - 1]);
    SourceSpan { end: last.span.end, ..first.span }
}

/// The number in a word; errors are reported.
pub(super) fn number<T: std::str::FromStr>(
    decoder: &mut Decoder<'_>,
    word: &Sp<String>,
    what: &str,
) -> Option<T> {
    let found = word.value.parse().ok();
    if found.is_none() {
        let message = format!("`{}` is no {what}", word.value);
        decoder.diagnostics.error(codes::BAD_NUMBER, word.span, message);
    }
    found
}
