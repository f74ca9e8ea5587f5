//! The page, its style and its scripts, inside the binary.

use hyper::StatusCode;
use hyper::body::Bytes;

use crate::live::http::{Answer, page, text};

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// Path, type, content.
const FILES: [(&str, &str, &str); 10] = [
    ("/", HTML, include_str!("page/index.html")),
    ("/style.css", CSS, include_str!("page/style.css")),
    ("/icon.svg", SVG, include_str!("page/icon.svg")),
    ("/main.js", SCRIPT, include_str!("page/main.js")),
    ("/dom.js", SCRIPT, include_str!("page/dom.js")),
    ("/rates.js", SCRIPT, include_str!("page/rates.js")),
    ("/overview.js", SCRIPT, include_str!("page/overview.js")),
    ("/queues.js", SCRIPT, include_str!("page/queues.js")),
    ("/program.js", SCRIPT, include_str!("page/program.js")),
    ("/tables.js", SCRIPT, include_str!("page/tables.js")),
];

/// The file at a path.
pub(super) fn answer(path: &str) -> Answer {
    match FILES.iter().find(|(known, ..)| *known == path) {
        Some(&(_, content_type, content)) => {
            page(Bytes::from_static(content.as_bytes()), content_type)
        }
        None => text(StatusCode::NOT_FOUND, "the page is at /\n"),
    }
}
