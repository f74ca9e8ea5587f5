//! A large entries file, read in parts: its entries are most of it, and no more than a few thousand are in memory at
//! once.
//!
//! The file is read twice. First the rest of it, with an empty list in place of the entries of each table, every line
//! in its place; this is read as any other file. Then the entries, as lists of whole items ([`Chunk`]), each read by
//! itself with as many empty lines before it as there are lines before it in the file, so that places are those of the
//! file.
//!
//! Items are recognised by their lines, so entries have to be a block list: a `- ` at the start of the line for each
//! entry, below the name of the table, below `entries:`. Entries in another form are read with the rest of the file,
//! which has to fit into memory. An alias cannot repeat what is in another part.

use std::io::BufRead;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use super::decode::{self, Decoder};
use super::load::{DATA_BYTES_MAX, Loader, ReadError};
use super::program::table;
use super::{entries, include, plain_list, yaml};
use crate::ast::EntryDecl;
use crate::ast::entries::EntriesFile;
use crate::diag::{Diagnostics, Files};
use crate::ids::{FileId, Id as _};
use crate::ir::SourceFile;
use crate::syntax;

/// Files up to this are read at once.
const WHOLE_BYTES_MAX: u64 = 8 << 20;
/// Bytes of items that are read at once, by one thread.
const CHUNK_BYTES: usize = 1 << 18;
/// Threads that read items.
const THREADS_MAX: usize = 4;

/// Sizes of the parts of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) whole_bytes_max: u64,
    pub(crate) chunk_bytes: usize,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes { whole_bytes_max: WHOLE_BYTES_MAX, chunk_bytes: CHUNK_BYTES }
    }
}

/// Some entries of a table.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// The table, as it is written.
    pub(crate) table: String,
    /// Those that could be read.
    pub(crate) entries: Vec<EntryDecl>,
}

/// The entries of a file, part by part.
pub(crate) struct Chunks {
    path: PathBuf,
    input: Box<dyn BufRead>,
    outline: Outline,
    sizes: Sizes,
    /// Lines taken from the input.
    lines: usize,
    /// The line that was taken last.
    line: Vec<u8>,
    /// The kind of the line read last, if it belongs to the next part.
    held: Option<Line>,
    /// Parts that are being read.
    under_way: Vec<UnderWay>,
    /// Why there are no further parts.
    failed: Option<Result<Vec<u8>, ReadError>>,
    /// Parts that were read, in reverse order.
    ready: Vec<Chunk>,
    /// Texts of parts that were returned.
    texts: Vec<FileId>,
}

/// A part that a thread reads while those before it are resolved. The thread has its text until then.
struct UnderWay {
    table: String,
    file: FileId,
    thread: JoinHandle<(String, Vec<EntryDecl>, Diagnostics)>,
}

/// Reads an entries file: all of it, or all except the parts that follow. `None`: the errors are in `diagnostics`.
pub(crate) fn open(
    path: &Path,
    loader: &Loader,
    sizes: Sizes,
    files: &mut Files,
    diagnostics: &mut Diagnostics,
) -> Option<(EntriesFile, Option<Chunks>)> {
    let before = diagnostics.counts().0;
    let is_large = loader.size(path).is_some_and(|bytes| bytes > sizes.whole_bytes_max);
    let bytes = match is_large {
        false => loader.read(path, DATA_BYTES_MAX),
        true => loader.open(path).and_then(rest_of),
    };
    let text = include::text(path, bytes, None, files, diagnostics)?;
    let node = decode::from_file(path, &text, files, diagnostics)?;
    drop(text);
    let file = match node.kind {
        super::node::NodeKind::Null => EntriesFile::default(),
        _ => entries::file(&mut Decoder::new(files, diagnostics), &node)?,
    };
    if diagnostics.counts().0 != before {
        return None;
    }
    let input = match is_large {
        false => return Some((file, None)),
        true => loader.open(path),
    };
    match input {
        Ok(input) => Some((file, Some(Chunks::new(path, input, sizes)))),
        Err(error) => {
            include::text(path, Err(error), None, files, diagnostics);
            None
        }
    }
}

/// The file without entries: an empty list in place of each list.
fn rest_of(mut input: Box<dyn BufRead>) -> Result<Vec<u8>, ReadError> {
    let (mut outline, mut rest, mut line) = (Outline::default(), Vec::new(), Vec::new());
    while next_line(&mut *input, &mut line)? {
        match outline.kind(&line) {
            Line::Rest => rest.extend_from_slice(&line),
            Line::First { indent } => {
                rest.resize(rest.len() + indent + 1, b' ');
                rest.extend_from_slice(b"[]\n");
            }
            Line::Item | Line::More => rest.push(b'\n'),
        }
        if rest.len() as u64 > DATA_BYTES_MAX {
            return Err(ReadError::TooLarge(DATA_BYTES_MAX));
        }
    }
    Ok(rest)
}

/// Takes a line with its end; false after the last one.
fn next_line(input: &mut dyn BufRead, line: &mut Vec<u8>) -> Result<bool, ReadError> {
    line.clear();
    let read = std::io::Read::take(input, DATA_BYTES_MAX + 1).read_until(b'\n', line);
    match read.map_err(|error| ReadError::Other(error.to_string()))? {
        0 => Ok(false),
        bytes if bytes as u64 > DATA_BYTES_MAX => Err(ReadError::TooLarge(DATA_BYTES_MAX)),
        _ => Ok(true),
    }
}

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// No part of an entry.
    Rest,
    /// The first line of the first entry of a table, with this indentation.
    First { indent: usize },
    /// The first line of another entry.
    Item,
    /// A later line of an entry, or an empty line or a comment in the list.
    More,
}

/// The position of a line in the file's structure.
#[derive(Debug, Default)]
struct Outline {
    in_entries: bool,
    /// The table whose name was the last line that is neither empty nor a comment, and its indentation.
    table: Option<(String, usize)>,
    /// The indentation of the list of its entries.
    list: Option<usize>,
}

impl Outline {
    fn kind(&mut self, line: &[u8]) -> Line {
        let body = line.trim_ascii();
        let indent = line.iter().take_while(|byte| **byte == b' ').count();
        let is_item = body == b"-" || body.starts_with(b"- ");
        if body.is_empty() || body.starts_with(b"#") {
            return if self.list.is_some() { Line::More } else { Line::Rest };
        }
        match (self.list, &self.table) {
            (Some(list), _) if indent > list => return Line::More,
            (Some(list), _) if indent == list && is_item => return Line::Item,
            (None, Some((_, table))) if indent >= *table && is_item => {
                self.list = Some(indent);
                return Line::First { indent };
            }
            _ => (self.list, self.table) = (None, None),
        }
        let key = key_of(body);
        if indent == 0 {
            self.in_entries = key == Some("entries");
        } else if let Some(name) = key.filter(|_| self.in_entries) {
            self.table = Some((name.to_owned(), indent));
        }
        Line::Rest
    }
}

/// The name in a line `name:`, or `block.name:` of a P4 source, with nothing after it.
fn key_of(body: &[u8]) -> Option<&str> {
    let (name, rest) = std::str::from_utf8(body).ok()?.split_once(':')?;
    let rest = rest.trim_start();
    (name.split('.').all(syntax::is_name) && (rest.is_empty() || rest.starts_with('#')))
        .then_some(name)
}

impl Chunks {
    fn new(path: &Path, input: Box<dyn BufRead>, sizes: Sizes) -> Chunks {
        Chunks {
            path: path.to_owned(),
            input,
            outline: Outline::default(),
            sizes,
            lines: 0,
            line: Vec::new(),
            held: None,
            under_way: Vec::new(),
            failed: None,
            ready: Vec::new(),
            texts: Vec::new(),
        }
    }

    /// The next part; its errors go to `diagnostics`. Texts of parts without diagnostics are freed.
    pub(crate) fn next(
        &mut self,
        files: &mut Files,
        diagnostics: &mut Diagnostics,
    ) -> Option<Chunk> {
        if self.ready.is_empty() {
            self.forget(files, diagnostics);
            self.read(files, diagnostics);
        }
        self.ready.pop()
    }

    /// Frees texts that no diagnostic points into.
    fn forget(&mut self, files: &mut Files, diagnostics: &Diagnostics) {
        for file in self.texts.drain(..) {
            let points = |finding: &crate::diag::Diagnostic| {
                let labels = finding.primary.iter().chain(&finding.secondary);
                labels.into_iter().any(|label| label.span.file == file)
            };
            if !diagnostics.iter().any(points) {
                files[file].text = String::new();
            }
        }
    }

    /// Takes the parts in progress, and starts reading the next ones.
    fn read(&mut self, files: &mut Files, diagnostics: &mut Diagnostics) {
        if self.under_way.is_empty() {
            self.start(files);
        }
        for UnderWay { table, file, thread } in std::mem::take(&mut self.under_way) {
            let read = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let (text, entries, found) = read;
            files[file].text = text;
            self.texts.push(file);
            diagnostics.append(found);
            self.ready.insert(0, Chunk { table, entries });
        }
        if let Some(error) = self.failed.take() {
            // A file with a read error counts as one that ends there.
            include::text(&self.path, error, None, files, diagnostics);
        } else {
            self.start(files);
        }
    }

    /// Begins to read as many parts as there are processors to read them.
    fn start(&mut self, files: &mut Files) {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        while self.under_way.len() < threads.min(THREADS_MAX) && self.failed.is_none() {
            let (table, bytes) = match self.part() {
                Ok(Some(part)) => part,
                Ok(None) => break,
                Err(error) => {
                    self.failed = Some(Err(error));
                    break;
                }
            };
            let text = match String::from_utf8(bytes) {
                Ok(text) => text,
                Err(error) => {
                    self.failed = Some(Ok(error.into_bytes()));
                    break;
                }
            };
            let file = files.push(SourceFile::read_from(&self.path, String::new()));
            let path = self.path.clone();
            let thread = std::thread::spawn(move || entries_in(file, &path, text));
            self.under_way.push(UnderWay { table, file, thread });
        }
    }

    /// The lines of some whole items of one table, after as many empty lines as there are lines before them.
    fn part(&mut self) -> Result<Option<(String, Vec<u8>)>, ReadError> {
        let (mut text, mut table, mut before) = (Vec::new(), None, 0);
        loop {
            let kind = match self.held.take() {
                Some(kind) => kind,
                None if next_line(&mut *self.input, &mut self.line)? => {
                    self.outline.kind(&self.line)
                }
                None => break,
            };
            let is_start = matches!(kind, Line::First { .. } | Line::Item);
            let is_enough = text.len() - before >= self.sizes.chunk_bytes.max(before / 2);
            let ends = table.is_some() && (kind == Line::Rest || is_start && is_enough);
            if ends {
                self.held = Some(kind);
                break;
            }
            if is_start && table.is_none() {
                table = self.outline.table.as_ref().map(|(table, _)| table.clone());
                before = self.lines;
                text.resize(before, b'\n');
            }
            if table.is_some() {
                text.extend_from_slice(&self.line);
            }
            self.lines += 1;
        }
        Ok(table.map(|table| (table, text)))
    }
}

/// The entries of a part, which is a list, with its text.
fn entries_in(file: FileId, path: &Path, text: String) -> (String, Vec<EntryDecl>, Diagnostics) {
    // The file has its number here too, so that spans are those of the caller's files.
    let mut files = Files::new();
    for _ in 0..file.index() {
        files.push(SourceFile::named("", String::new()));
    }
    let file = files.push(SourceFile::read_from(path, text));
    let mut found = Diagnostics::new();
    let text = files[file].text.as_str();
    let node = plain_list::read(file, text).or_else(|| yaml::parse(file, text, &mut found));
    let read = |node| table::entries(&mut Decoder::new(&files, &mut found), &node);
    let entries = node.map(read).unwrap_or_default();
    (std::mem::take(&mut files[file].text), entries, found)
}
